"""Adding without looking first: one way to the server, for tasks that concern nobody else.

The statement writes all or nothing, and nothing unless there is room and every id is new. Then
somebody has to look, and the usual way does.
"""

from collections.abc import Sequence

from acode.model.task import Task
from acode.store.admission import Present, admit
from acode.store.base import Added
from acode.store.postgres.transaction import statement
from acode.store.postgres.wire import Answer, Wire
from acode.store.sql.intake import Addition, add
from acode.store.sql.rows import text
from acode.store.sql.writer import Writes

_NOBODY = Present({}, {}, 0)


def plain_additions(writes: Writes) -> list[Addition]:
    """What is added, if nothing else is to be done and nobody else has to be looked at."""
    additions = [one for write, requests in writes if write is add for one in requests]
    alone = all(write is add for write, _ in writes)
    return additions if alone and all(map(_is_plain, additions)) else []


def _is_plain(addition: Addition) -> bool:
    submissions, _, queue_size = addition
    nobody = all(one.spec.key is None and not one.spec.dependencies for one in submissions)
    return nobody and 0 < len(submissions) <= queue_size


class AtOnce:
    """The rows of some additions, and what to answer when they are written."""

    def __init__(self, additions: Sequence[Addition]) -> None:
        self.answers: list[list[Added]] = []
        self._tasks: list[Task] = []
        self._actors: list[str] = []
        self._room = min(one.queue_size for one in additions)
        for submissions, actor, queue_size in additions:
            admitted = admit(submissions, _NOBODY, queue_size=queue_size, now=0)
            self.answers.append(admitted.added)
            self._tasks += admitted.tasks
            self._actors += [actor] * len(admitted.tasks)

    @property
    def ids(self) -> list[str]:
        """Of the tasks that are written."""
        return [task.id for task in self._tasks]

    def send(self, wire: Wire, moment: int | None, shard: int) -> Answer:
        """Send the statement; its answer has a row if it has written."""
        specs = [task.spec for task in self._tasks]
        given = {
            "ids": self.ids,
            "levels": [spec.priority.level for spec in specs],
            "kinds": [spec.kind for spec in specs],
            "workstreams": [spec.workstream_id for spec in specs],
            "delays": [task.ready_at for task in self._tasks],
            "specs": [text(spec) for spec in specs],
            "actors": self._actors,
        }
        same = {"now": moment, "shard": shard, "count": len(specs), "room": self._room}
        return wire.execute(statement("add_at_once"), {**given, **same})
