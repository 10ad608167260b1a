"""From a store's address to an open store, and the lock that makes a file one pool's own."""

import os
from typing import NamedTuple

from acode.clock import Clock
from acode.embedded.begun import Begun
from acode.engine.lock import DaemonLock
from acode.errors import ConfigError, PoolRunning
from acode.store.base import Store
from acode.store.opening import is_shared, open_postgres

_MEMORY = "memory"
_SQLITE = "sqlite:///"
KEPT_IN_MEMORY = 1000
"""Finished tasks that a store in memory remembers."""


class Opened(NamedTuple):
    """A store and what belongs to it."""

    store: Store
    durable: bool
    lock: DaemonLock | None = None
    shared: bool = False
    """Other programs may work on it, too."""
    clock: Clock | None = None
    """The time that it goes by, if it is not ours."""
    begun: Begun | None = None

    def close(self) -> None:
        """Let go of what is beside the store."""
        if self.begun is not None:
            self.begun.close()
        if self.lock is not None:
            self.lock.release()


def is_in_memory(url: str) -> bool:
    """Whether the store has no file, no thread and no connection."""
    return url == _MEMORY


def load_store(url: str) -> None:
    """Load the code of a store, before the program is forked.

    What is loaded later changes pages that the program shares with its workers until then.
    """
    if is_in_memory(url):
        import acode.store.memory
    elif url.startswith(_SQLITE):
        import acode.store.sql.group
        import acode.store.sqlite  # noqa: F401 -- loaded is what it is meant to be


def open_store(url: str, clock: Clock, ageing_ms: int) -> Opened:
    """The store of this address, ready for one pool."""
    if is_in_memory(url):
        from acode.store.memory import MemoryStore

        return Opened(MemoryStore(clock, ageing_ms=ageing_ms, keep=KEPT_IN_MEMORY), durable=False)
    if url.startswith(_SQLITE) and len(url) > len(_SQLITE):
        return _open_file(url.removeprefix(_SQLITE), clock, ageing_ms)
    if is_shared(url):
        shared = open_postgres(url, ageing_ms, grouped=True)
        return Opened(shared, durable=True, shared=True, clock=shared.clock)
    raise ConfigError(
        "the address of the store is not understood",
        "use memory, sqlite:///FILE, sqlite:////ABSOLUTE/FILE, or postgresql://…",
    )


def _open_file(path: str, clock: Clock, ageing_ms: int) -> Opened:
    from acode.store.sqlite import SqliteStore

    path = os.path.abspath(path)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    lock = DaemonLock(f"{path}-pool")
    try:
        lock.take()
    except PoolRunning:
        lock.release()
        raise PoolRunning(
            f"another pool works on {path}", "stop it first, or give this pool a file of its own"
        ) from None
    try:
        store = SqliteStore.open(path, clock, ageing_ms=ageing_ms)
    except BaseException:
        lock.release()
        raise
    return Opened(store, durable=True, lock=lock, begun=Begun(f"{path}-begun"))
