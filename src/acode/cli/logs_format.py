"""Log lines as people and programs read them."""

import re
from binascii import crc32
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple

import msgspec

from acode.clock import iso
from acode.errors import UsageError
from acode.human import clean
from acode.observe.logparse import Record
from acode.views import log_view

FORMATS = ("plain", "json", "colored")

_UNITS_MS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_SPAN = re.compile(r"(\d{1,9})([smhd])", re.ASCII)
_SGR = re.compile(r"(\x1b\[[0-9;:]*m)")
_RESET = "\x1b[0m"
_PALETTE = (36, 35, 34, 32, 33, 96, 95, 94, 92, 93)
_LEVEL_COLOURS = {"debug": 2, "warning": 33, "error": 31}

Line = Callable[[Record], str]
"""How one record looks, with its line feed."""


class Look(NamedTuple):
    """What the reader's end can show."""

    terminal: bool
    colour: bool

    def text(self, record: Record, keep: str = "\t") -> str:
        """The message; on a terminal nothing in it moves the cursor or hides."""
        return neutral(record.text, self.colour, keep) if self.terminal else record.text


def line_of(name: str, look: Look) -> Line:
    """How records look in a format."""
    if name == "json":
        return json_line
    if name == "colored" and look.colour:
        return lambda record: _colored_line(record, look)
    return lambda record: f"{_prefix(record)} {_whole_text(record, look)}\n"


def json_line(record: Record) -> str:
    """One object with everything that is known."""
    return f"{msgspec.json.encode(log_view(record)).decode()}\n"


def _colored_line(record: Record, look: Look) -> str:
    text = _whole_text(record, look)
    colour = _LEVEL_COLOURS.get(record.level) if record.stream == "system" else None
    if colour:
        text = f"\x1b[{colour}m{text}"
    if "\x1b[" in text and not text.endswith(_RESET):
        text += _RESET
    return f"\x1b[{source_colour(record)}m{_prefix(record)}{_RESET} {text}\n"


def source_colour(record: Record) -> int:
    """The same for a worker whenever one looks."""
    return _PALETTE[crc32((record.worker_id or "").encode()) % len(_PALETTE)]


def _prefix(record: Record) -> str:
    worker = f"worker-{_short(record.worker_id)}" if record.worker_id else "-"
    return f"{(iso(record.at) or '')[11:23]} {worker} {_short(record.task_id)} |"


def _short(name: str | None) -> str:
    """The beginning says when it began; those that began together differ at the end."""
    if name is None:
        return "-"
    return name if len(name) <= 13 else f"{name[:8]}…{name[-4:]}"


def _whole_text(record: Record, look: Look) -> str:
    return look.text(record) + ("…" if record.more else "")


def neutral(text: str, colour: bool, keep: str = "\t") -> str:
    """Text that a terminal only prints: colours stay if they may, other controls do not."""
    if text.isprintable():
        return text
    words = _SGR.split(text.removesuffix("\r") if "\r" not in keep else text)
    words[::2] = [_harmless(word, keep) for word in words[::2]]
    if not colour:
        return "".join(words[::2])
    return "".join(words) + (_RESET if len(words) > 1 else "")


def _harmless(text: str, keep: str) -> str:
    return "".join(
        word if word in keep else clean(word) for word in re.split(f"([{keep}])", text) if word
    )


def moment_of(text: str, now: int) -> int:
    """What `--since` means: so long ago, or an ISO time, in UTC unless it says otherwise."""
    span = _SPAN.fullmatch(text)
    if span:
        return now - int(span[1]) * _UNITS_MS[span[2]]
    try:
        moment = datetime.fromisoformat(text)
        return round(moment.replace(tzinfo=moment.tzinfo or UTC).timestamp() * 1000)
    except (ValueError, OverflowError):
        raise UsageError(
            f"--since: {text!r} is no time",
            "write 30s, 5m, 1h or 2d, or a time like 2025-01-31T12:00Z",
        ) from None
