"""`acode task diff` and `acode task restore`: what a task changed, and work brought back."""

import sys
from collections.abc import Iterator

from acode import peers
from acode.cli.context import Context, drive
from acode.cli.elsewhere import holder, own_id, record_of
from acode.errors import FileUnreadable, HostUnreachable, IllegalMove
from acode.human import clean
from acode.ids import host_name
from acode.model.state import FINISHED
from acode.model.task import Record

_COLOURS = {b"+": "32", b"-": "31", b"@": "36"}
_HEADS = (b"diff ", b"index ", b"--- ", b"+++ ", b"new file", b"deleted file", b"similarity ")


def diff(context: Context) -> int:
    """Print the patch that a task left."""
    store, screen = context.app.reader(), context.screen
    record = drive(store.record(context.resolve(store, context.args.id)))
    task = record.task
    patch = _patch_of(context, record)
    if screen.json:
        text = patch.decode("utf-8", "replace")
        screen.data({"id": task.id, "branch": task.result and task.result.branch, "patch": text})
        return 0
    if not patch:
        screen.note(f"{task.id} changed no files")
    elif screen.terminal:
        for line in _coloured(patch, colour=screen.colour):
            screen.line(line)
    else:
        # Byte for byte, so that git apply takes it whatever the files hold.
        screen.flush()
        sys.stdout.buffer.write(patch)
    return 0


def _patch_of(context: Context, record: Record) -> bytes:
    task = record.task
    path = task.result.patch if task.result is not None else None
    if path is None and task.status not in FINISHED:
        raise IllegalMove(f"{task.id} is {task.status}: there is no result yet")
    if path is None:
        return b""
    if (host := holder(context, record)) is not None:
        return peers.patch(host, task.id)
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise FileUnreadable(f"{path}: {error.strerror}", "its time to be kept is over") from error


def _coloured(patch: bytes, *, colour: bool) -> Iterator[str]:
    for line in patch.splitlines():
        text = clean(line.decode("utf-8", "replace"))
        code = "1" if line.startswith(_HEADS) else _COLOURS.get(line[:1])
        yield f"\x1b[{code}m{text}\x1b[0m" if code and colour else text


def restore(context: Context) -> int:
    """Bring the saved work of a task back as a branch."""
    from acode.workspace.results import restore as bring_back

    store, screen = context.app.reader(), context.screen
    task_id = context.resolve(store, context.args.id)
    if context.app.settings.store.is_shared:
        _refuse_elsewhere(record_of(context, task_id), own_id(context))
    branch = bring_back(context.app.project.root, task_id)
    if screen.json:
        screen.data({"id": task_id, "branch": branch})
    else:
        screen.line(branch)
        screen.note(f"git log -p {branch} shows it, git merge {branch} takes it over")
    return 0


def _refuse_elsewhere(record: Record, own: str | None) -> None:
    """Unfinished work is saved in the clone of the host that it was done on."""
    place = peers.last_place(record, own)
    if place is not None:
        name = host_name(place)
        raise HostUnreachable(
            f"the work of {record.task.id} was saved on {name}",
            f"run acode task restore {record.task.id} there, and push the branch",
        )
