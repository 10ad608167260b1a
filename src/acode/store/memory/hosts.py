"""Who takes part in a store in memory: nobody's time runs out."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from acode.clock import Clock
from acode.errors import LeaseLost, StoreUnusable
from acode.model.host import Host, HostState
from acode.model.task import Lease


class Hosting(ABC):
    """The part of the store that knows hosts, and whether it is open."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._hosts: dict[str, HostState] = {}
        self._closed = False

    @abstractmethod
    async def leases(self, host_id: str | None = None) -> list[Lease]:
        """Every lease that is out, or those of one host."""

    def _check_open(self) -> None:
        if self._closed:
            raise StoreUnusable("the store is closed")

    async def close(self) -> None:
        """Refuse everything from now on."""
        self._closed = True

    async def join(self, host: Host, lease_ms: int) -> None:  # noqa: ARG002 -- nothing runs out
        """Take part as this host."""
        self._check_open()
        now, known = self._clock.now(), self._hosts.get(host.id)
        joined_at, pool = (known.joined_at, known.pool) if known else (now, None)
        self._hosts[host.id] = HostState(
            host=host, joined_at=joined_at, seen_at=now, lease_until=None, pool=pool
        )

    async def renew(self, host_id: str, pool: Any = None) -> frozenset[str]:
        """The tokens that the host holds."""
        self._check_open()
        if host_id not in self._hosts:
            raise LeaseLost(f"host {host_id} is no longer taking part", "join again")
        state = self._hosts[host_id]
        told = state.pool if pool is None else pool
        self._hosts[host_id] = replace(state, seen_at=self._clock.now(), pool=told)
        return frozenset(lease.token for lease in await self.leases(host_id))

    async def expire(self, host_id: str) -> list[Lease]:  # noqa: ARG002 -- nobody falls silent
        """Nothing to take over."""
        self._check_open()
        return []

    async def leave(self, host_id: str) -> None:
        """Take part no more."""
        if not await self.leases(host_id):
            self._hosts.pop(host_id, None)

    async def hosts(self) -> list[HostState]:
        """Who takes part."""
        self._check_open()
        return sorted(self._hosts.values(), key=lambda one: (one.joined_at, one.host.id))

    async def listen(self, ring: Callable[[], None]) -> None:  # noqa: ARG002 -- nobody does
        """Nobody else can write."""
        self._check_open()
