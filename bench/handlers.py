"""The no-op of every queue, each in the words of its own documentation.

Each application is a module of its own for its worker command; importing one needs its library.
"""

import os

REDIS = "ACODE_BENCH_REDIS"


def redis_url() -> str:
    """Where the Redis of the benchmark listens."""
    return f"unix://{os.environ[REDIS]}"
