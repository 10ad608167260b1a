"""What the memory store keeps of one task."""

from typing import Any

from msgspec.structs import replace

from acode.model.task import Attempt, Move, Task
from acode.model.verdict import Fail, Report, RetryAt


class Entry:
    """One task and everything that belongs to it. The only mutable thing of the store."""

    __slots__ = ("attempts", "dependents", "moves", "seq", "steps", "task", "token", "turn")

    def __init__(self, task: Task) -> None:
        self.task = task
        self.seq = 0
        self.turn = 0
        self.token: str | None = None
        self.attempts: list[Attempt] = []
        self.moves: list[Move] = []
        self.steps: dict[str, tuple[Any, int]] = {}
        self.dependents: list[str] = []


def mentions(task: Task, text: str) -> bool:
    """Whether somebody who looks for this, in small letters, means the task."""
    spec = task.spec
    words = (spec.title, spec.command, *spec.args, spec.workstream_id)
    return task.id.lower().startswith(text) or any(text in (word or "").lower() for word in words)


def ended(attempt: Attempt, report: Report) -> Attempt:
    """An attempt that is over."""
    verdict = report.verdict
    return replace(
        attempt,
        ended_at=report.ended_at,
        ending=report.ending,
        error=verdict.failure if isinstance(verdict, Fail | RetryAt) else None,
        usage=report.usage,
    )
