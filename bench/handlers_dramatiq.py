"""Dramatiq with Redis; a message is acknowledged when its actor is done."""

import os
import time

import dramatiq
from dramatiq.brokers.redis import RedisBroker
from dramatiq.results import Results
from dramatiq.results.backends import RedisBackend

from bench.handlers import REDIS

broker = RedisBroker(unix_socket_path=os.environ[REDIS])
results = RedisBackend(unix_socket_path=os.environ[REDIS])
broker.add_middleware(Results(backend=results, store_results=True))
dramatiq.set_broker(broker)


@dramatiq.actor
def noop() -> int:
    return time.monotonic_ns()
