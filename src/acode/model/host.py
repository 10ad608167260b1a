"""A host: one daemon that shares the queue with others, on this machine or elsewhere."""

from typing import Any

import msgspec


class Host(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Who takes part. The id outlives the process: a daemon that starts again goes on as it was."""

    id: str
    name: str
    """Of the machine, as people call it."""
    boot_id: str
    pid: int
    address: str | None = None
    """Where its gateway answers."""
    key: str | None = None
    """With which others read what tasks left there. Never shown."""
    runs: dict[str, Any] = {}
    """What it runs, in words for people: mode, version, directory."""


class HostState(msgspec.Struct, frozen=True, kw_only=True):
    """A host as the store knows it. Moments are by the store's clock."""

    host: Host
    joined_at: int
    seen_at: int
    lease_until: int | None
    """Until then nobody takes what it holds; None if time alone takes nothing."""
    lost_at: int | None = None
    """Since when others may take what it holds, because it fell silent."""
    pool: Any = None
    """What it last published of its workers."""
