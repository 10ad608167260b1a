"""Which tasks a listing of the memory store shows, and in what order."""

from acode.model.task import Task
from acode.store.base import BY_STATUS, TaskQuery
from acode.store.memory.entry import Entry, mentions


def fits(task: Task, query: TaskQuery) -> bool:
    """Whether a listing shows the task."""
    return (
        (not query.statuses or task.status in query.statuses)
        and query.priority in (None, task.spec.priority)
        and query.workstream_id in (None, task.spec.workstream_id)
        and (not query.text or mentions(task, query.text.lower()))
    )


def place(entry: Entry, by: str) -> tuple[int, int]:
    """Where in the listing it stands."""
    match by:
        case "priority":
            return entry.task.spec.priority.level, entry.seq
        case "status":
            return BY_STATUS.index(entry.task.status), entry.seq
        case _:
            return 0, entry.seq
