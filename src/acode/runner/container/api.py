"""The Engine API over its socket: the few calls we need, each with a time limit of its own."""

import socket
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPException, HTTPResponse
from typing import Any
from urllib.parse import quote, urlencode

import msgspec

from acode.clock import Deadline
from acode.errors import DockerUnavailable
from acode.sockets import short_path

CALL_SECONDS = 20.0
"""What a call may take that is expected to be answered at once, on a busy machine too."""
PROBE_SECONDS = 3.0
"""What an engine may take to say who it is; one that hangs is as good as none."""
NEWEST_API = (1, 47)
OLDEST_API = (1, 40)


class EngineError(DockerUnavailable):
    """The container engine refused, or could not be asked."""

    hint = "look at the engine's own log, and at what `docker info` or `podman info` says"

    def __init__(self, message: str, status: int = 0, hint: str | None = None) -> None:
        super().__init__(message, hint)
        self.status = status
        """The HTTP status; 0 if the engine did not answer."""


class _Connection(HTTPConnection):
    """HTTP over a unix socket."""

    def __init__(self, path: str, seconds: float) -> None:
        super().__init__("localhost", timeout=seconds)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        with short_path(self._path) as short:
            self.sock.connect(short)


class Api:
    """Calls to one engine. A connection for each: they are cheap, and none can go stale."""

    def __init__(self, path: str, version: str = "") -> None:
        self.path = path
        self._prefix = f"/v{version}" if version else ""

    def get(self, path: str, seconds: float = CALL_SECONDS, **query: Any) -> Any:
        """Ask for something."""
        return self._call("GET", path, seconds, query)

    def post(
        self, path: str, body: object = None, seconds: float = CALL_SECONDS, **query: Any
    ) -> Any:
        """Change something."""
        return self._call("POST", path, seconds, query, body)

    def delete(self, path: str, seconds: float = CALL_SECONDS, **query: Any) -> Any:
        """Remove something."""
        return self._call("DELETE", path, seconds, query)

    def stream(
        self, method: str, path: str, deadline: Deadline, **query: Any
    ) -> Iterator[dict[str, Any]]:
        """Every object of an answer that comes piece by piece, until the deadline."""
        with self._answer(method, path, _left(deadline), query) as (answer, connection):
            while line := answer.readline():
                if line.strip():
                    yield msgspec.json.decode(line)
                if connection.sock is not None:
                    connection.sock.settimeout(_left(deadline))

    @contextmanager
    def raw(self, path: str, seconds: float, **query: Any) -> Iterator[HTTPResponse]:
        """An answer to read from as it comes."""
        with self._answer("GET", path, seconds, query) as (answer, _):
            yield answer

    def upgrade(self, path: str, body: object, seconds: float = CALL_SECONDS) -> socket.socket:
        """A call whose answer is a stream: the connection, with nothing of the stream read yet."""
        connection = _Connection(self.path, seconds)
        sent = msgspec.json.encode(body)
        headers = {"Content-Type": "application/json", "Connection": "Upgrade", "Upgrade": "tcp"}
        try:
            connection.request("POST", f"{self._prefix}{quote(path)}", sent, headers)
            _expect_stream(connection.sock)
        except (OSError, HTTPException) as error:
            connection.close()
            raise EngineError(f"the engine at {self.path}: {_words(error)}") from error
        except EngineError:
            connection.close()
            raise
        stream: socket.socket = connection.sock
        return stream

    def _call(
        self,
        method: str,
        path: str,
        seconds: float,
        query: Mapping[str, Any],
        body: object = None,
    ) -> Any:
        with self._answer(method, path, seconds, query, body) as (answer, _):
            data = answer.read()
        if "json" not in answer.headers.get("Content-Type", ""):
            return data
        return msgspec.json.decode(data) if data.strip() else None

    @contextmanager
    def _answer(
        self,
        method: str,
        path: str,
        seconds: float,
        query: Mapping[str, Any],
        body: object = None,
    ) -> Iterator[tuple[HTTPResponse, _Connection]]:
        target = f"{self._prefix}{quote(path)}" + (f"?{_encoded(query)}" if query else "")
        sent = None if body is None else msgspec.json.encode(body)
        headers = {} if sent is None else {"Content-Type": "application/json"}
        with closing(_Connection(self.path, seconds)) as connection:
            try:
                connection.request(method, target, sent, headers)
                answer = connection.getresponse()
                if answer.status >= 400:
                    raise EngineError(_message(answer), answer.status)
                yield answer, connection
            except TimeoutError as error:
                raise EngineError(f"the engine at {self.path} does not answer") from error
            except (OSError, HTTPException, msgspec.DecodeError) as error:
                raise EngineError(f"the engine at {self.path}: {_words(error)}") from error


def _expect_stream(answer: socket.socket) -> None:
    """Read the head of an answer, and not a byte more: what follows is the stream's."""
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = answer.recv(1)
        if not byte:
            raise EngineError("the engine hung up")
        head += byte
    status = int(head.split(maxsplit=2)[1])
    if status not in (101, 200):
        raise EngineError(_told(answer.recv(1 << 16)) or head.splitlines()[0].decode(), status)


def _encoded(query: Mapping[str, Any]) -> str:
    """Numbers and texts as they are; anything else as JSON, as the engine wants its filters."""
    return urlencode(
        {
            key: value if isinstance(value, str) else msgspec.json.encode(value).decode()
            for key, value in query.items()
        }
    )


def _left(deadline: Deadline) -> float:
    left = deadline.left()
    if left <= 0:
        raise TimeoutError
    return left


def _message(answer: HTTPResponse) -> str:
    data = answer.read()
    rest = f"{answer.status} {answer.reason}: {data[:200].decode(errors='replace')}"
    return _told(data) or rest


def _told(data: bytes) -> str | None:
    try:
        told = msgspec.json.decode(data)
        return str(told["message"] if "message" in told else told["cause"]).strip()
    except (msgspec.MsgspecError, TypeError, KeyError):
        return None


def _words(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
