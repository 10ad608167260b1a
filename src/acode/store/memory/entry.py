"""What the memory store keeps of one task."""

from typing import Any

from acode.model.task import Attempt, Move, Task


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
