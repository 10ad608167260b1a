"""Celery with Redis; a task is acknowledged when its function is done."""

import os
import time

from celery import Celery

from bench.handlers import REDIS

_redis = f"redis+socket://{os.environ[REDIS]}"
app = Celery("bench", broker=_redis, backend=_redis)
app.conf.update(task_acks_late=True, worker_prefetch_multiplier=4)


@app.task(name="noop")  # type: ignore[untyped-decorator]
def noop() -> int:
    return time.monotonic_ns()
