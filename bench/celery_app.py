"""The application that the Celery worker of the benchmark loads."""

import os
import subprocess

from celery import Celery

from acode.policy.commands import SHELL

_redis = f"redis+socket://{os.environ['ACODE_BENCH_REDIS']}"
app = Celery("bench", broker=_redis, backend=_redis)


@app.task  # type: ignore[untyped-decorator]
def run(command: str) -> int:
    """Run one command; its exit code."""
    return subprocess.run([SHELL, "-c", command], check=False).returncode
