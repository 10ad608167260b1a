"""Token buckets: how much one may ask for in a while."""

from acode.clock import ticks


class Bucket:
    """Fills at a rate up to its size; a request takes one out, or is refused."""

    def __init__(self, rate: float, size: float) -> None:
        self._rate = rate
        self._size = size
        self._level = size
        self._at = ticks()

    def take(self) -> bool:
        """Whether there was one left."""
        now = ticks()
        self._level = min(self._size, self._level + (now - self._at) * self._rate)
        self._at = now
        if self._level < 1:
            return False
        self._level -= 1
        return True

    @property
    def is_empty(self) -> bool:
        """Whether the next one would be refused."""
        return self._level + (ticks() - self._at) * self._rate < 1
