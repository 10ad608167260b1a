"""A pool in the lifespan of a web application, served by uvicorn."""

import asyncio
import json
import signal
from collections.abc import Callable
from typing import Any
from urllib.request import urlopen

import pytest

from tests.embedded.conftest import Program, until

APPLICATION = """
    import asyncio, sys, time
    import acode, uvicorn

    @acode.handler("work")
    def work(ctx, number):
        time.sleep(0.3)
        open("ended", "a").write("ended\\n")
        return 2 * number

    pool = acode.Pool(store="sqlite:///queue.db", isolation=sys.argv[1])

    async def app(scope, receive, send):
        if scope["type"] == "lifespan":
            while True:
                message = await receive()
                if message["type"] == "lifespan.startup":
                    await pool.start()
                    await send({"type": "lifespan.startup.complete"})
                else:
                    await pool.stop()
                    await send({"type": "lifespan.shutdown.complete"})
                    return
        handle = await pool.submit(work, 21)
        value = await handle.result() if scope["path"] == "/wait" else 0
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": str(value).encode()})

    async def main():
        config = uvicorn.Config(app, port=0, log_level="warning")
        server = uvicorn.Server(config)
        serving = asyncio.create_task(server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        open("port", "w").write(f"{port}\\n")
        await serving

    asyncio.run(main())
"""


@pytest.mark.needs("uvicorn")
@pytest.mark.parametrize("isolation", ["inline", "process"])
def test_a_pool_starts_works_and_stops_with_uvicorn(
    program: Callable[[str], Program], isolation: str
) -> None:
    one = program(APPLICATION)
    server = one.start(isolation)
    (port,) = wait_for(lambda: one.lines("port"))
    assert ask(port, "/wait") == 42
    assert ask(port, "/go") == 0
    server.send_signal(signal.SIGTERM)
    _, err = server.communicate(timeout=60)
    assert err == ""
    assert one.lines("ended") == ["ended", "ended"], "what ran was let finish"
    assert not one.processes()


def ask(port: str, path: str) -> Any:
    with urlopen(f"http://127.0.0.1:{port}{path}", timeout=60) as answer:
        return json.load(answer)


def wait_for(condition: Callable[[], Any]) -> Any:
    return asyncio.run(until(condition))
