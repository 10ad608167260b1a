"""How a door talks to the daemon of a project. Plain sockets: the CLI has no time for asyncio."""

from contextlib import closing
from typing import TYPE_CHECKING, Any

import msgspec

from acode.errors import AcodeError, PoolNotRunning, WorkerTimeout
from acode.sockets import call

if TYPE_CHECKING:
    from _socket import socket

ANSWER_SECONDS = 5.0
"""A daemon that has not answered a simple question by then hangs."""


class Refused(AcodeError):
    """The daemon said no, in its own words."""

    def __init__(self, code: str, message: str, hint: str, exit_code: int = 1) -> None:
        super().__init__(message, hint)
        self.code = code  # type: ignore[misc]  # the daemon's own word, not the class's
        self.exit_code = exit_code  # type: ignore[misc]


def ask(control_socket: str, command: str, *, seconds: float = ANSWER_SECONDS, **words: Any) -> Any:
    """One question, one answer."""
    try:
        wire = call(control_socket, seconds)
    except BlockingIOError as error:  # so many wait for an answer that there is no room for us
        raise WorkerTimeout("the daemon does not answer") from error
    except OSError as error:
        raise PoolNotRunning("no worker pool runs for this project") from error
    with closing(wire):
        answer = msgspec.json.decode(
            _exchange(wire, msgspec.json.encode({"command": command, **words}) + b"\n")
        )
    if "error" in answer:
        raise _refusal(**answer["error"])
    return answer["ok"]


def _refusal(code: str, message: str, hint: str) -> AcodeError:
    if code == PoolNotRunning.code:
        return PoolNotRunning(message, hint)
    return Refused(code, message, hint)


def _exchange(wire: "socket", question: bytes) -> bytes:
    received = b""
    try:
        wire.sendall(question)
        while not received.endswith(b"\n"):
            chunk = wire.recv(1 << 16)
            if not chunk:
                raise PoolNotRunning("the worker pool ended while it was asked")
            received += chunk
    except TimeoutError as error:
        raise WorkerTimeout("the daemon does not answer") from error
    except ConnectionError as error:
        raise PoolNotRunning("the worker pool ended while it was asked") from error
    return received
