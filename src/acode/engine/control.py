"""The control socket: a line of JSON in, a line of JSON out."""

import asyncio
import os
from collections.abc import Awaitable, Callable, Collection
from contextlib import suppress
from typing import Any

import msgspec

from acode.errors import AcodeError, UsageError
from acode.runner.peers import is_below
from acode.sockets import is_trusted, listen

Command = Callable[[dict[str, Any]], Awaitable[dict[str, Any]]]
MAX_LINE_BYTES = 1 << 20


class ControlServer:
    """Answers the doors of this machine, for the same user only."""

    def __init__(
        self,
        path: str,
        commands: dict[str, Command],
        refused: Callable[[], Collection[int]] = tuple,
    ) -> None:
        """Whoever is below one of the refused processes gets no answer."""
        self._path = path
        self._refused = refused
        self._commands = commands
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen."""
        self._server = await asyncio.start_unix_server(
            self._serve, sock=listen(self._path), limit=MAX_LINE_BYTES
        )

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            wire = writer.get_extra_info("socket")
            if not is_trusted(wire) or ((pids := self._refused()) and is_below(wire, pids)):
                return
            while line := await reader.readline():
                writer.write(msgspec.json.encode(await self._answer(line)) + b"\n")
                await writer.drain()
        except (ConnectionError, ValueError):
            return  # gone, or a line that is far too long
        finally:
            writer.close()

    async def _answer(self, line: bytes) -> dict[str, Any]:
        try:
            request = msgspec.json.decode(line, type=dict[str, Any])
            command = self._commands.get(str(request.get("command")))
            if command is None:
                raise UsageError(f"the daemon knows no command {request.get('command')!r}")
            return {"ok": await command(request)}
        except msgspec.MsgspecError as error:
            return {"error": {"code": "USAGE", "message": str(error), "hint": ""}}
        except AcodeError as error:
            return {"error": {"code": error.code, "message": str(error), "hint": error.hint}}

    async def stop(self) -> None:
        """Answer no more."""
        if self._server is not None:
            self._server.close()
            self._server = None
        with suppress(FileNotFoundError):
            os.unlink(self._path)
