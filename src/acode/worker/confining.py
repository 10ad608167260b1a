"""How the commands of a worker are confined."""

import os
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from acode.runner.airlock import Airlock
from acode.runner.caches import cache_variables
from acode.runner.cell import Cell
from acode.runner.sandbox import (
    SHARED_MEMORY,
    Confinement,
    lies_within,
    project_readable,
    readable_search_path,
)
from acode.worker.config import WorkerConfig


class Confining:
    """Makes confinements by the rules of the pool, and keeps the last one's rules at hand."""

    def __init__(self, config: WorkerConfig) -> None:
        self._rules = config.sandbox
        self._root = config.project_root
        self._agent_dir = config.agent_dir
        self._checkpoints = config.live_checkpoints
        self._cache = f"{config.agent_dir}/cache"
        self._cache_variables = cache_variables(self._cache)
        self._shared_memory = not lies_within(config.project_root, SHARED_MEMORY)
        self._airlock: Airlock | None = None
        self._at: tuple[object, ...] = ()

    def of(self, writable: Sequence[str]) -> Confinement | None:
        """For a command that works in these places; None if nothing is kept from it."""
        rules = self._rules
        if rules.level == "off":
            return None
        cache = (self._cache,) if rules.level == "write" else ()
        sealed = self._sealed() if self._root in writable else ()
        readable: tuple[str, ...] = ()
        if rules.level == "strict":
            readable = (*project_readable(self._root, self._agent_dir), *rules.read_paths)
        return Confinement(
            level=rules.level,
            network=rules.network,
            writable=(*writable, self._checkpoints, *cache, *rules.write_paths),
            readable=readable,
            shared_memory=self._shared_memory,
            sealed=sealed,
        )

    def _sealed(self) -> tuple[str, ...]:
        """What nobody may change who works in the project itself: what others will execute."""
        git = os.path.join(self._root, ".git")
        if not os.path.isdir(git):
            return (self._agent_dir,)
        os.makedirs(f"{git}/hooks", exist_ok=True)  # else it could be made, with hooks in it
        return self._agent_dir, f"{git}/hooks", f"{git}/config"

    def prepare(self, env: dict[str, str], confinement: Confinement | None) -> dict[str, str]:
        """The environment with which a command gets along inside."""
        if confinement is None:
            return env
        if confinement.level == "write":
            return self._cache_variables | env
        return env | {"PATH": readable_search_path(env.get("PATH", os.defpath), confinement)}

    def spawn(self, confinement: Confinement, start: Callable[[], int], cell: Cell) -> int:
        """Start a command inside, from this cell."""
        return self._open(confinement, cell).spawn(start)

    def reopen(self) -> None:
        """Nothing of us is in reach of the command any more, or will be in a moment."""
        if self._airlock is not None:
            self._airlock.reopen()

    def _open(self, confinement: Confinement, cell: Cell) -> Airlock:
        # Rules are for directories, not for their names: new ones of the same name need new rules,
        # and one that was only renamed does not.
        at = (replace(confinement, writable=()), cell, *map(_identity, confinement.writable))
        if self._airlock is None or at != self._at:
            self.close()
            self._airlock, self._at = Airlock(confinement, cell), at
        return self._airlock

    def close(self) -> None:
        """Let go of the rules."""
        if self._airlock is not None:
            self._airlock.close()
            self._airlock = None


def _identity(path: str) -> tuple[int, int] | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino
