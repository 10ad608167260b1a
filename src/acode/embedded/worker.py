"""What the crew expects of a worker, whether it lives in this process or in one of its own."""

from collections.abc import Coroutine
from typing import Any, Protocol

from acode.embedded.order import Order
from acode.model.ending import Ending
from acode.model.failure import Failure
from acode.runner.context import Call


class Worker(Protocol):
    """Runs one attempt at a time."""

    id: str
    leaving: bool
    """It takes nothing more."""

    @property
    def current(self) -> Order | None:
        """The attempt that runs."""
        ...

    @property
    def load(self) -> int:
        """Attempts that it has and that are not over."""
        ...

    def room(self, depth: int) -> int:
        """How many more it takes if it may have so many at once."""
        ...

    def begin(self, order: Order) -> None:
        """Run an attempt, after those that it has."""
        ...

    def interrupt(self, order: Order, *, force: bool) -> None:
        """End an attempt that it runs; without force its handler may clean up for a while."""
        ...

    def relieve(self) -> None:
        """Give back what waits behind the attempt that runs."""
        ...

    async def close(self) -> None:
        """Let go of everything; nothing runs any more."""
        ...


class Desk(Protocol):
    """Where workers report."""

    def started(self, order: Order) -> None:
        """A handler begins."""
        ...

    def ended(
        self,
        order: Order,
        ending: Ending,
        *,
        seconds: float,
        value: Any = None,
        failure: Failure | None = None,
        cause: BaseException | None = None,
    ) -> None:
        """A handler is done, or its time was up."""
        ...

    def errand(self, work: Coroutine[Any, Any, None]) -> None:
        """Run something that nobody waits for."""
        ...

    def put_back(self, orders: list[Order]) -> None:
        """Attempts that a worker had and did not begin."""
        ...

    async def save_step(self, call: Call, step: str, value: Any) -> None:
        """A step is done; returns when its value is durable."""
        ...

    def warn(self, call: Call, message: str) -> None:
        """Something went wrong that does not matter."""
        ...
