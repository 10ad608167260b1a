"""A module that only handler processes import, when a task names it."""

from typing import Any


def triple(ctx: Any, number: int) -> int:
    return 3 * number
