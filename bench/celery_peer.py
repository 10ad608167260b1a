"""Celery with Redis, as its first steps teach it; left out where either is not installed."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec

from bench.runners import AT_ONCE, COMMAND, Runner

SOCKET = "ACODE_BENCH_REDIS"
READY_SECONDS = 30


@contextmanager
def celery() -> Iterator[dict[str, Runner]]:
    """A broker and a worker of four processes, for as long as this is open."""
    if find_spec("celery") is None or shutil.which("redis-server") is None:
        yield {}
        return
    with ExitStack() as stack:
        directory = stack.enter_context(tempfile.TemporaryDirectory())
        os.environ[SOCKET] = f"{directory}/redis.sock"
        redis = ("redis-server", "--port", "0", "--save", "", "--dir", directory)
        stack.enter_context(_process(*redis, "--unixsocket", os.environ[SOCKET]))
        worker = (sys.executable, "-m", "celery", "-A", "bench.celery_app", "worker")
        stack.enter_context(_process(*worker, "-c", str(AT_ONCE)))
        yield {"Celery": _drive}


@contextmanager
def _process(*words: str) -> Iterator[None]:
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


def _drive(_directory: str, times: int) -> None:
    from bench.celery_app import run

    waiting = [run.delay(COMMAND) for _ in range(times)]
    for result in waiting:
        result.get(timeout=READY_SECONDS)
