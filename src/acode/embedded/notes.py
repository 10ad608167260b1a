"""What an embedded pool has to say, in the program's own log."""

import logging
from typing import get_args

from acode.model.event import PoolEvent, TaskAssigned, TaskEnded, WorkerStatusChanged
from acode.observe.events import Events
from acode.observe.journal import level_of, line_of

_logger = logging.getLogger("acode.pool")
_logger.addHandler(logging.NullHandler())
_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}

_OFTEN: tuple[type[PoolEvent], ...] = (TaskEnded, TaskAssigned, WorkerStatusChanged)
_SELDOM = tuple(kind for kind in get_args(PoolEvent) if kind not in _OFTEN)


class Notes:
    """Writes events down; what happens all the time, only while somebody debugs."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self._debugging = False
        events.subscribe(_log, *_SELDOM)

    def look(self) -> None:
        """Heed the level of the log, which the program may have changed."""
        if _logger.isEnabledFor(logging.DEBUG) is self._debugging:
            return
        self._debugging = not self._debugging
        if self._debugging:
            self._events.subscribe(_log_often, *_OFTEN)
        else:
            self._events.unsubscribe(_log_often)


def _log(event: PoolEvent) -> None:
    _logger.log(_LEVELS[level_of(event)], line_of(event))


def _log_often(event: PoolEvent) -> None:
    _log(event)
