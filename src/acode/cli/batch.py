"""The tasks of a file as one batch that a second run of the same file goes on with."""

import os
from contextlib import suppress
from hashlib import sha256
from typing import TYPE_CHECKING

from msgspec.structs import replace

from acode.cli.add import read_tasks
from acode.cli.context import Context, drive
from acode.ids import is_prefix, new_id
from acode.model.task import Submission
from acode.spec import read_batch
from acode.spec.draft import Draft, submissions

if TYPE_CHECKING:
    from acode.store.base import Added


class Batch:
    """A file's tasks under keys made of what the file says and where in it they stand.

    A note in `.agent/run/batches` says that a run of this text is not finished. It holds the
    run's own id, which is part of the keys: so a second run finds the same tasks as long as the
    note is there, and new ones after it was taken away.
    """

    def __init__(self, context: Context, path: str) -> None:
        app = context.app
        data, self.source = read_tasks(path)
        self._drafts = read_batch(
            data,
            self.source,
            root=app.project.root,
            types=app.settings.agents,
            guard=app.guard,
            ceilings=app.ceilings,
        )
        self._context = context
        self._digest = sha256(data).hexdigest()[:16]
        self._note = os.path.join(app.project.run_dir, "batches", self._digest)

    def add(self) -> "list[Added]":
        """Store the tasks; those of an unfinished run are there already."""
        app = self._context.app
        app.project.prepare()
        run = self._run_id()
        drafts = [self._keyed(draft, run, place) for place, draft in enumerate(self._drafts)]
        wanted = drive(
            submissions(
                drafts,
                new_id=lambda: new_id(app.clock.now()),
                resolve=lambda prefix: app.reader().resolve(prefix),
            )
        )
        return self._store(app.pinned(wanted))

    def finished(self) -> None:
        """Every task has come to an end: the next run begins anew."""
        with suppress(FileNotFoundError):
            os.unlink(self._note)

    def _store(self, wanted: list[Submission]) -> "list[Added]":
        app = self._context.app
        size = app.settings.tasks.queue_size
        actor, ring = self._context.actor, app.rope.pull
        return drive(app.store().add(wanted, actor=actor, queue_size=size, ring=ring))

    def _keyed(self, draft: Draft, run: str, place: int) -> Draft:
        if draft.spec.key is not None:
            return draft
        return replace(draft, spec=replace(draft.spec, key=f"run:{self._digest}:{run}:{place + 1}"))

    def _run_id(self) -> str:
        """The id of the unfinished run of this text, or of a new one."""
        known = self._noted()
        if known is not None:
            return known
        os.makedirs(os.path.dirname(self._note), exist_ok=True)
        run = new_id(self._context.app.clock.now())
        draft = f"{self._note}.{run}"
        with open(draft, "x", encoding="ascii") as file:
            file.write(run)
        try:
            # Whoever comes first names the run; nobody ever reads half a note.
            os.link(draft, self._note)
        except FileExistsError:
            return self._noted() or run
        finally:
            os.unlink(draft)
        return run

    def _noted(self) -> str | None:
        try:
            with open(self._note, encoding="ascii") as file:
                run = file.read()
        except (FileNotFoundError, UnicodeDecodeError):
            return None
        if is_prefix(run):
            return run
        self.finished()  # torn by a crash
        return None
