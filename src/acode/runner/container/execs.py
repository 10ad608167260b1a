"""Commands that the engine itself starts in a container: for images that have no shell."""

import socket
from collections.abc import Iterator

import msgspec

from acode.runner.container.api import Api
from acode.runner.container.order import Command

LOOK_SECONDS = 3.0
_HEAD_BYTES = 8
_NOT_STARTED = (126, 127)
"""What the engine makes of a command that could not be started; one may also end so by itself."""


class Exec(msgspec.Struct, frozen=True):
    """A command that was started, and where its output comes from."""

    id: str
    stream: socket.socket


class State(msgspec.Struct, frozen=True, rename="pascal"):
    """What the engine knows of it."""

    running: bool
    exit_code: int | None = None


def start(api: Api, container: str, command: Command) -> Exec:
    """Start it; its output waits at once."""
    body = {
        "AttachStdout": True,
        "AttachStderr": True,
        "Cmd": list(command.argv),
        "Env": [f"{name}={value}" for name, value in command.env.items()],
        "WorkingDir": command.directory,
    }
    made = str(api.post(f"/containers/{container}/exec", body)["Id"])
    return Exec(made, api.upgrade(f"/exec/{made}/start", {"Detach": False, "Tty": False}))


def look(api: Api, exec_id: str) -> State:
    """Whether it still runs, and how it ended."""
    return msgspec.convert(api.get(f"/exec/{exec_id}/json", LOOK_SECONDS), State)


def refusal(state: State, said: bytes) -> str | None:
    """The engine's own words where there never was a command, which it puts into its output."""
    words = said.decode(errors="replace")
    if state.exit_code not in _NOT_STARTED or "OCI " not in words:
        return None
    return words.strip().splitlines()[0]


class Frames:
    """Takes the two streams of an output apart again, as it comes: a frame may come in pieces."""

    def __init__(self) -> None:
        self._head = b""
        self._left = 0
        self._is_error = False

    def feed(self, data: bytes) -> Iterator[tuple[bool, bytes]]:
        """Every piece, with whether it went to the standard error."""
        while data:
            if not self._left:
                data = self._read_head(data)
                continue
            piece, data = data[: self._left], data[self._left :]
            self._left -= len(piece)
            yield self._is_error, piece

    def _read_head(self, data: bytes) -> bytes:
        missing = _HEAD_BYTES - len(self._head)
        self._head += data[:missing]
        if len(self._head) == _HEAD_BYTES:
            self._is_error = self._head[0] == 2
            self._left = int.from_bytes(self._head[4:])
            self._head = b""
        return data[missing:]
