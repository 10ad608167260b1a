"""Who may come in: stands before every route, the dashboard's too, and before any body."""

import ipaddress
import socket
from collections.abc import Callable, Iterable
from http.cookies import CookieError, SimpleCookie

from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from acode.clock import Clock
from acode.gateway.limits import Bucket
from acode.gateway.problems import problem
from acode.keys import cookie_name, is_session, same

MAX_BODY_BYTES = 1 << 20
READS = (3_000.0, 6_000.0)
WRITES = (500.0, 1_000.0)
MISTAKES = (1.0, 30.0)
"""Wrong keys: a few a minute are a person, more are a guess."""

OPEN = frozenset({"/api/workers/health", "/login"})
"""What needs no key: everybody may ask how it is, and the way in must be open."""
PEERS = "/api/peers/"
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
HEADERS = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "content-security-policy": (
        "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; "
        "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; "
        "connect-src 'self'; frame-ancestors 'none'; base-uri 'self'; form-action 'self'"
    ),
}
_RAW_HEADERS = [(name.encode(), value.encode()) for name, value in HEADERS.items()]


class Head:
    """The headers of a request, read in one pass."""

    __slots__ = ("_first", "hosts", "origins")

    def __init__(self, pairs: Iterable[tuple[bytes, bytes]]) -> None:
        self._first: dict[bytes, bytes] = {}
        self.hosts: list[str] = []
        self.origins: list[str] = []
        for name, value in pairs:
            if name == b"host":
                self.hosts.append(value.decode("latin-1"))
            elif name == b"origin":
                self.origins.append(value.decode("latin-1"))
            else:
                self._first.setdefault(name, value)

    def get(self, name: bytes, default: str = "") -> str:
        """The first header of this name."""
        found = self._first.get(name)
        return default if found is None else found.decode("latin-1")

    def __contains__(self, name: bytes) -> bool:
        return name in self._first


class Guard:
    """Checks where a request was sent to, where it comes from, its key, its size, its rate."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        token: str,
        peer_key: str,
        host: str,
        clock: Clock,
        door: Callable[[int], Response],
    ) -> None:
        self._app = app
        self._door = door
        """What a browser without a key is shown, instead of bare JSON."""
        self._token = token
        self._peer_key = peer_key
        self._cookie = cookie_name(token)
        self._clock = clock
        self._names = _names(host)
        self._any_address = not _is_loopback(host)
        self._reads, self._writes = Bucket(*READS), Bucket(*WRITES)
        self._mistakes = Bucket(*MISTAKES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let it in, or say why not."""
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        application = self._refusal(scope, Head(scope["headers"])) or self._app
        if scope["type"] == "http":
            body = _Body(receive)
            await application(scope, body.receive, _with_headers(send, body))
        else:
            await application(scope, receive, send)

    def lets_in(self, path: str, headers: Head) -> bool:
        """Whether a read without a body may pass; whoever may not is told why by a call."""
        return (
            self._is_for_us(headers)
            and _is_from_us(headers)
            and (path in OPEN or self._may(path, "GET", headers))
            and self._reads.take()
        )

    def _refusal(self, scope: Scope, headers: Head) -> Response | None:
        if not self._is_for_us(headers):
            return problem(403, "the Host header names another machine", code="FOREIGN_HOST")
        if not _is_from_us(headers):
            return problem(403, "the request comes from another site", code="FOREIGN_ORIGIN")
        if scope["path"] not in OPEN and (no := self._key_refusal(scope, headers)):
            return no
        bucket = self._reads if scope.get("method", "GET") in SAFE else self._writes
        if not bucket.take():
            return problem(429, retry_after=1)
        length = headers.get(b"content-length", "0")
        if not length.isdecimal():
            return problem(400)
        return problem(413) if int(length) > MAX_BODY_BYTES else None

    def _key_refusal(self, scope: Scope, headers: Head) -> Response | None:
        if self._may(scope["path"], scope.get("method", "GET"), headers):
            return None
        if self._mistakes.is_empty:
            return problem(429, "too many wrong keys", retry_after=5)
        if b"authorization" in headers:
            self._mistakes.take()
            return problem(401, "the token is wrong")
        wants_page = scope.get("method") == "GET" and "text/html" in headers.get(b"accept")
        return self._door(401) if wants_page else problem(401)

    def _may(self, path: str, method: str, headers: Head) -> bool:
        scheme, _, key = headers.get(b"authorization").partition(" ")
        if scheme.lower() == "bearer":
            return same(key.strip(), self._token) or self._is_peer(path, key.strip())
        # A browser sends its cookie by itself, whoever made it ask: so only for what changes
        # nothing, and never when another site made it ask. The dashboard acts over its own wire.
        is_page = not path.startswith(("/api/", "/metrics"))
        if method not in SAFE and not is_page:
            return False
        if headers.get(b"sec-fetch-site", "none") not in ("same-origin", "none"):
            return False
        return self.is_session(headers)

    def _is_peer(self, path: str, key: str) -> bool:
        """Whether another host asks, for what it may have."""
        return path.startswith(PEERS) and same(key, self._peer_key)

    def is_session(self, headers: Head) -> bool:
        """Whether a browser that has logged in is asking."""
        try:
            cookies = SimpleCookie(headers.get(b"cookie"))
        except CookieError:
            return False
        found = cookies.get(self._cookie)
        return found is not None and is_session(self._token, found.value, self._clock.now())

    def _is_for_us(self, headers: Head) -> bool:
        if len(headers.hosts) != 1:
            return False
        name = _name(headers.hosts[0])
        if name in self._names:
            return True
        # No name can be made to point to us when none is taken: an address is what it says.
        return self._any_address and _is_address(name)


class _Body:
    """A body without a length is cut off where it is too long."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._left = MAX_BODY_BYTES

    async def receive(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._left -= len(message.get("body", b""))
            if self.is_too_large:
                return {"type": "http.disconnect"}
        return message

    @property
    def is_too_large(self) -> bool:
        return self._left < 0


def _with_headers(send: Send, body: _Body) -> Send:
    refused = False

    async def sends(message: Message) -> None:
        nonlocal refused
        if message["type"] == "http.response.start" and body.is_too_large:
            refused = True
            no = problem(413)
            await send({"type": message["type"], "status": 413, "headers": no.raw_headers})
            await send({"type": "http.response.body", "body": no.body})
        elif not refused:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *_RAW_HEADERS]
            await send(message)

    return sends


def _is_from_us(headers: Head) -> bool:
    return all(_origin(origin) == headers.hosts[0].lower() for origin in headers.origins)


def _name(host: str) -> str:
    """The host of a Host header, without its port."""
    host = host.lower()
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0]


def _origin(text: str) -> str:
    """What an Origin of ours has after its scheme; nothing for others."""
    scheme, _, rest = text.lower().partition("://")
    return rest if scheme in ("http", "https") else ""


def _names(host: str) -> frozenset[str]:
    usual = {"localhost", "127.0.0.1", "::1", host.lower()}
    return frozenset(usual if _is_loopback(host) else {*usual, socket.gethostname().lower()})


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    return _is_address(host) and ipaddress.ip_address(host).is_loopback


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
