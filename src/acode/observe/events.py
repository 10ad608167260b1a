"""Facts of the engine, told to whoever listens. Nobody who listens can hurt the engine."""

from collections.abc import Callable

from acode.model.event import PoolEvent

Listener = Callable[[PoolEvent], None]


class Events:
    """Tells every listener, in order. A listener that fails is told no more."""

    def __init__(self) -> None:
        self._listeners: list[Listener] = []

    def subscribe(self, listener: Listener) -> None:
        """Hear every event from now on."""
        self._listeners.append(listener)

    def emit(self, event: PoolEvent) -> None:
        """State a fact."""
        for listener in tuple(self._listeners):
            try:
                listener(event)
            except Exception:
                self._listeners.remove(listener)
