"""taskiq with Redis streams; a task is acknowledged when its result is saved."""

import time

from taskiq_redis import RedisAsyncResultBackend, RedisStreamBroker

from bench.handlers import redis_url

broker = RedisStreamBroker(redis_url()).with_result_backend(RedisAsyncResultBackend(redis_url()))


@broker.task(task_name="noop")
async def noop() -> int:
    return time.monotonic_ns()
