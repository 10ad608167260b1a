"""The gateway process: started by the daemon, ends with it."""

import asyncio
import os
import signal
import socket
import sys
from functools import partial
from typing import cast

import msgspec
import uvicorn
import uvloop

from acode.app import App
from acode.engine.gateway import GatewayOptions
from acode.gateway.desk import Desk
from acode.gateway.express import Counter, Express
from acode.gateway.server import application
from acode.gateway.wire import Wire
from acode.project import Project
from acode.runner.tree import die_with_parent

NICENESS = 1
"""Tasks come first. More would not spare them anything, but whoever watches would wait longer."""
MAX_WEBSOCKET_BYTES = 1 << 20
GRACE_SECONDS = 2


async def serve(options: GatewayOptions) -> None:
    """Answer until told to stop."""
    app = App(Project(options.root), config=options.config, environ=os.environ)
    desk = Desk(app, options.url)
    async with application(desk, app.settings.api.host) as guard:
        counter = partial(Express, Counter(desk, guard))
        config = uvicorn.Config(
            guard,
            # A server may take its time, and whoever waits for it needs a task of his own.
            http="httptools" if app.settings.store.is_shared else cast("type[Express]", counter),
            ws=Wire,
            ws_max_size=MAX_WEBSOCKET_BYTES,
            ws_per_message_deflate=False,
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,
            timeout_graceful_shutdown=GRACE_SECONDS,
            backlog=1024,
        )
        sockets = [socket.socket(fileno=number) for number in options.sockets]
        await uvicorn.Server(config).serve(sockets=sockets)


def main(argv: list[str]) -> int:
    """Be the gateway."""
    options = msgspec.json.decode(argv[1], type=GatewayOptions)
    # It holds nothing that a sudden end could damage, and its sockets must be free at once.
    die_with_parent(signal.SIGKILL)
    if os.getppid() != options.parent:
        return 1
    os.nice(NICENESS)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(serve(options))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv))
