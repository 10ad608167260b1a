"""Pending tasks in the order in which they run: one heap per level, merged by age."""

import heapq
from collections.abc import Collection

from acode.model.priority import Priority, aged_level
from acode.model.state import Status
from acode.store.base import Circuit
from acode.store.memory.entry import Entry

_Item = tuple[int, int, Entry]


class ReadyTasks:
    """An entry that is not pending any more stays until it comes up, and is passed over then."""

    def __init__(self, ageing_ms: int) -> None:
        self._ageing_ms = ageing_ms
        self._heaps: tuple[list[_Item], ...] = tuple([] for _ in Priority)

    def put(self, entry: Entry) -> None:
        """Let a pending task wait for its turn."""
        heap = self._heaps[entry.task.spec.priority.level]
        heapq.heappush(heap, (entry.task.ready_at, entry.seq, entry))

    def take(self, limit: int, held: Collection[Circuit], now: int) -> list[Entry]:
        """Remove the most urgent ready tasks, none of a held circuit."""
        taken: list[Entry] = []
        passed: list[Entry] = []
        while len(taken) < limit and (level := self._most_urgent(now)) is not None:
            entry = heapq.heappop(self._heaps[level])[2]
            (passed if _is_held(entry, held) else taken).append(entry)
        for entry in passed:
            self.put(entry)
        return taken

    def oldest(self) -> int | None:
        """Since when the longest waiting one could have run."""
        heads = [heap[0][0] for heap in map(self._cleaned, self._heaps) if heap]
        return min(heads, default=None)

    def _most_urgent(self, now: int) -> int | None:
        ranks = []
        for level, heap in enumerate(map(self._cleaned, self._heaps)):
            if heap and heap[0][0] <= now:
                ready_at, seq, _ = heap[0]
                aged = aged_level(level, now - ready_at, self._ageing_ms)
                ranks.append((aged, ready_at, seq, level))
        return min(ranks)[3] if ranks else None

    def _cleaned(self, heap: list[_Item]) -> list[_Item]:
        while heap and not _is_current(heap[0]):
            heapq.heappop(heap)
        return heap


def _is_current(item: _Item) -> bool:
    task = item[2].task
    return task.status is Status.PENDING and task.ready_at == item[0]


def _is_held(entry: Entry, held: Collection[Circuit]) -> bool:
    spec = entry.task.spec
    return bool(held) and Circuit(spec.kind, spec.workstream_id) in held
