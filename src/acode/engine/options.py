"""What `worker start` tells the daemon beyond the settings."""

import msgspec

from acode.model.task import Mode


class DaemonOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Given as JSON on the daemon's command line."""

    root: str
    config: str | None = None
    count: int | None = None
    mode: Mode | None = None
    autoscale: bool = False
    keep_worktrees: bool = False
    keep_containers: bool = False
    foreground: bool = False
    """Somebody reads standard error: the log goes there, too."""
    ready: int | None = None
    """A descriptor to write a line of JSON to as soon as every worker is idle or has failed."""
