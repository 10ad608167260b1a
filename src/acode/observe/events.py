"""Facts of the engine, told to whoever listens. Nobody who listens can hurt the engine."""

from collections.abc import Callable
from typing import NamedTuple

from acode.model.event import PoolEvent

Listener = Callable[[PoolEvent], None]
Wants = Callable[[type[PoolEvent]], bool]
"""Whether somebody wants to hear of this kind at the moment."""


class _Subscription(NamedTuple):
    listener: Listener
    kinds: tuple[type[PoolEvent], ...]
    """Empty: all."""
    wants: Wants | None
    """Asked each time; None is always."""


class Events:
    """Tells every listener, in order. A listener that fails is told no more."""

    def __init__(self) -> None:
        self._subscriptions: list[_Subscription] = []
        self._hearers: dict[type[PoolEvent], tuple[_Subscription, ...]] = {}

    def subscribe(
        self, listener: Listener, *kinds: type[PoolEvent], wants: Wants | None = None
    ) -> None:
        """Hear every event from now on, or every one of these kinds."""
        self._subscriptions.append(_Subscription(listener, kinds, wants))
        self._hearers.clear()

    def is_heard(self, kind: type[PoolEvent]) -> bool:
        """Whether anybody would hear it: what happens all the time is not stated for nobody."""
        hearers = self._heard_by(kind)
        return bool([one for one in hearers if one.wants is None or one.wants(kind)])

    def emit(self, event: PoolEvent) -> None:
        """State a fact."""
        kind = type(event)
        for one in self._heard_by(kind):
            try:
                if one.wants is None or one.wants(kind):
                    one.listener(event)
            except Exception:
                self._forget(one)

    def _heard_by(self, kind: type[PoolEvent]) -> tuple[_Subscription, ...]:
        hearers = self._hearers.get(kind)
        if hearers is None:
            fitting = [one for one in self._subscriptions if not one.kinds or kind in one.kinds]
            hearers = self._hearers[kind] = tuple(fitting)
        return hearers

    def _forget(self, subscription: _Subscription) -> None:
        if subscription in self._subscriptions:
            self._subscriptions.remove(subscription)
            self._hearers.clear()
