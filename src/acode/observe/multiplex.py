"""Many logs as one stream in the order of time, read from files: it never slows who writes them."""

from collections.abc import Callable, Iterable, Iterator
from heapq import heappop, heappush, heapreplace
from time import sleep
from typing import NamedTuple

from acode.clock import Clock
from acode.observe.logformat import LEVELS
from acode.observe.logparse import Record
from acode.observe.logread import FIRST_REST, LONGEST_REST, Rest, Tail, read

WINDOW_MS = 100
"""How long a line waits for earlier ones of other logs."""
SEARCH_MS = 1_000
"""How often new logs are looked for."""
ROUND_BLOCKS = 16
"""So much of one log is read before the others have their turn."""
REPEAT_BYTES = 1_024
"""Longer messages are not held to compare them with the next one."""
SILENCE_MS = 1_000
TELL_AGAIN_MS = 10_000

_RANKS = {level: rank for rank, level in enumerate(LEVELS)}
_TO_BASE_32 = str.maketrans("ABCDEFGHJKMNPQRSTVWXYZ", "ABCDEFGHIJKLMNOPQRSTUV")


class Source(NamedTuple):
    """One log, and a moment before its first record."""

    path: str
    starts_at: int = 0


def worker_source(path: str, worker_id: str) -> Source:
    """The log of a worker: it cannot be older than the worker's id."""
    try:
        return Source(path, int(worker_id[:10].translate(_TO_BASE_32), 32))
    except ValueError:
        return Source(path)


class Wanted(NamedTuple):
    """Which records are wanted."""

    since: int = 0
    level: str = LEVELS[0]
    """This one and worse."""
    worker_id: str | None = None
    task_id: str | None = None
    attempt: int | None = None

    def fits(self, record: Record) -> bool:
        """Whether this one is."""
        return (
            record.at >= self.since
            and _RANKS[record.level] >= _RANKS[self.level]
            and self.worker_id in (None, record.worker_id)
            and self.task_id in (None, record.task_id)
            and self.attempt in (None, record.attempt)
        )


def merge(sources: Iterable[tuple[int, Iterator[Record]]]) -> Iterator[Record]:
    """Streams in the order of time; the earlier source first where times are equal.

    A stream is begun when its first moment comes, so that not all files are open at once.
    """
    waiting = sorted(enumerate(sources), key=lambda item: item[1][0], reverse=True)
    heap: list[tuple[int, int, Record, Iterator[Record]]] = []
    while waiting or heap:
        while waiting and (not heap or waiting[-1][1][0] <= heap[0][0]):
            place, (_, records) = waiting.pop()
            for first in records:
                heappush(heap, (first.at, place, first, records))
                break
        if heap:
            _, place, record, records = heap[0]
            yield record
            _replace_first(heap, place, records)


def _replace_first(
    heap: list[tuple[int, int, Record, Iterator[Record]]], place: int, records: Iterator[Record]
) -> None:
    record = next(records, None)
    if record is None:
        heappop(heap)
    else:
        heapreplace(heap, (record.at, place, record, records))


class Window:
    """Puts lines that come from several logs at nearly the same time into their order."""

    def __init__(self, span_ms: int = WINDOW_MS) -> None:
        self._span_ms = span_ms
        self._heap: list[tuple[int, str, int, int, Record]] = []
        self._last: dict[str, int] = {}
        self._count = 0

    def __len__(self) -> int:
        return len(self._heap)

    def add(self, source: str, record: Record, now: int) -> None:
        """Take a line. Those of one source keep their order even if the clock went back."""
        at = self._last[source] = max(record.at, self._last.get(source, 0))
        self._count += 1
        heappush(self._heap, (at, source, self._count, now + self._span_ms, record))

    def due(self, now: int) -> Iterator[Record]:
        """The lines that have waited long enough; all of them where the clock went back."""
        while self._heap and not now < self._heap[0][3] <= now + self._span_ms:
            yield heappop(self._heap)[4]


class _Run:
    """A message and how often it has come again."""

    __slots__ = ("count", "last", "told_at")

    def __init__(self, record: Record) -> None:
        self.last = record
        self.told_at = record.at
        self.count = 0

    def goes_on_with(self, record: Record) -> bool:
        return self.last[1:] == record[1:]

    def tell(self) -> Iterator[Record]:
        if self.count:
            times = "1 time" if self.count == 1 else f"{self.count} times"
            yield self.last._replace(message=f"last message repeated {times}".encode())
        self.told_at, self.count = self.last.at, 0


class Repeats:
    """Lets a message through once and counts it while its source says nothing else."""

    def __init__(self) -> None:
        self._runs: dict[str | None, _Run] = {}

    def feed(self, record: Record) -> Iterator[Record]:
        """The record, or nothing, or what has to be said before it."""
        run = self._runs.get(record.worker_id)
        if run and run.goes_on_with(record):
            run.last, run.count = record, run.count + 1
            if record.at - run.told_at >= TELL_AGAIN_MS:
                yield from run.tell()
            return
        if run:
            yield from run.tell()
            del self._runs[record.worker_id]
        yield record
        # Empty lines are no messages, they are how people write.
        if not record.more and 0 < len(record.message) <= REPEAT_BYTES:
            self._runs[record.worker_id] = _Run(record)

    def flush(self, until: int | None = None) -> Iterator[Record]:
        """The counts of all, or of those who have been silent since a moment."""
        for run in self._runs.values():
            if until is None or run.last.at <= until:
                yield from run.tell()


class Multiplexer:
    """Many logs, of which some records are wanted."""

    def __init__(self, find: Callable[[], Iterable[Source]], wanted: Wanted) -> None:
        self._find = find
        self._wanted = wanted
        self._tails: dict[str, Tail] = {}
        self._repeats = Repeats()

    def read(self) -> Iterator[Record]:
        """What is there."""
        since = self._wanted.since
        sources = [(start, read(path, since)) for path, start in self._find()]
        for record in filter(self._wanted.fits, merge(sources)):
            yield from self._repeats.feed(record)
        yield from self._repeats.flush()

    def follow(self, clock: Clock, rest: Rest = sleep) -> Iterator[Record]:
        """What is there and all that comes. It never ends by itself."""
        for record in self._everything(clock, rest):
            if record is None:
                yield from self._repeats.flush(clock.now() - SILENCE_MS)
            elif self._wanted.fits(record):
                yield from self._repeats.feed(record)

    def close(self) -> None:
        """Let go of every file."""
        for tail in self._tails.values():
            tail.close()

    def _everything(self, clock: Clock, rest: Rest) -> Iterator[Record | None]:
        """All records in their order, and None whenever there is nothing to do."""
        started = searched = clock.now()
        yield from merge((start, _until(tail, started)) for start, tail in self._open())
        window = Window()
        pause = FIRST_REST
        while True:
            now = clock.now()
            if not 0 <= now - searched < SEARCH_MS:
                searched = now
                self._open()
            came = self._poll(window, now)
            yield from window.due(now)
            yield None
            pause = FIRST_REST if came or window else min(pause * 1.5, LONGEST_REST)
            rest(pause)

    def _open(self) -> list[tuple[int, Tail]]:
        """Logs that were not there before."""
        new = [source for source in self._find() if source.path not in self._tails]
        for source in new:
            self._tails[source.path] = Tail(source.path, since=self._wanted.since)
        return [(source.starts_at, self._tails[source.path]) for source in new]

    def _poll(self, window: Window, now: int) -> int:
        count = 0
        for path, tail in self._tails.items():
            for record in tail.poll(ROUND_BLOCKS):
                window.add(path, record, now)
                count += 1
        return count


def _until(tail: Tail, moment: int) -> Iterator[Record]:
    """What a log holds up to a moment: somebody may write faster than we read."""
    for record in tail.poll():
        yield record
        if record.at > moment:
            return
