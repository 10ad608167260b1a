"""Things that wait for each other in a circle."""

from collections.abc import Iterator, Mapping, Sequence

Waiting = Mapping[str, Sequence[str]]


def cycles(waits_for: Waiting) -> Iterator[list[str]]:
    """Circles, each as the way round: `[a, b, a]`. Together they touch every circle there is."""
    done: set[str] = set()
    for start in waits_for:
        yield from _from(start, waits_for, done)


def _from(
    start: str, waits_for: Mapping[str, Sequence[str]], done: set[str]
) -> Iterator[list[str]]:
    # Not recursive: ten thousand tasks may wait in one line.
    if start in done:
        return
    way = {start: 0}
    open_ends = [iter(waits_for[start])]
    while open_ends:
        name = next(open_ends[-1], None)
        if name is None:
            open_ends.pop()
            done.add(way.popitem()[0])
        elif name in way:
            yield [*list(way)[way[name] :], name]
        elif name in waits_for and name not in done:
            way[name] = len(way)
            open_ends.append(iter(waits_for[name]))
