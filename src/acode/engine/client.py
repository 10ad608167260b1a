"""How a door talks to the daemon of a project. Plain sockets: the CLI has no time for asyncio."""

import socket
from typing import Any

import msgspec

from acode.errors import AcodeError, PoolNotRunning, WorkerTimeout
from acode.sockets import connect

ANSWER_SECONDS = 30.0


class Refused(AcodeError):
    """The daemon said no."""

    def __init__(self, code: str, message: str, hint: str) -> None:
        super().__init__(message, hint)
        self.code = code  # type: ignore[misc]  # the daemon's own word, not the class's


def ask(control_socket: str, command: str, *, seconds: float = ANSWER_SECONDS, **words: Any) -> Any:
    """One question, one answer."""
    try:
        wire = connect(control_socket)
    except OSError as error:
        raise PoolNotRunning("no worker pool runs for this project") from error
    with wire:
        wire.settimeout(seconds)
        wire.sendall(msgspec.json.encode({"command": command, **words}) + b"\n")
        return _answer(wire)


def _answer(wire: socket.socket) -> Any:
    received = b""
    while not received.endswith(b"\n"):
        try:
            chunk = wire.recv(1 << 16)
        except TimeoutError as error:
            raise WorkerTimeout("the daemon does not answer") from error
        except ConnectionError:
            chunk = b""
        if not chunk:
            raise PoolNotRunning("the worker pool ended while it was asked")
        received += chunk
    answer = msgspec.json.decode(received)
    if "error" in answer:
        raise Refused(**answer["error"])
    return answer["ok"]
