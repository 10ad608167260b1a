"""Facts of the engine, told to whoever listens. Nobody who listens can hurt the engine."""

from collections.abc import Callable
from typing import NamedTuple

from acode.model.event import PoolEvent

Listener = Callable[[PoolEvent], None]


class _Subscription(NamedTuple):
    listener: Listener
    kinds: tuple[type[PoolEvent], ...]
    """Empty: all."""


class Events:
    """Tells every listener, in order. A listener that fails is told no more."""

    def __init__(self) -> None:
        self._subscriptions: list[_Subscription] = []
        self._hearers: dict[type[PoolEvent], tuple[Listener, ...]] = {}

    def subscribe(self, listener: Listener, *kinds: type[PoolEvent]) -> None:
        """Hear every event from now on, or every one of these kinds."""
        self._subscriptions.append(_Subscription(listener, kinds))
        self._hearers.clear()

    def unsubscribe(self, listener: Listener) -> None:
        """Hear nothing any more."""
        self._subscriptions = [one for one in self._subscriptions if one.listener != listener]
        self._hearers.clear()

    def is_heard(self, kind: type[PoolEvent]) -> bool:
        """Whether anybody would hear it: what happens all the time is not stated for nobody."""
        hearers = self._hearers.get(kind)
        return bool(self._find_hearers(kind) if hearers is None else hearers)

    def emit(self, event: PoolEvent) -> None:
        """State a fact."""
        kind = type(event)
        hearers = self._hearers.get(kind)
        for listener in self._find_hearers(kind) if hearers is None else hearers:
            try:
                listener(event)
            except Exception:
                self.unsubscribe(listener)

    def _find_hearers(self, kind: type[PoolEvent]) -> tuple[Listener, ...]:
        fitting = [one for one in self._subscriptions if not one.kinds or kind in one.kinds]
        hearers = self._hearers[kind] = tuple(one.listener for one in fitting)
        return hearers
