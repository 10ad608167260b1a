"""A service's word that it takes no more requests for a while, and until when."""

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

from acode.model.agent import UsageLimit
from acode.runner.agent.event import Event, number, part, text

_WORDS: Final = re.compile(
    r"usage limit reached"
    r"|you've (?:hit|reached) your .{0,60}limit"
    r"|you're out of (?:usage|extra usage)"
    r"|request rejected \(429\)",
    re.IGNORECASE,
)
_STAMP: Final = re.compile(r"limit reached\|(\d{10,13})\b")
_RESETS: Final = re.compile(
    r"\bresets (?:(?P<month>[A-Z][a-z]{2}) (?P<day>\d{1,2}),? (?:(?P<year>\d{4}),? )?(?:at )?)?"
    r"(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?\s?(?P<half>am|pm)(?: \((?P<zone>[\w/+-]+)\))?",
    re.IGNORECASE,
)
_MONTHS: Final = [
    "jan",
    "feb",
    "mar",
    "apr",
    "may",
    "jun",
    "jul",
    "aug",
    "sep",
    "oct",
    "nov",
    "dec",
]


def limit_of(event: Event) -> UsageLimit | None:
    """The limit that a rate limit event tells of; `None` if requests still go through."""
    info = part(event, "rate_limit_info")
    if text(info, "status") != "rejected" or info.get("isUsingOverage") is True:
        return None
    name = text(info, "rateLimitType").replace("_", " ") or "usage"
    return UsageLimit(f"the {name} limit is reached", _moment(number(info, "resetsAt")))


def limit_in(words: str, now: int) -> UsageLimit | None:
    """The limit that an error message tells of, in words that people read."""
    if not _WORDS.search(words):
        return None
    message = words.strip().partition("\n")[0].partition("|")[0][:300]
    if stamp := _STAMP.search(words):
        return UsageLimit(message, _moment(float(stamp[1])))
    return UsageLimit(message, _named_moment(words, now))


def _moment(stamp: float | None) -> int | None:
    """Milliseconds; services count in seconds or milliseconds, and the size tells which."""
    if not stamp:
        return None
    return round(stamp if stamp > 1e11 else stamp * 1000)


def _named_moment(words: str, now: int) -> int | None:
    found = _RESETS.search(words)
    if found is None:
        return None
    try:
        here = datetime.fromtimestamp(now / 1000, UTC).astimezone(_zone(found["zone"]))
        then = _at_hour(here, found)
        return round(then.timestamp() * 1000)
    except (ValueError, OverflowError, KeyError, OSError):
        return None


def _zone(name: str | None) -> tzinfo | None:
    return None if name is None else ZoneInfo(name)


def _at_hour(here: datetime, found: "re.Match[str]") -> datetime:
    hour = int(found["hour"]) % 12 + (12 if found["half"].lower() == "pm" else 0)
    then = here.replace(hour=hour, minute=int(found["minute"] or 0), second=0, microsecond=0)
    if found["month"] is None:
        return then if then > here else then + timedelta(days=1)
    month = _MONTHS.index(found["month"].lower()) + 1
    year = int(found["year"] or here.year)
    then = then.replace(year=year, month=month, day=int(found["day"]))
    # A month without its year is the next one of that name.
    return then if then > here or found["year"] else then.replace(year=year + 1)
