"""The short way for what is asked for all the time: no task, no framework, one write.

A look into the store takes a fraction of what a framework does around it. So what nobody has to
wait for is answered where the request was read; everything else goes the usual way, refusals too.
Who asks the same within a moment is told the same, unless somebody has written through us, or was
told of something new, in between.
"""

from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from starlette.responses import Response
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from acode.clock import ticks
from acode.errors import AcodeError
from acode.gateway import queue, tasks, workers
from acode.gateway.desk import Desk
from acode.gateway.guard import HEADERS, SAFE, Guard, Head
from acode.gateway.problems import broken, refused

MOMENT_SECONDS = 0.05
UNUSUAL = (b"content-length", b"transfer-encoding", b"upgrade", b"expect")
"""Whoever sends one of these wants more than a plain read."""
_HEADERS = "".join(f"{name}: {value}\r\n" for name, value in HEADERS.items()).encode() + b"\r\n"

Pairs = list[tuple[bytes, bytes]]


class Often(NamedTuple):
    """Something that is asked for all the time, and has no parameters."""

    path: str
    ask: Callable[[Desk], Coroutine[Any, Any, Response]]
    of_daemon: bool = False
    """Whether the daemon has a say in it."""


OFTEN = {
    each.path.encode(): each
    for each in (
        Often("/api/workers", workers.pool, of_daemon=True),
        Often("/api/workers/health", workers.health, of_daemon=True),
        Often("/api/queue", queue.queue),
    )
}
TASKS = "/api/workers/tasks"


class Said(NamedTuple):
    """An answer as it went over the wire."""

    until: float
    event: int
    """The last event that anybody had been told of."""
    data: bytes


class Counter:
    """Knows what can be answered at once."""

    def __init__(self, desk: Desk, guard: Guard) -> None:
        self._desk = desk
        self._guard = guard
        self._said: dict[bytes, Said] = {}

    def answer(self, url: bytes, headers: Pairs, usual: Pairs) -> bytes | None:
        """The answer to a read, with the usual headers; None if it has to go the usual way."""
        if (often := self._find(url)) is None:
            return None
        head = Head(headers)
        if any(name in head for name in UNUSUAL) or not self._guard.lets_in(often.path, head):
            return None
        said, event, now = self._said.get(url), self._desk.follower.last, ticks()
        if said is not None and now < said.until and event == said.event:
            return said.data
        response = _at_once(often.ask(self._desk))
        data = _encoded(response, usual)
        if response.status_code == 200:
            self._said[url] = Said(now + MOMENT_SECONDS, event, data)
        return data

    def forget(self) -> None:
        """Something was written: whoever did must see it."""
        self._said.clear()

    def _find(self, url: bytes) -> Often | None:
        often = OFTEN.get(url)
        if often is not None:
            waits = often.of_daemon and not self._desk.daemon.has_said("status")
            return None if waits else often
        path, _, text = url.partition(b"?")
        query = self._desk.known(text) if path == TASKS.encode() else None
        return None if query is None else Often(TASKS, lambda desk: tasks.rows(desk, query))


def _at_once(answer: Coroutine[Any, Any, Response]) -> Response:
    """What comes of a coroutine that never waits."""
    try:
        answer.send(None)
    except StopIteration as done:
        response: Response = done.value
        return response
    except AcodeError as error:
        return refused(error)
    except Exception as error:
        return broken(error)
    raise RuntimeError("a short look must not wait")


class Express(HttpToolsProtocol):
    """Uvicorn's protocol, which asks at the counter first."""

    def __init__(self, counter: Counter, **options: Any) -> None:
        super().__init__(**options)
        self._counter = counter
        self._is_answered = False
        self._writes = False

    def on_message_begin(self) -> None:
        """A request begins."""
        self._is_answered = False
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """All is known of a request but its body."""
        usual = self.server_state.default_headers
        data = self._counter.answer(self.url, self.headers, usual) if self._is_plain() else None
        if data is None:
            self._writes |= self.parser.get_method().decode() not in SAFE
            super().on_headers_complete()
            return
        self._is_answered = True
        self.transport.write(data)
        self.on_response_complete()

    def _is_plain(self) -> bool:
        """A read that waits for none before it, of somebody who takes what was sent and stays."""
        parser = self.parser
        return (
            parser.get_method() == b"GET"
            and (self.cycle is None or self.cycle.response_complete)
            and not self.flow.write_paused
            and not self.transport.is_closing()
            and parser.get_http_version() == "1.1"
            and parser.should_keep_alive()
        )

    def on_response_complete(self) -> None:
        """An answer was given, by us or on the usual way."""
        if self._writes and not self._is_answered:
            self._counter.forget()
        super().on_response_complete()

    def on_body(self, body: bytes) -> None:
        """A part of a body."""
        if not self._is_answered:
            super().on_body(body)

    def on_message_complete(self) -> None:
        """A request ends."""
        if not self._is_answered:
            super().on_message_complete()


def _encoded(response: Response, usual: Pairs) -> bytes:
    head = [b"%b: %b\r\n" % pair for pair in (*usual, *response.raw_headers)]
    return b"".join([STATUS_LINE[response.status_code], *head, _HEADERS, response.body])
