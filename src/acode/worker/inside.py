"""A command in the worker's container: what it is told, how it is started, what became of it."""

import os
from collections.abc import Sequence

import msgspec

from acode.model.ending import Usage
from acode.model.failure import Category, Failure, FailureCode
from acode.runner.container.order import Command
from acode.runner.container.seat import Seat, give
from acode.runner.container.standin import fork_stand_in, quiesce
from acode.runner.container.told import Told
from acode.runner.pipes import Pipes
from acode.runner.refusal import no_directory
from acode.worker.places import Places
from acode.worker.reports import Gone, Refused, Remark, Report, Spent, Vanished


class Inside:
    """One command, through a local process in its place."""

    def __init__(self, seat: Seat) -> None:
        self._seat = seat
        self._report = -1

    def start(self, argv: Sequence[str], env: dict[str, str], directory: str, pipes: Pipes) -> int:
        """Start it; the pid of its stand-in."""
        self._report, report = os.pipe2(os.O_CLOEXEC)
        try:
            ends = (pipes.stdout_end, pipes.stderr_end)
            return fork_stand_in(self._seat, Command(argv, env, directory), *ends, report)
        finally:
            os.close(report)

    def reports(self, argv: Sequence[str], cwd: str | None, status: int) -> list[Report]:
        """What there is to tell when the stand-in has ended; nothing runs inside any more."""
        return reports_of(self._told(), argv, cwd, status)

    def _told(self) -> Told:
        data = os.read(self._report, 1 << 16)
        os.close(self._report)
        if data:
            return msgspec.msgpack.decode(data, type=Told)
        # It was killed. Its pipe is closed, so what ran inside is being killed, too.
        return Told(broken=not quiesce(self._seat))


def reports_of(told: Told, argv: Sequence[str], cwd: str | None, status: int) -> list[Report]:
    """What there is to tell of a command that is over."""
    spent: list[Report] = [Spent()] if told.broken or told.oom else []
    if told.unstarted is not None:
        return [*spent, Remark("X", told.unstarted), Refused(None)]
    if told.absent:
        return [*spent, Refused(_absent(argv[0]))]
    if told.nowhere:
        return [*spent, Refused(no_directory(cwd or "."))]
    if told.lost is not None and not told.oom:
        return [*spent, Vanished(told.lost)]
    strays = [Remark("W", "ended what the command left running")] if told.strays else []
    usage = Usage(told.cpu_seconds, told.max_memory_bytes)
    return [*spent, *strays, Gone(status, usage, told.oom)]


def environment_inside(task_env: dict[str, str], own: dict[str, str]) -> dict[str, str]:
    """What a command in a container sees beside what its image sets: nothing of this machine's."""
    home = {"HOME": own["TMPDIR"], "GIT_CONFIG_COUNT": "1"}
    trust = {"GIT_CONFIG_KEY_0": "safe.directory", "GIT_CONFIG_VALUE_0": "*"}
    return {**home, **trust, **task_env, **own}


def hand_over_worktree(seat: Seat, top: str) -> None:
    """Let it belong to the container's user, with what git keeps of a worktree elsewhere."""
    _hand_over_tree(seat, top)
    link = os.path.join(top, ".git")
    if os.path.isfile(link):
        with open(link, encoding="utf-8", errors="surrogateescape") as file:
            _hand_over_tree(seat, file.readline().removeprefix("gitdir: ").strip())


def _hand_over_tree(seat: Seat, top: str) -> None:
    for directory, folders, files in os.walk(top):
        for name in (*folders, *files):
            give(os.path.join(directory, name), seat.uid, seat.gid)
    give(top, seat.uid, seat.gid)


def hand_over_places(seat: Seat, places: Places, saved: str) -> None:
    """Let what an attempt is given belong to the container's user, if he is not ours."""
    if os.geteuid() != 0:
        return
    rooms = (places.suite, places.temporary, places.artifacts, places.workspace, saved)
    for room in rooms:
        if os.path.lexists(room):
            give(room, seat.uid, seat.gid)


def _absent(program: str) -> Failure:
    return Failure(
        FailureCode.TOOL_NOT_FOUND,
        Category.PERMANENT,
        f"{program} is not in the container's image",
        "use an image that has it (workers.docker.image, or image in the task's metadata)",
        final=True,
    )
