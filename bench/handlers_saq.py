"""SAQ with Redis; a job is finished when its result is stored."""

import time
from typing import Any

from redis.asyncio import Redis
from saq.queue.redis import RedisQueue

from bench.handlers import redis_url

queue = RedisQueue(Redis.from_url(redis_url()), name="bench")


async def noop(_ctx: Any) -> int:
    return time.monotonic_ns()


settings = {"queue": queue, "functions": [("noop", noop)], "concurrency": 10}
