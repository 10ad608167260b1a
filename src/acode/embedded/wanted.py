"""What a pool was made with, and the same in the daemon's words."""

import msgspec
from msgspec import convert

from acode.errors import ConfigError
from acode.policy.breaker import Breaker
from acode.policy.retry import Retry
from acode.runner.handlers import Hook
from acode.settings import Settings
from acode.settings.tree import Breaker as BreakerSettings
from acode.settings.tree import PoolLimits, Tasks, Workers
from acode.settings.tree import Retry as RetrySettings

LIMITS = {"workers": 1, "queue_size": 1, "task_timeout": 0.001, "stall_timeout": 0.01}
WHOLE = ("workers", "queue_size")


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What the pool was made with."""

    workers: int
    queue_size: int
    task_timeout: float
    shutdown_timeout: float
    store: str
    isolation: str
    retry: Retry
    breaker: Breaker
    ageing_minutes: float
    stall_timeout: float
    keep_history_days: float
    checkpoint_max_age_days: float
    on_failure: Hook | None

    def __post_init__(self) -> None:
        if self.isolation not in ("inline", "process"):
            raise ConfigError(f"isolation {self.isolation!r} is neither inline nor process", "")
        for name, least in LIMITS.items():
            value = getattr(self, name)
            if not isinstance(value, int if name in WHOLE else int | float):
                raise ConfigError(f"{name} is a number, not {value!r}", "")
            if not value >= least:
                raise ConfigError(f"{name} must be at least {least:g}", "")

    @property
    def settings(self) -> Settings:
        """The same in the daemon's words."""
        return Settings(
            workers=Workers(count=self.workers, pool_limits=PoolLimits(concurrent_tasks=1_000_000)),
            tasks=Tasks(queue_size=self.queue_size, timeout_seconds=self.task_timeout),
            retry=convert(self.retry, RetrySettings, from_attributes=True),
            breaker=convert(self.breaker, BreakerSettings, from_attributes=True),
        )
