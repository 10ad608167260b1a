"""Whether a worker hangs. A daemon that slept blames itself first.

Moments are of one clock; best of one that never jumps, though a jump only looks like a sleep.
"""

from typing import Final

import msgspec

MISSED_HEARTBEATS: Final = 3
"""A worker that has missed so many in a row hangs."""


class Watch(msgspec.Struct, frozen=True):
    """The daemon's own attention: when it looked last, and since when without a gap."""

    looked_at: int
    since: int


def look(before: Watch | None, now: int, interval_ms: int) -> Watch:
    """The daemon looks again, as it should once per heartbeat; a gap starts the watch anew."""
    if before is None or not _attentive(before, now, interval_ms):
        return Watch(looked_at=now, since=now)
    return Watch(looked_at=now, since=before.since)


def _attentive(before: Watch, now: int, interval_ms: int) -> bool:
    # A sound worker was heard at most one heartbeat before the last look. One missed heartbeat
    # less than it takes to hang is therefore as long as the daemon may be away.
    return before.looked_at <= now <= before.looked_at + (MISSED_HEARTBEATS - 1) * interval_ms


def is_hung(last_heartbeat: int, watch: Watch, interval_ms: int) -> bool:
    """Whether a worker has been silent for three heartbeats while the daemon was listening.

    One that has not been heard yet counts from its start.
    """
    silent_for = watch.looked_at - max(last_heartbeat, watch.since)
    return silent_for > MISSED_HEARTBEATS * interval_ms
