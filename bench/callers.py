"""Callers of a gateway, in processes of their own: `python -m bench.callers MODE ADDRESS TOKEN …`.

`reads RATE SECONDS` asks for a mix of things at a steady rate and prints how long answers took.
`events CLIENTS COUNT` follows with many clients until each has heard of so many new tasks.
`nothing` answers every request at once and knows nothing: what the callers themselves cost.
"""

import asyncio
import json
import os
import sys
from contextlib import suppress
from time import perf_counter

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


async def _caller(address: str, token: str, rate: float, seconds: float, took: list[float]) -> None:
    host, port = address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    began, number = perf_counter(), 0
    while (planned := began + number / rate) < began + seconds:
        await asyncio.sleep(max(0.0, planned - perf_counter()))
        path = PATHS[number % len(PATHS)]
        head = f"GET {path} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {token}\r\n\r\n"
        # From the moment that was planned: whoever is late for one answer is late for the next.
        writer.write(head.encode())
        await _answer(reader)
        took.append(perf_counter() - planned)
        number += 1
    writer.close()


async def _answer(reader: asyncio.StreamReader) -> None:
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    if b" 200 " not in head.split(b"\r\n")[0]:
        raise RuntimeError(head.decode())
    await reader.readexactly(int(head.partition(b"content-length: ")[2].split(b"\r\n")[0]))


async def reads(address: str, token: str, rate: float, seconds: float) -> None:
    took: list[float] = []
    share = rate / CONNECTIONS
    await asyncio.gather(
        *(_caller(address, token, share, seconds, took) for _ in range(CONNECTIONS))
    )
    print(json.dumps(sorted(took)))


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
        asyncio.run(reads(rest[0], rest[1], float(rest[2]), float(rest[3])))
    elif mode == "events":
        asyncio.run(events(rest[0], rest[1], int(rest[2]), int(rest[3])))
    else:
        asyncio.run(nothing())


if __name__ == "__main__":
    main(sys.argv[1:])
