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
        self._hearers: dict[type[PoolEvent], tuple[_Subscription, ...]] = {}

    def subscribe(self, listener: Listener, *kinds: type[PoolEvent]) -> None:
        """Hear every event from now on, or every one of these kinds."""
        self._subscriptions.append(_Subscription(listener, kinds))
        self._hearers.clear()

    def emit(self, event: PoolEvent) -> None:
        """State a fact."""
        kind = type(event)
        hearers = self._hearers.get(kind)
        if hearers is None:
            hearers = self._hearers[kind] = self._hearers_of(kind)
        for one in hearers:
            try:
                one.listener(event)
            except Exception:
                self._forget(one)

    def _hearers_of(self, kind: type[PoolEvent]) -> tuple[_Subscription, ...]:
        return tuple(one for one in self._subscriptions if not one.kinds or kind in one.kinds)

    def _forget(self, subscription: _Subscription) -> None:
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)
            self._hearers.clear()
