"""What does a container cost: a task in a warm one, starting a pool of them, watching twenty?

Beside the engine's own client, on an engine of our own (as the tests have it).
"""

import json
import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from typing import Any

from acode.model.state import Status
from acode.project import Project
from acode.runner.container.leaks import ours
from acode.runner.container.stats import Meter
from bench.bounds import within
from bench.filled import Shelf
from bench.pools import Pool, cpu_seconds, pool
from bench.report import Line, Pair, at_most, duration
from bench.rounds import Rounds, Scale, seconds
from tests.docker.engines import TestEngine
from tests.docker.images import BUSYBOX, ensure

Settings = dict[str, Any]

OURS, PROCESS = "acode", "the same as a process"
EXEC, RUN, DETACHED = "docker exec", "docker run --rm", "docker run -d"
TASKS = 40
STARTED = 8
WATCHED = 20
STATS_SECONDS = 20.0
LOOKS = 100


def measure(shelf: Shelf, scale: Scale) -> Iterator[Line]:
    """Everything, where there is an engine."""
    if os.geteuid() != 0 or not (shutil.which("dockerd") and shutil.which("docker")):
        yield Line("containers: needs root, dockerd and docker", "", "")
        return
    with _engine() as engine:
        docker = {"host": engine.host, "image": BUSYBOX, "pullPolicy": "never"}
        settings = {"mode": "docker", "docker": docker}
        yield from _tasks(shelf, scale, settings)
        yield from _starts(shelf, scale, settings)
        yield from _one(shelf, scale, settings, engine)
        yield _stats(shelf, WATCHED if scale.rounds > 2 else STARTED, settings)


@contextmanager
def _engine() -> Iterator[TestEngine]:
    engine = TestEngine("docker", "-bench").start()
    before = os.environ.get("DOCKER_HOST")
    os.environ["DOCKER_HOST"] = engine.host
    try:
        ensure(engine.wait().api, BUSYBOX)
        yield engine
    finally:
        engine.stop()
        os.environ.pop("DOCKER_HOST")
        if before is not None:
            os.environ["DOCKER_HOST"] = before


def _docker(*words: str) -> str:
    done = subprocess.run(["docker", *words], check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _tasks(shelf: Shelf, scale: Scale, settings: Settings) -> Iterator[Line]:
    peer = _docker("run", "-d", BUSYBOX, "sleep", "100000")
    with pool(shelf.fresh(), 1, **settings) as running, pool(shelf.fresh(), 1) as processes:
        turns: dict[str, Callable[[], float]] = {
            OURS: _each(lambda: _drain(running)),
            PROCESS: _each(lambda: _drain(processes)),
            EXEC: _each(lambda: [_docker("exec", peer, "true") for _ in range(TASKS)]),
            RUN: _each(lambda: [_docker("run", "--rm", BUSYBOX, "true") for _ in range(TASKS)]),
        }
        rounds = Rounds(turns, scale.rounds)
    _docker("rm", "-f", peer)
    yield at_most("a task in a warm container", Pair(rounds, OURS, EXEC), 0.2)
    yield at_most("a task in a warm container", Pair(rounds, OURS, RUN), 0.05)
    yield at_most("a task in a warm container", Pair(rounds, OURS, PROCESS))


def _drain(running: Pool) -> None:
    before = running.count(Status.COMPLETED)
    running.submit(["true"] * TASKS)
    running.wait_for(Status.COMPLETED, before + TASKS)


def _each(action: Callable[[], Any]) -> Callable[[], float]:
    return lambda: seconds(action) / TASKS


def _starts(shelf: Shelf, scale: Scale, settings: Settings) -> Iterator[Line]:
    def ours() -> float:
        began = time.perf_counter()
        with pool(shelf.fresh(), STARTED, **settings):
            return time.perf_counter() - began

    def theirs() -> float:
        began = time.perf_counter()
        made = [_docker("run", "-d", BUSYBOX, "sleep", "100000") for _ in range(STARTED)]
        took = time.perf_counter() - began
        _docker("rm", "-f", *made)
        return took

    rounds = Rounds({OURS: ours, DETACHED: theirs}, min(3, scale.rounds))
    yield at_most(f"start of {STARTED} workers", Pair(rounds, OURS, DETACHED), 1.0)


def _one(shelf: Shelf, scale: Scale, settings: Settings, engine: TestEngine) -> Iterator[Line]:
    """A container's start and end with all that is around them, and one look at it."""
    starts, stops, looks = [], [], []
    for _ in range(scale.rounds):
        began = time.perf_counter()
        with pool(shelf.fresh(), 1, **settings):
            starts.append(time.perf_counter() - began)
            (found,) = ours(engine.wait().api)
            meter = Meter(engine.wait().api, found["Id"])
            looks += [seconds(meter.read) for _ in range(LOOKS)]
            began = time.perf_counter()
        stops.append(time.perf_counter() - began)
    yield within("027b-NFR-001", median(starts))
    yield Line("the same pool stops", duration(median(stops)), "")
    yield within("027b-NFR-004", median(looks))


def _stats(shelf: Shelf, count: int, settings: Settings) -> Line:
    """The whole daemon's share of a core while its containers are idle."""
    with pool(shelf.fresh(), count, **settings) as running:
        time.sleep(2)
        before = cpu_seconds(running.daemon_pid)
        time.sleep(STATS_SECONDS)
        share = (cpu_seconds(running.daemon_pid) - before) / STATS_SECONDS * 100
        _check(running.project, count)
    case = f"stats of {count} containers every 5 s, the whole daemon"
    return Line(case, f"{share:.2f} % of a core", "", None, "≤ 2 %", share <= 2)


def _check(project: Project, count: int) -> None:
    made = os.path.join(project.run_dir, "containers")
    if sum(name.endswith(".json") for name in os.listdir(made)) != count:
        raise RuntimeError(json.dumps(os.listdir(made)))
