"""Until when this host can be sure that nobody else has got its tasks."""

from acode.clock import uptime
from acode.worker import messages

SAFE_SHARE = 0.9
"""The rest of a lease is for clocks that run differently, and for what takes long to end."""
GRACE_SHARE = 1 / 6


class Tenure:
    """The host's lease as the host itself can reckon: from before it asked, on its own clock."""

    def __init__(self, host_id: str | None = None, lease_seconds: float | None = None) -> None:
        self.host_id = host_id
        self.lease_seconds = lease_seconds
        """None: the store is not shared, and time takes nothing."""
        self._until = 0.0

    def renewed(self, asked_at: float) -> None:
        """The store has prolonged it; what was said when we asked is certain."""
        self._until = asked_at + (self.lease_seconds or 0.0) * SAFE_SHARE

    def gone(self) -> None:
        """Others have got our tasks."""
        self._until = 0.0

    @property
    def is_over(self) -> bool:
        """Whether our tasks may be somebody else's."""
        return self.lease_seconds is not None and uptime() >= self._until

    @property
    def told(self) -> "messages.Tenure | None":
        """What a worker has to know."""
        if self.lease_seconds is None:
            return None
        return messages.Tenure(self._until, self.lease_seconds * GRACE_SHARE)
