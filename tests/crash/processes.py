"""Children that can be killed at any moment, forked from a server that has acode loaded."""

import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.context import ForkServerContext, ForkServerProcess
from typing import Any

CONTEXT: ForkServerContext = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload(["asyncio", "acode.store.memory", "acode.store.sql.group"])


@contextmanager
def child(work: Callable[..., None], *args: Any) -> Iterator[ForkServerProcess]:
    """A process that works until it ends, or until this block does."""
    process = CONTEXT.Process(target=work, args=args, daemon=True)
    process.start()
    try:
        yield process
    finally:
        process.kill()
        process.join()


def end_of(work: Callable[..., None], *args: Any) -> int | None:
    """Let a process work to its end; its exit code, negative for the signal that killed it."""
    with child(work, *args) as process:
        process.join(60)
        return process.exitcode


def ends_of(*works: tuple[Callable[..., None], tuple[Any, ...]]) -> list[int | None]:
    """Let processes work at the same time."""
    crowd = [CONTEXT.Process(target=work, args=args, daemon=True) for work, args in works]
    for process in crowd:
        process.start()
    for process in crowd:
        process.join(120)
    ends = [process.exitcode for process in crowd]
    for process in crowd:
        process.kill()
    return ends
