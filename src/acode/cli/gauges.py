"""What `acode bench` measures, each on a throwaway project on the disk of the user's own."""

import asyncio
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress

import msgspec

from acode.cli.context import drive
from acode.clock import Deadline, SystemClock, ticks
from acode.engine.client import ask
from acode.engine.launch import launch
from acode.engine.lock import holder
from acode.engine.options import DaemonOptions
from acode.errors import AcodeError, WorkerTimeout
from acode.ids import new_id
from acode.model.ending import Exited
from acode.model.state import Status
from acode.model.task import Lease, Result, Submission, Task, TaskSpec, WorkspaceKind
from acode.model.verdict import Complete, Report
from acode.project import Project
from acode.runner.grip import grip
from acode.runner.identity import myself
from acode.sockets import Rope
from acode.store.base import Claim
from acode.store.sqlite import SqliteStore

PRODUCERS = 50
WORKERS = 4
PATIENCE_SECONDS = 120.0
STRATEGIES = ("overlay", "warm", "plain")

clock = SystemClock()


class Scale(msgspec.Struct, frozen=True, kw_only=True):
    """How much of everything is measured."""

    syncs: int = 30
    queued: int = 2000
    samples: int = 40
    commands: int = 300
    files: int = 2000
    openings: int = 5


QUICK = Scale(syncs=5, queued=200, samples=5, commands=40, files=200, openings=2)


class Reading(msgspec.Struct, frozen=True):
    """One figure."""

    name: str
    value: float | None
    unit: str
    note: str = ""


def disk(where: str, scale: Scale) -> Iterator[Reading]:
    """What the disk takes to keep something for good: the floor under every durable write."""
    with tempfile.NamedTemporaryFile(dir=where) as file:
        samples = []
        for _ in range(scale.syncs):
            file.write(bytes(4096))
            file.flush()
            samples.append(_timed(lambda: os.fdatasync(file.fileno())))
    yield Reading("disk.sync", _ms(statistics.median(samples)), "ms", "one fdatasync of 4 KB")


def queue(where: str, scale: Scale) -> Iterator[Reading]:
    """Tasks that are added, claimed and completed, each step on disk."""
    with _throwaway(where) as project:
        seconds = _timed(lambda: asyncio.run(_through_the_queue(project.queue_db, scale.queued)))
    note = f"{scale.queued} tasks added, claimed and completed, {PRODUCERS} at once, durably"
    yield Reading("queue.throughput", round(scale.queued / seconds), "tasks/s", note)


async def _through_the_queue(path: str, count: int) -> None:
    store = SqliteStore.open(path, clock)
    try:
        share = count // PRODUCERS
        await asyncio.gather(*(_produce(store, share) for _ in range(PRODUCERS)))
        await asyncio.gather(*(_consume(store) for _ in range(PRODUCERS)))
    finally:
        await store.close()


async def _produce(store: SqliteStore, count: int) -> None:
    for _ in range(count):
        task = Submission(new_id(clock.now()), TaskSpec(command="true"))
        await store.add([task], actor="bench", queue_size=1_000_000)


async def _consume(store: SqliteStore) -> None:
    worker = new_id(clock.now())

    def mine(tasks: Sequence[Task]) -> list[str | None]:
        return [worker] * len(tasks)

    leases = await store.claim(Claim(1, mine))
    while leases:
        leases = await store.finish(_report(leases[0]), Claim(1, mine))


def _report(lease: Lease) -> Report:
    return Report(
        task_id=lease.task.id,
        token=lease.token,
        ending=Exited(0),
        ended_at=clock.now(),
        verdict=Complete(Result(exit_code=0)),
    )


def spawning(where: str, scale: Scale) -> Iterator[Reading]:
    """Bare commands, then the same through a pool: how long until one starts, and how many."""
    bare = _timed(lambda: _spawn_all(scale.commands))
    yield Reading(
        "spawn.bare", round(scale.commands / bare), "commands/s", "posix_spawn, one by one"
    )
    with _throwaway(where) as project, _pool(project) as pool:
        samples = sorted(pool.latency() for _ in range(scale.samples))
        yield Reading("latency.p50", _ms(samples[len(samples) // 2]), "ms", "submit to start, idle")
        yield Reading("latency.p99", _ms(samples[-1]), "ms", f"the slowest of {scale.samples}")
        rate = scale.commands / _timed(lambda: pool.finish(["true"] * scale.commands))
        yield Reading("spawn.pool", round(rate), "commands/s", f"{WORKERS} workers, scratch")


def _spawn_all(count: int) -> None:
    for _ in range(count):
        os.waitpid(os.posix_spawn("/bin/sh", ["sh", "-c", "true"], os.environ), 0)


class _Pool:
    """A pool that runs, used as the command line does: the store, then the bell."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._rope = Rope(project.bell_socket)
        self._store = SqliteStore.open(project.queue_db, clock, grouped=False)

    def submit(self, commands: Sequence[str]) -> None:
        specs = [TaskSpec(command=line, workspace=WorkspaceKind.SCRATCH) for line in commands]
        tasks = [Submission(new_id(clock.now()), spec) for spec in specs]
        ring = self._rope.pull
        drive(self._store.add(tasks, actor="bench", queue_size=1_000_000, ring=ring))

    def finish(self, commands: Sequence[str]) -> None:
        """Submit and wait until all are completed."""
        wanted = self._completed() + len(commands)
        self.submit(commands)
        deadline = Deadline(PATIENCE_SECONDS)
        while self._completed() < wanted:
            if not deadline.rest(0.002):
                raise WorkerTimeout(f"{len(commands)} commands did not end in time")

    def _completed(self) -> int:
        return drive(self._store.counts()).by_status[Status.COMPLETED]

    def latency(self) -> float:
        """From the submission to the first sign of life."""
        before, wanted = clock.now(), self._completed() + 1
        self.submit(["date +%s%N"])
        deadline = Deadline(PATIENCE_SECONDS)
        while self._completed() < wanted:
            if not deadline.rest(0.001):
                raise WorkerTimeout("a command did not end in time")
        return max(0.0, self._last_start() - before) / 1000

    def _last_start(self) -> float:
        """When the newest command looked at the clock, in milliseconds."""
        from acode.store.base import Sort, TaskQuery

        newest = TaskQuery(limit=1, sort=Sort(reverse=True))
        (task,) = drive(self._store.find(newest))
        with open(self._project.task_log(task.id), "rb") as file:
            words = file.read().split()
        return max(int(word) for word in words if word.isdigit() and len(word) > 15) / 1e6

    def close(self) -> None:
        drive(self._store.close())
        self._rope.close()


@contextmanager
def _pool(project: Project) -> Iterator[_Pool]:
    settings = {
        "api": {"enabled": False},
        "governance": {"enabled": False},
        "workers": {"resources": {"overLimitAction": "warn"}},
    }
    with open(project.config_file, "w", encoding="utf-8") as file:
        json.dump(settings, file)
    launch(DaemonOptions(root=project.root, count=WORKERS), f"{project.agent_dir}/logs/daemon.out")
    pool = _Pool(project)
    try:
        yield pool
    finally:
        pool.close()
        _stop(project)


def _stop(project: Project) -> None:
    process = holder(project.daemon_lock)
    daemon = grip(process) if process is not None else None
    with suppress(AcodeError):
        ask(project.control_socket, "stop", force=True)
    if daemon is not None:
        with daemon:
            daemon.ended(PATIENCE_SECONDS)


def worktrees(where: str, scale: Scale) -> Iterator[Reading]:
    """How long until a workspace on a repository is ready, beside git's own way."""
    if shutil.which("git") is None:
        yield Reading("worktree", None, "ms", "git is not installed")
        return
    with _throwaway(where) as project:
        _make_repository(project.root, scale.files)
        git = _timed(lambda: _git(project.root, "worktree", "add", "--detach", "-q", "../beside"))
        yield Reading("worktree.git", _ms(git), "ms", f"git worktree add, {scale.files} files")
        _git(project.root, "worktree", "remove", "--force", "../beside")
        for strategy in STRATEGIES:
            yield _opening(project, strategy, scale)


def _opening(project: Project, strategy: str, scale: Scale) -> Reading:
    """In a process of its own: opening may change the namespaces of whoever does it."""
    words = json.dumps({"root": project.root, "strategy": strategy, "times": scale.openings})
    done = subprocess.run(  # noqa: S603 -- our own program
        [sys.executable, "-P", "-m", "acode.cli.gauges", words],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    name = f"worktree.{strategy}"
    if done.returncode != 0:
        return Reading(name, None, "ms", done.stderr.strip().rpartition("\n")[2][:100])
    found = json.loads(done.stdout)
    if found["strategy"] != strategy:
        return Reading(name, None, "ms", "this machine does not allow it")
    return Reading(name, _ms(statistics.median(found["seconds"])), "ms", f"{scale.files} files")


def _open_and_close(root: str, strategy: str, times: int) -> dict[str, object]:
    from acode.workspace.base import Order
    from acode.workspace.opening import open_workspace

    project, seconds, used = Project(root), [], ""
    worker = new_id(clock.now())
    # The first one fills what the others share.
    for number in range(times + 1):
        order = Order(
            task_id=new_id(clock.now()),
            number=1,
            worker_id=worker,
            kind="worktree",
            project_root=root,
            trees=f"{project.worktrees_dir}/{worker}",
            owner=myself(),
            strategy=strategy,  # type: ignore[arg-type]  # one of STRATEGIES
        )
        began = ticks()
        workspace = open_workspace(order)
        if number:
            seconds.append(ticks() - began)
        used = workspace.strategy
        workspace.close()
    return {"strategy": used, "seconds": seconds}


def _make_repository(root: str, files: int) -> None:
    for number in range(files):
        folder = os.path.join(root, f"folder{number % 50}")
        os.makedirs(folder, exist_ok=True)
        with open(os.path.join(folder, f"file{number}"), "w", encoding="ascii") as file:
            file.write(f"{number}\n" * 20)
    _git(root, "init", "-q")
    _git(root, "add", "-A")
    identity = ("-c", "user.name=acode", "-c", "user.email=acode@localhost")
    _git(root, *identity, "commit", "-q", "-m", "files")


def _git(root: str, *words: str) -> None:
    settings = ("-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0")
    subprocess.run(  # noqa: S603
        ["git", *settings, *words],  # noqa: S607 -- whichever git the user has
        cwd=root,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=True,
    )


@contextmanager
def _throwaway(where: str) -> Iterator[Project]:
    """A project that is gone afterwards."""
    directory = tempfile.mkdtemp(prefix="bench-", dir=where)
    try:
        project = Project(os.path.join(directory, "project"))
        os.makedirs(project.root)
        project.prepare()
        yield project
    finally:
        shutil.rmtree(directory, ignore_errors=True)


def _timed(action: Callable[[], object]) -> float:
    began = ticks()
    action()
    return ticks() - began


def _ms(seconds: float) -> float:
    return round(seconds * 1000, 2)


GAUGES: dict[str, Callable[[str, Scale], Iterator[Reading]]] = {
    "disk": disk,
    "queue": queue,
    "spawn": spawning,
    "worktree": worktrees,
}

if __name__ == "__main__":
    sys.stdout.write(json.dumps(_open_and_close(**json.loads(sys.argv[1]))))
