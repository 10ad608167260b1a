"""How long to rest between two looks at the queue. A bell ends the rest early; this is the net."""

import math

import msgspec


class Polling(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How often the queue is asked while nothing happens."""

    poll_interval_ms: int = 1000
    max_ms: int = 30_000
    factor: float = 1.5

    def __post_init__(self) -> None:
        if self.poll_interval_ms < 1 or self.max_ms < 1:
            raise ValueError("polling needs a rest of at least 1 ms")
        if not 1 <= self.factor < math.inf:
            raise ValueError("the polling factor must be a number of at least 1")


def next_rest(
    previous_ms: int, found_work: bool, settings: Polling, next_ready_in_ms: int | None = None
) -> int:
    """How long to rest after a poll: longer after each empty one, short again after a claim.

    `next_ready_in_ms` says when the next delayed task becomes ready; nothing rests beyond that.
    """
    rest = settings.poll_interval_ms if found_work else _longer(previous_ms, settings)
    return min(rest, settings.max_ms, _until_ready(next_ready_in_ms, settings))


def _longer(previous_ms: int, settings: Polling) -> int:
    # Rounded up, or 1 ms would stay 1 ms for ever.
    grown = math.ceil(min(previous_ms * settings.factor, settings.max_ms))
    # A rest that a delayed task cut short must not be what the next ones grow from.
    return max(grown, settings.poll_interval_ms)


def _until_ready(next_ready_in_ms: int | None, settings: Polling) -> int:
    if next_ready_in_ms is None:
        return settings.max_ms
    # A task that is ready and yet was not claimed is held by something: look again, do not spin.
    return next_ready_in_ms if next_ready_in_ms > 0 else settings.poll_interval_ms
