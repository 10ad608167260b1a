"""Callers of a gateway, in processes of their own: `python -m bench.callers MODE ADDRESS TOKEN …`.

`reads RATE SECONDS` asks for a mix of things at a steady rate and prints how long answers took, and
what asking cost. It does little else: whoever calls takes from the pool what the gateway leaves.
`events CLIENTS COUNT` follows with many clients until each has heard of so many new tasks.
`nothing` answers every request at once and knows nothing: what the callers themselves cost.
"""

import asyncio
import json
import os
import select
import socket
import sys
from collections import deque
from contextlib import suppress
from time import perf_counter, process_time

PATHS = (
    "/api/workers",
    "/api/workers/health",
    "/api/workers/tasks?limit=20",
    "/api/queue",
    "/api/workers/tasks?status=completed&limit=5&reverse=1",
)
ADDED = b'"type":"task.added"'
CONNECTIONS = 20
QUIET_SECONDS = 60.0


class Wire:
    """A connection that is kept; it waits for one answer at a time."""

    def __init__(self, address: str) -> None:
        host, port = address.split(":")
        self._socket = socket.create_connection((host, int(port)))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._got = b""
        self.planned = 0.0

    def fileno(self) -> int:
        return self._socket.fileno()

    def ask(self, question: bytes, planned: float) -> None:
        self.planned = planned
        self._socket.sendall(question)

    def is_answered(self) -> bool:
        """Whether the whole answer is there now."""
        self._got += self._socket.recv(1 << 18)
        head, blank, body = self._got.partition(b"\r\n\r\n")
        if not blank or len(body) < _length(head):
            return False
        self._got = b""
        return True


def _length(head: bytes) -> int:
    if not head.startswith(b"HTTP/1.1 200 "):
        raise RuntimeError(head.decode())
    return int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])


class Callers:
    """Some connections, and requests that are due one after the other at equal distances."""

    def __init__(self, address: str, token: str) -> None:
        head = f"Host: {address}\r\nAuthorization: Bearer {token}"
        self._questions = [f"GET {path} HTTP/1.1\r\n{head}\r\n\r\n".encode() for path in PATHS]
        self._wires = [Wire(address) for _ in range(CONNECTIONS)]
        self._by_number = {wire.fileno(): wire for wire in self._wires}
        self._free = deque(self._wires)
        self._poll = select.epoll()
        for wire in self._wires:
            self._poll.register(wire.fileno(), select.EPOLLIN)

    def run(self, rate: float, seconds: float) -> list[float]:
        """How long each answer took, from the moment that was planned for its question."""
        took: list[float] = []
        began, asked, count = perf_counter(), 0, round(rate * seconds)
        while len(took) < count:
            now = perf_counter()
            while asked < count and self._free and began + asked / rate <= now:
                question = self._questions[asked % len(self._questions)]
                self._free.popleft().ask(question, began + asked / rate)
                asked += 1
            self._hear(took, began + asked / rate if asked < count and self._free else None)
        return took

    def _hear(self, took: list[float], until: float | None) -> None:
        wait = None if until is None else max(0.0, until - perf_counter())
        for number, _ in self._poll.poll(wait):
            wire = self._by_number[number]
            if wire.is_answered():
                took.append(perf_counter() - wire.planned)
                self._free.append(wire)


def reads(address: str, token: str, rate: float, seconds: float) -> None:
    callers = Callers(address, token)
    began = process_time()
    took = callers.run(rate, seconds)
    print(json.dumps({"took": took, "cpu": process_time() - began}))


async def _follower(address: str, token: str, count: int, ready: asyncio.Event) -> int:
    host, port = address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(
        f"GET /api/events HTTP/1.1\r\nHost: {address}\r\nUpgrade: websocket\r\n"
        "Connection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        f"Authorization: Bearer {token}\r\n\r\n".encode()
    )
    await reader.readuntil(b"\r\n\r\n")
    ready.set()
    heard, tail = 0, b""
    while heard < count:
        try:
            data = tail + await asyncio.wait_for(reader.read(1 << 20), QUIET_SECONDS)
        except TimeoutError:
            break
        if data == tail:
            break  # hung up
        heard += data.count(ADDED)
        # A mark that is cut in two is counted with the next piece, and none is counted twice.
        tail = data[data.rfind(ADDED) + len(ADDED) :][-len(ADDED) + 1 :]
    writer.close()
    return heard


async def events(address: str, token: str, clients: int, count: int) -> None:
    ready = [asyncio.Event() for _ in range(clients)]
    tasks = [asyncio.create_task(_follower(address, token, count, each)) for each in ready]
    for each in ready:
        await each.wait()
    await asyncio.sleep(1.0)
    print("ready", flush=True)
    print(json.dumps(await asyncio.gather(*tasks)))


async def nothing() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(asyncio.IncompleteReadError):
            while await reader.readuntil(b"\r\n\r\n"):
                writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def main(words: list[str]) -> None:
    os.nice(5)
    mode, *rest = words
    if mode == "reads":
        reads(rest[0], rest[1], float(rest[2]), float(rest[3]))
    elif mode == "events":
        asyncio.run(events(rest[0], rest[1], int(rest[2]), int(rest[3])))
    else:
        asyncio.run(nothing())


if __name__ == "__main__":
    main(sys.argv[1:])
