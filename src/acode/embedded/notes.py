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


def is_noted(kind: type[PoolEvent]) -> bool:
    """What happens all the time is written down only if somebody debugs."""
    return kind not in _OFTEN or _logger.isEnabledFor(logging.DEBUG)


def log(event: PoolEvent) -> None:
    """Write an event down."""
    if is_noted(type(event)):
        _logger.log(_LEVELS[level_of(event)], line_of(event))
