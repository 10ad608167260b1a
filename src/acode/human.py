"""Moments, spans, sizes and foreign text as people read them."""

_STEPS = (("d", 86_400), ("h", 3_600), ("m", 60), ("s", 1))
_UNITS = ("KB", "MB", "GB", "TB")
_JOINER = "\N{ZERO WIDTH JOINER}"


def clean(text: str) -> str:
    """One line that a terminal only prints: nothing in it moves the cursor or hides."""
    if text.isprintable():
        return text
    return "".join([_harmless(letter) for letter in text])


def _harmless(letter: str) -> str:
    # The joiner glues emoji together and does nothing else.
    if letter.isprintable() or letter == _JOINER:
        return letter
    return " " if letter.isspace() else "\N{REPLACEMENT CHARACTER}"


def span(ms: int) -> str:
    """How long: the two largest units that say something."""
    if ms < 1_000:
        return f"{ms} ms"
    if ms < 10_000:
        return f"{ms / 1_000:.1f} s"
    return _units(ms // 1_000)


def _units(seconds: int) -> str:
    parts: list[str] = []
    for name, size in _STEPS:
        count, seconds = divmod(seconds, size)
        if count or parts:
            parts.append(f"{count} {name}" if count else "")
    return " ".join(filter(None, parts[:2]))


def ago(moment: int | None, now: int) -> str:
    """How far a moment is from now, in its largest unit; `-` for never."""
    if moment is None:
        return "-"
    seconds = (now - moment) // 1_000 if moment <= now else -((moment - now) // 1_000)
    if seconds == 0:
        return "now"
    return f"{_largest(seconds)} ago" if seconds > 0 else f"in {_largest(-seconds)}"


def _largest(seconds: int) -> str:
    name, size = next(step for step in _STEPS if seconds >= step[1])
    return f"{seconds // size} {name}"


def size(count: int) -> str:
    """Bytes in the unit that fits."""
    if count < 1024:
        return f"{count} B"
    power = min((count.bit_length() - 1) // 10, len(_UNITS))
    return f"{count / 1024**power:.1f} {_UNITS[power - 1]}"


def number(count: int, one: str, many: str | None = None) -> str:
    """A count with its noun."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"
