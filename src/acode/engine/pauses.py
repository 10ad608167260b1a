"""Types of tasks whose service takes nothing for a while. Known to the next daemon, too."""

import os
from contextlib import suppress
from typing import Any

import msgspec

from acode.clock import Clock, iso
from acode.store.base import WholeKind


class Pause(msgspec.Struct, frozen=True):
    """Until when tasks of a type are not started, and why."""

    until: int
    why: str


class Pauses:
    """Kept in a file, so that a daemon that is started anew does not try in vain."""

    def __init__(self, clock: Clock, path: str | None = None) -> None:
        self._clock = clock
        self._path = path
        self._pauses = self._read()

    def hold(self, kind: str, until: int, why: str) -> bool:
        """Start no task of this type until then; says whether that is news."""
        known = self._current().get(kind)
        if known is not None and known.until >= until:
            return False
        self._pauses[kind] = Pause(until, why)
        self._write()
        return known is None

    def lift(self) -> None:
        """Let everything go on."""
        self._pauses.clear()
        self._write()

    def held(self) -> list[WholeKind]:
        """Types that wait at the moment."""
        return [WholeKind(kind) for kind in self._current()] if self._pauses else []

    def next_end_in(self) -> int | None:
        """How long until the first of them may go on, in milliseconds."""
        ends = [pause.until for pause in self._current().values()]
        return min(ends) - self._clock.now() if ends else None

    def seen(self) -> list[dict[str, Any]]:
        """As others may see them."""
        return [
            {"type": kind, "until": iso(pause.until), "reason": pause.why}
            for kind, pause in self._current().items()
        ]

    def _current(self) -> dict[str, Pause]:
        now = self._clock.now()
        for kind in [kind for kind, pause in self._pauses.items() if pause.until <= now]:
            del self._pauses[kind]
        return self._pauses

    def _read(self) -> dict[str, Pause]:
        if self._path is None:
            return {}
        try:
            with open(self._path, "rb") as file:
                return msgspec.json.decode(file.read(), type=dict[str, Pause])
        except (OSError, msgspec.MsgspecError):
            return {}  # none, or torn by a crash: the worst is one try in vain

    def _write(self) -> None:
        if self._path is None:
            return
        # A full disk does not matter: while this daemon lives, it knows.
        with suppress(OSError):
            with open(f"{self._path}.new", "wb") as file:
                file.write(msgspec.json.encode(self._pauses))
            os.replace(f"{self._path}.new", self._path)
