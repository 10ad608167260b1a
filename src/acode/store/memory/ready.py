"""Pending tasks in the order in which they run: one heap per level, merged by age."""

import heapq
from collections.abc import Collection

from acode.model.priority import Priority, aged_level
from acode.model.state import Status
from acode.store.base import Circuit, WholeKind
from acode.store.memory.entry import Entry

_Item = tuple[int, int, int, Entry]
"""Ready at, order of arrival, turn; an entry's newest turn is the one that counts."""


class ReadyTasks:
    """An entry that is not pending any more stays until it comes up, and is passed over then."""

    def __init__(self, ageing_ms: int) -> None:
        self._ageing_ms = ageing_ms
        self._heaps: tuple[list[_Item], ...] = tuple([] for _ in Priority)
        self._turns = 0

    def put(self, entry: Entry) -> None:
        """Let a pending task wait for its turn."""
        self._turns += 1
        entry.turn = self._turns
        heap = self._heaps[entry.level]
        heapq.heappush(heap, (entry.task.ready_at, entry.seq, entry.turn, entry))

    def first(self, limit: int, held: Collection[Circuit | WholeKind], now: int) -> list[Entry]:
        """The most urgent ready tasks, none of a held circuit. They stay until they move."""
        found: list[Entry] = []
        if limit == 1 and not held:
            level = self._most_urgent(now)
            return found if level is None else [self._heaps[level][0][-1]]
        passed: list[tuple[int, _Item]] = []
        while len(found) < limit and (level := self._most_urgent(now)) is not None:
            item = heapq.heappop(self._heaps[level])
            passed.append((level, item))
            if not _is_held(item[-1], held):
                found.append(item[-1])
        for level, item in passed:
            heapq.heappush(self._heaps[level], item)
        return found

    def oldest(self) -> int | None:
        """Since when the longest waiting one could have run."""
        heads = [heap[0][0] for heap in map(self._cleaned, self._heaps) if heap]
        return min(heads, default=None)

    def _most_urgent(self, now: int) -> int | None:
        ready = []
        for level, heap in enumerate(self._heaps):
            if heap and self._cleaned(heap) and heap[0][0] <= now:
                ready.append(level)
        # Most programs never ask for a priority.
        return min(ready, key=lambda level: self._rank(level, now)) if ready[1:] else _only(ready)

    def _rank(self, level: int, now: int) -> tuple[int, int, int]:
        ready_at, seq, *_ = self._heaps[level][0]
        return aged_level(level, now - ready_at, self._ageing_ms), ready_at, seq

    def _cleaned(self, heap: list[_Item]) -> list[_Item]:
        while heap:
            _, _, turn, entry = heap[0]
            if entry.turn == turn and entry.task.status is Status.PENDING:
                break
            heapq.heappop(heap)
        return heap


def _only(levels: list[int]) -> int | None:
    return levels[0] if levels else None


def _is_held(entry: Entry, held: Collection[Circuit | WholeKind]) -> bool:
    spec = entry.task.spec
    if not held:
        return False
    return Circuit(spec.kind, spec.workstream_id) in held or WholeKind(spec.kind) in held
