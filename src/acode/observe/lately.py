"""What was completed in the last 24 hours, kept by the minute."""

MINUTE_MS = 60_000
DAY_MINUTES = 24 * 60


class Lately:
    """A sliding day. Its price does not grow with the number of tasks."""

    def __init__(self) -> None:
        self._minutes: dict[int, tuple[int, int]] = {}

    def add(self, at: int, took_ms: int) -> None:
        """One more was completed."""
        minute = at // MINUTE_MS
        count, total = self._minutes.get(minute, (0, 0))
        self._minutes[minute] = (count + 1, total + took_ms)

    def summary(self, now: int) -> tuple[int, int]:
        """How many, and how long one took on average, in milliseconds."""
        first = now // MINUTE_MS - DAY_MINUTES
        for minute in [minute for minute in self._minutes if minute < first]:
            del self._minutes[minute]
        count = sum(count for count, _ in self._minutes.values())
        total = sum(total for _, total in self._minutes.values())
        return count, round(total / count) if count else 0
