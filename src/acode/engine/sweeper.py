"""Sends the broom out: at the start, after the death of a worker, and now and then."""

import asyncio
import glob
import os
import subprocess
import sys

import msgspec

from acode.engine.bell import Bell
from acode.engine.broom import STORE_URL, Errand, Swept
from acode.model.event import PoolEvent, PoolNote, TaskEnded
from acode.model.failure import FailureCode
from acode.observe.events import Events
from acode.project import Project
from acode.settings import Settings

REST_SECONDS = 600.0
DELIVERY_SECONDS = 60.0
"""How long until a branch that could not be pushed is tried again."""
FINISH_SECONDS = 10.0
"""How long a pool that stops waits for the broom."""

_LEAVES_SOMETHING = (FailureCode.WORKER_CRASH, FailureCode.IPC_FAILURE)
"""Failures after which nobody may have put the workspace away."""


class Sweeper:
    """Sees to it that what dead workers left is saved and put away."""

    def __init__(self, project: Project, settings: Settings, events: Events) -> None:
        self.bell = Bell()
        self._events = events
        self._broom: subprocess.Popen[bytes] | None = None
        self._errand = Errand(
            root=project.root,
            worktrees=os.path.join(project.root, settings.workers.worktree.base_dir),
            keep_branch_days=settings.results.keep_branch_days,
            keep_artifact_days=settings.results.keep_artifact_days,
            undelivered=os.path.join(project.run_dir, "push"),
        )
        self._environ = {**os.environ, STORE_URL: settings.store.url or ""}
        self._is_needed = self._has_something()
        events.subscribe(self._hear, TaskEnded)

    def _has_something(self) -> bool:
        """Whether a round may find anything."""
        retention = self._errand.keep_branch_days or self._errand.keep_artifact_days
        return bool(retention) or _holds(self._errand.worktrees) or self._has_parcels()

    def _has_parcels(self) -> bool:
        return _holds(self._errand.undelivered)

    def _has_orphans(self) -> bool:
        """Whether there are records of workspaces; call when no worker is left."""
        return bool(glob.glob(f"{glob.escape(self._errand.worktrees)}/*/.state/*"))

    def _hear(self, event: PoolEvent) -> None:
        """What a lost attempt left is put away; a branch that was not pushed is tried again."""
        if not isinstance(event, TaskEnded):
            return
        if event.failure is not None and event.failure.code in _LEAVES_SOMETHING:
            self.call()
        push = event.result.push if event.result else None
        if push is not None and push.problem is not None:
            asyncio.get_running_loop().call_later(DELIVERY_SECONDS, self.call)

    def call(self) -> None:
        """Something was left behind."""
        self._is_needed = True
        self.bell.ring()

    async def tick(self) -> float:
        """One round; how long to rest."""
        if self._is_needed or self._has_something():
            await self._sweep()
        return DELIVERY_SECONDS if self._has_parcels() else REST_SECONDS

    async def _sweep(self) -> None:
        self._is_needed = False
        try:
            swept = await asyncio.to_thread(self._send)
        except (OSError, subprocess.SubprocessError, msgspec.MsgspecError) as error:
            self._events.emit(PoolNote("warning", f"sweeping up failed: {error}"))
        else:
            self._tell(swept)

    def hurry(self) -> None:
        """The pool stops and does not wait for long."""
        asyncio.get_running_loop().call_later(FINISH_SECONDS, self._end)

    async def finish(self) -> None:
        """A last round, if anything was left behind."""
        if self._is_needed or self._has_orphans():
            await self._sweep()

    def _end(self) -> None:
        """What is half done is found and finished by the next round."""
        if self._broom is not None and self._broom.poll() is None:
            self._broom.kill()

    def _tell(self, swept: Swept) -> None:
        for problem in swept.problems:
            self._events.emit(PoolNote("warning", f"sweeping up: {problem}"))
        for ref in swept.saved:
            self._events.emit(PoolNote("info", f"unfinished work was saved as {ref}"))
        for branch in swept.delivered:
            self._events.emit(PoolNote("info", f"{branch} is pushed at last"))
        counts = {
            "orphaned trees": swept.trees,
            "old branches": swept.branches,
            "old results": swept.artifacts,
        }
        done = ", ".join(f"{count} {what}" for what, count in counts.items() if count)
        if done:
            self._events.emit(PoolNote("info", f"{done} put away"))

    def _send(self) -> Swept:
        # -P: a module in the working directory must never be taken for one of ours.
        command = [sys.executable, "-P", "-m", "acode.engine.broom"]
        words = msgspec.json.encode(self._errand).decode()
        self._broom = subprocess.Popen(  # noqa: S603 -- our own program
            [*command, words],
            env=self._environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        # Its exit code may be lost to whoever reaps the daemon's children; its words are not.
        said, complaint = self._broom.communicate()
        if not said:
            raise OSError(complaint.decode(errors="replace").strip()[-500:] or "it said nothing")
        return msgspec.json.decode(said, type=Swept)


def _holds(directory: str) -> bool:
    return os.path.isdir(directory) and bool(os.listdir(directory))
