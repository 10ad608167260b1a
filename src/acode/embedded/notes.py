"""What an embedded pool has to say, in the program's own log."""

import logging

from acode.model.event import PoolEvent, TaskAssigned, TaskEnded, WorkerStatusChanged
from acode.observe.journal import level_of, line_of

_logger = logging.getLogger("acode.pool")
_logger.addHandler(logging.NullHandler())
_LEVELS = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}

_OFTEN = frozenset({TaskEnded, TaskAssigned, WorkerStatusChanged})


def log(event: PoolEvent) -> None:
    """Write an event down; what happens all the time only if somebody debugs."""
    if type(event) not in _OFTEN or _logger.isEnabledFor(logging.DEBUG):
        _logger.log(_LEVELS[level_of(event)], line_of(event))
