"""What the memory store keeps of one task."""

from typing import Any

import msgspec
from msgspec.structs import replace

from acode.model.task import Attempt, Move, Record, Task
from acode.model.verdict import Report


class Entry(msgspec.Struct, gc=False):
    """One task and everything that belongs to it. The only mutable thing of the store.

    The garbage collector need not look at it, nor at what most tasks never have: a program with
    thousands of tasks in its queue would pay for that again and again.
    """

    task: Task
    level: int
    seq: int
    moves: list[Move]
    turn: int = 0
    token: str | None = None
    attempts: tuple[Attempt, ...] = ()
    steps: dict[str, tuple[Any, int]] | None = None
    dependents: tuple[str, ...] = ()

    def values(self) -> dict[str, Any]:
        """The finished steps and their values."""
        return {name: value for name, (value, _) in self.steps.items()} if self.steps else {}

    def record(self) -> Record:
        """Everything that is known of it."""
        return Record(self.task, self.attempts, tuple(self.moves))


def mentions(task: Task, text: str) -> bool:
    """Whether somebody who looks for this, in small letters, means the task."""
    spec = task.spec
    words = (spec.title, spec.command, *spec.args, spec.workstream_id)
    return task.id.lower().startswith(text) or any(text in (word or "").lower() for word in words)


def ended(attempt: Attempt, report: Report) -> Attempt:
    """An attempt that is over."""
    return replace(
        attempt,
        ended_at=report.ended_at,
        ending=report.ending,
        error=report.verdict.failure,
        usage=report.usage,
    )
