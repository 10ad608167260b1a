"""Does acode stay within the times and sizes that its requirements give as numbers?"""

import os
import time
from collections.abc import Iterator
from statistics import median

import psutil

from acode.cli.context import drive
from acode.model.state import Status
from acode.runner.identity import myself
from acode.sockets import connect
from acode.store.base import Claim
from acode.store.sqlite import SqliteStore
from acode.worker.known import known_workers
from acode.worker.wire import FrameReader, FrameType, pack
from acode.workspace.base import Order
from acode.workspace.opening import open_workspace
from bench.bounds import below, within
from bench.command import acode
from bench.filled import Filling, Shelf
from bench.pools import Pool, clock, memory_bytes, pool
from bench.report import Line
from bench.rounds import Scale, seconds
from bench.workspaces import generate

WAITING = 10_000
FILES = 5_000
SAMPLES = 40
MB = 1 << 20


def measure(shelf: Shelf, scale: Scale) -> Iterator[Line]:
    """Every row that a pool of processes answers; those of containers are measured there."""
    starts, stops = [], []
    for _ in range(scale.rounds):
        began = time.perf_counter()
        with pool(shelf.fresh(), 1):
            starts.append(time.perf_counter() - began)
            began = time.perf_counter()
        stops.append(time.perf_counter() - began)
    yield within("027-NFR-001", median(starts))
    yield within("027-NFR-002", median(stops))
    yield within("027-NFR-003", _claim(shelf))
    with pool(shelf.fresh(), 1) as running:
        yield below("027a-NFR-005", _memory(running))
        yield within("027a-NFR-001", median(_spawn(running) for _ in range(SAMPLES)))
        yield within("027a-NFR-002", _kill(running))
        yield within("027-NFR-004", _heartbeat(running))
    yield from _worktree(shelf)


def _claim(shelf: Shelf) -> float:
    store = SqliteStore.open(shelf.filled(Filling(WAITING)).queue_db, clock, grouped=False)
    wanted = Claim(1, lambda tasks: ["worker"] * len(tasks))
    spent = median(seconds(lambda: drive(store.claim(wanted))) for _ in range(SAMPLES))
    drive(store.close())
    return spent


def _memory(running: Pool) -> float:
    daemon = psutil.Process(running.daemon_pid)
    pids = [process.pid for process in (daemon, *daemon.children(recursive=True))]
    return sum(map(memory_bytes, pids)) / MB


def _spawn(running: Pool) -> float:
    """Until the command's first word is heard."""
    done = running.count(Status.COMPLETED)
    spent = _until_heard(running, "echo > {}")
    running.wait_for(Status.COMPLETED, done + 1)
    return spent


def _kill(running: Pool) -> float:
    """Until a command is gone that has said that it does not listen."""
    _until_heard(running, "trap '' TERM; echo > {}; while :; do sleep 1; done")
    (task,) = running.tasks(Status.RUNNING)
    began = time.perf_counter()
    acode(f"task cancel {task.id}", running.project.root)
    running.wait_for(Status.CANCELLED, 1)
    return time.perf_counter() - began


def _until_heard(running: Pool, command: str) -> float:
    path = os.path.join(running.project.root, "heard")
    os.mkfifo(path)
    # Opened for both, so that neither end ever waits for the other to open it.
    pipe = os.open(path, os.O_RDWR)
    try:
        began = time.perf_counter()
        running.submit([command.format(path)])
        os.read(pipe, 1)
        return time.perf_counter() - began
    finally:
        os.close(pipe)
        os.unlink(path)


def _heartbeat(running: Pool) -> float:
    """Asked in the daemon's place: a worker listens to whoever called last."""
    ((worker_id, _),) = known_workers(running.project.run_dir)
    frames = FrameReader()
    with connect(f"{running.project.run_dir}/workers/{worker_id}.sock") as line:

        def beat() -> None:
            line.sendall(pack(FrameType.HEARTBEAT, worker_id, clock.now(), None))
            while not list(frames.feed(line.recv(1 << 16))):
                pass

        list(frames.feed(line.recv(1 << 16)))  # its greeting
        return median(seconds(beat) for _ in range(SAMPLES))


def _worktree(shelf: Shelf) -> Iterator[Line]:
    root = os.path.join(shelf.directory, "repository")
    generate(root, FILES)
    order = Order(
        task_id="task",
        number=1,
        worker_id="worker",
        kind="worktree",
        project_root=root,
        trees=f"{root}/.agent/worktrees/worker",
        owner=myself(),
        strategy="plain",
    )
    began = time.perf_counter()
    workspace = open_workspace(order)
    yield within("027a-NFR-003", time.perf_counter() - began)
    yield within("027a-NFR-004", seconds(workspace.close))
