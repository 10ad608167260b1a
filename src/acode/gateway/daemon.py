"""How the gateway talks to the daemon: few questions, however many callers it has itself."""

import asyncio
from collections import defaultdict
from typing import Any

import msgspec

from acode.clock import ticks
from acode.engine.client import Refused
from acode.errors import PoolNotRunning, WorkerTimeout
from acode.sockets import short_path

ANSWER_SECONDS = 5.0
SLOW_SECONDS = 120.0
"""Scaling waits until the new workers are up."""
FRESH_SECONDS = 0.5
"""So old may an answer about the pool be; the daemon has better things to do than to answer."""
MAX_ANSWER_BYTES = 64 << 20


class Daemon:
    """The control socket, from an event loop."""

    def __init__(self, control_socket: str) -> None:
        self._socket = control_socket
        self._asking: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._said: dict[str, tuple[Any, float]] = {}
        """The last answers, and when they came."""

    async def ask(self, command: str, *, seconds: float = ANSWER_SECONDS, **words: Any) -> Any:
        """One question, one answer."""
        question = msgspec.json.encode({"command": command, **words}) + b"\n"
        try:
            line = await asyncio.wait_for(self._exchange(question), seconds)
        except TimeoutError as error:
            raise WorkerTimeout("the daemon does not answer") from error
        except OSError as error:
            raise PoolNotRunning("no worker pool runs for this project") from error
        if not line:
            raise PoolNotRunning("the worker pool ended while it was asked")
        answer = msgspec.json.decode(line)
        if "error" in answer:
            raise Refused(**answer["error"])
        return answer["ok"]

    async def _exchange(self, question: bytes) -> bytes:
        with short_path(self._socket) as path:
            reader, writer = await asyncio.open_unix_connection(path, limit=MAX_ANSWER_BYTES)
        try:
            writer.write(question)
            return await reader.readline()
        finally:
            writer.close()

    async def status(self) -> Any:
        """What the daemon says of its pool, or said a moment ago."""
        return await self.recent("status")

    async def recent(self, command: str) -> Any:
        """An answer that may be a moment old: however many ask us, the daemon is asked seldom."""
        if (fresh := self._fresh(command)) is None:
            async with self._asking[command]:
                if (fresh := self._fresh(command)) is None:
                    fresh = self._said[command] = (await self.ask(command), ticks())
        return fresh[0]

    def has_said(self, command: str) -> bool:
        """Whether an answer is at hand."""
        return self._fresh(command) is not None

    def _fresh(self, command: str) -> tuple[Any, float] | None:
        said = self._said.get(command)
        return said if said is not None and ticks() - said[1] <= FRESH_SECONDS else None

    async def scale(self, count: int) -> Any:
        """Another size for the pool."""
        try:
            return await self.ask("scale", seconds=SLOW_SECONDS, count=count)
        finally:
            self._said.clear()
