"""What follows the crash of a worker: another start after a while, or none any more."""

import msgspec


class Restart(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """How long a crashed worker waits, and how often it is started again."""

    delay_ms: int = 1000
    max_delay_ms: int = 60_000
    max_restarts: int = 10
    healthy_after_ms: int = 600_000
    """A worker that ran this long is sound: its restarts are counted anew."""

    def __post_init__(self) -> None:
        if self.delay_ms < 0 or self.max_delay_ms < 0:
            raise ValueError("a restart delay must not be negative")
        if self.max_restarts < 0:
            raise ValueError("the number of restarts must not be negative")
        if self.healthy_after_ms < 1:
            raise ValueError("a restarted worker is healthy after 1 ms at the soonest")


class RestartAfter(msgspec.Struct, frozen=True, tag="restartAfter"):
    """The worker is started again after that long."""

    delay_ms: int


class GiveUp(msgspec.Struct, frozen=True, tag="giveUp"):
    """The worker has failed; a new one takes its place."""

    reason: str


def consecutive(restarts: int, ran_for_ms: int, settings: Restart) -> int:
    """How many restarts count at the end of a run of that length."""
    return 0 if ran_for_ms >= settings.healthy_after_ms else restarts


def after_crash(restarts: int, settings: Restart) -> RestartAfter | GiveUp:
    """What follows a crash after that many restarts in a row."""
    if restarts >= settings.max_restarts:
        return GiveUp(f"crashed again after {_restarts(restarts)}, no more are allowed")
    return RestartAfter(_delay_ms(restarts, settings))


def _delay_ms(restarts: int, settings: Restart) -> int:
    # So many doublings reach the maximum from any delay; more would only make the number long.
    doublings = min(restarts, settings.max_delay_ms.bit_length())
    return min(settings.delay_ms << doublings, settings.max_delay_ms)


def _restarts(count: int) -> str:
    return "1 restart" if count == 1 else f"{count} restarts"
