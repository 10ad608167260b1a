"""ULIDs: 48 bits of milliseconds, 80 random bits, in Crockford's alphabet; sortable by time."""

# Written by hand because importing python-ulid costs every command 45 ms.

import os
from _thread import allocate_lock

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_PAIRS = tuple(high + low for high in _ALPHABET for low in _ALPHABET)
LENGTH = 26


class IdSource:
    """Makes ids that rise strictly, also within one millisecond and across threads."""

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._last = 0
        self._high, self._text = 0, encode(0)[:18]
        """All but the lowest 40 bits of the last one, as number and text: they seldom change."""

    def new(self, now_ms: int) -> str:
        """An id for this moment, larger than every id made before."""
        return self.several(now_ms, 1)[0]

    def several(self, now_ms: int, count: int) -> list[str]:
        """The same for many at once: the system is asked for chance once."""
        if count == 0:
            return []
        chance = memoryview(os.urandom(6 + 4 * count))
        fresh = now_ms << 80 | int.from_bytes(chance[:10])
        with self._lock:
            if fresh >> 80 <= self._last >> 80:
                # Same millisecond, or a clock that went back: count on from the last one, by a
                # random step, because a forked process counts on from the same one.
                fresh = self._last + 1 + (fresh & 0xFFFFFFFF)
            texts = [self._text_of(fresh)]
            for step in chance[10:].cast("I"):
                fresh += 1 + step
                texts.append(self._text_of(fresh))
            self._last = fresh
        return texts

    def _text_of(self, fresh: int) -> str:
        if fresh >> 40 != self._high:
            self._high, self._text = fresh >> 40, encode(fresh)[:18]
        low = fresh & 0xFFFFFFFFFF
        return (
            f"{self._text}{_PAIRS[low >> 30]}{_PAIRS[low >> 20 & 1023]}"
            f"{_PAIRS[low >> 10 & 1023]}{_PAIRS[low & 1023]}"
        )


def encode(number: int) -> str:
    """128 bits as 26 characters."""
    return "".join([_PAIRS[number >> shift & 1023] for shift in range(120, -1, -10)])


_source = IdSource()
new_id = _source.new
new_ids = _source.several


def normalise(text: str) -> str:
    """An id or a prefix of one as people type it, with or without `worker-`."""
    return text.strip().removeprefix("worker-").upper()


def is_prefix(text: str) -> bool:
    """Whether this could be the beginning of an id."""
    return 0 < len(text) <= LENGTH and all(letter in _ALPHABET for letter in text)


def host_name(host_id: str | None) -> str | None:
    """What people call a host: it is part of its id, so it is known when the host is not."""
    return None if host_id is None else host_id[: -LENGTH - 1] or host_id
