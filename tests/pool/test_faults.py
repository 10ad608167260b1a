"""Every process of the pool is killed at every step; a checker reads what was written down."""

from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from acode.model.state import Status
from tests.pool.checker import Tally, check, crashes, records
from tests.pool.conftest import PoolProject, eventually

QUICK = {
    "workers": {"process": {"restartDelayMs": 20}},
    "retry": {"initialDelayMs": 10, "maxDelayMs": 20},
}
DISPATCHER = "acode.engine.dispatcher:Dispatcher"
RECOVERER = "acode.engine.recovery:Recoverer"
SUPERVISOR = "acode.engine.supervisor:Supervisor"
POOL = "acode.engine.pool:Pool"
WORKER = "acode.worker.main:Worker"


class Scene:
    """A pool with some tasks, and something that happens to it."""

    def __init__(self, project: PoolProject, tally: Tally) -> None:
        self.project = project
        self.tally = tally
        self.tasks: list[str] = []

    def add(self, count: int, then: str = "sleep 0.02") -> None:
        command = self.tally.command(then)
        self.tasks += self.project.add_all([{"command": command}] * count)

    def prove(self) -> int:
        """Everything ends, and nothing is left. Says how many attempts died with their worker."""
        assert self.project.wait(*self.tasks).code == 0
        eventually(lambda: not self.project.zombies())
        self.project.stop()
        assert not self.project.processes()
        assert not self.project.leftovers()
        found = records(self.project.agent, self.tasks)
        for record in found:
            check(record)
            assert record.task.status is Status.COMPLETED
            assert 1 <= self.tally.runs(record.task.id) <= 1 + crashes(record)
        return sum(map(crashes, found))


@pytest.fixture
def scene(pool_project: PoolProject, tmp_path: Path) -> Iterator[Scene]:
    pool_project.configure(**QUICK)
    return Scene(pool_project, Tally(tmp_path / "tally"))


@pytest.mark.parametrize(
    "step",
    [
        f"{DISPATCHER}._claim_for:before",
        f"{DISPATCHER}._hand_over:before",
        f"{DISPATCHER}._hand_over:after",
        f"{DISPATCHER}.ended:before",
        f"{DISPATCHER}._finish:before",
        f"{DISPATCHER}._finish:after",
        f"{DISPATCHER}._set_free:after",
        f"{DISPATCHER}.ended:after",
    ],
)
def test_a_daemon_that_dies_at_work_loses_nothing(scene: Scene, step: str) -> None:
    scene.project.prepare_fault(step, call=2)
    scene.project.start()
    daemon = scene.project.daemon
    scene.project.arm()
    scene.add(6)
    daemon.wait(60)
    assert scene.project.is_struck()
    scene.project.start()
    # What was claimed and not handed over is given back: its worker lives and knows nothing of it.
    assert scene.prove() == 0


@pytest.mark.parametrize(
    "step",
    [
        "acode.runner.process:spawn:before",
        "acode.runner.process:spawn:after",
        "acode.runner.children:Tree.reap:before",
        "acode.worker.spool:Spool.keep:before",
    ],
)
def test_a_worker_that_dies_at_work_is_replaced_and_its_task_tried_again(
    scene: Scene, step: str
) -> None:
    scene.project.prepare_fault(step, call=2)
    scene.project.start()
    scene.project.arm()
    scene.add(6)
    eventually(scene.project.is_struck)
    assert scene.prove() == 1


def test_a_worker_that_cannot_begin_a_task_is_not_taken_for_one_without_a_daemon(
    scene: Scene,
) -> None:
    scene.project.prepare_fault("acode.observe.log:OutputLog.begin:before", action="refuse")
    scene.project.start(count=1)
    scene.project.arm()
    scene.add(1)
    eventually(scene.project.is_struck)
    assert scene.prove() == 1


@pytest.mark.parametrize(
    "step",
    [
        "acode.worker.spool:Spool.keep:after",
        "acode.worker.attempt:Attempt.clean:before",
        "acode.worker.attempt:Attempt.clean:after",
    ],
)
def test_an_ending_that_was_spooled_outlives_its_worker(scene: Scene, step: str) -> None:
    scene.project.prepare_fault(step)
    scene.project.start(count=1)
    scene.project.arm()
    scene.add(1)
    eventually(scene.project.is_struck)
    assert scene.prove() == 0


@pytest.mark.parametrize(
    "step", [f"{WORKER}.__init__:before", f"{WORKER}.run:before", f"{WORKER}._accept:before"]
)
def test_a_worker_that_dies_at_birth_is_born_again(scene: Scene, step: str) -> None:
    scene.project.prepare_fault(step)
    scene.project.arm()
    scene.project.run("worker", "start", "--count", "2")
    assert scene.project.is_struck()
    scene.add(4)
    eventually(lambda: scene.project.pool()["idleCount"] == 2)
    assert scene.prove() == 0
    assert "restart in" in scene.project.daemon_log()


@pytest.mark.parametrize(
    "step", ["os:fork:before", "os:fork:after", "acode.runner.identity:identify:before"]
)
def test_a_zygote_that_dies_at_a_birth_is_replaced(scene: Scene, step: str) -> None:
    """After a fork, the first of the two that comes by is struck: it may be the newborn worker.

    By the third step it is the zygote, with a newborn that nobody knows of: it must not live on.
    """
    scene.project.prepare_fault(step)
    scene.project.start(count=1)
    scene.project.arm()
    scene.project.run("worker", "scale", "3")
    assert scene.project.is_struck()
    scene.add(6)
    eventually(lambda: scene.project.pool()["idleCount"] == 3)
    assert scene.prove() == 0


@pytest.mark.parametrize(
    "step",
    [
        f"{RECOVERER}.recover:before",
        f"{RECOVERER}._adopt:before",
        f"{SUPERVISOR}.attach:after",
        f"{RECOVERER}._resume:after",
        f"{RECOVERER}._give_back:before",
        f"{RECOVERER}._give_back:after",
        f"{RECOVERER}._clean:before",
        f"{RECOVERER}._clean:after",
        f"{SUPERVISOR}.start:before",
        "acode.engine.bell:BellSocket.__init__:after",
    ],
)
def test_a_daemon_that_dies_in_recovery_leaves_it_to_the_next(scene: Scene, step: str) -> None:
    scene.project.prepare_fault(step)
    scene.project.start(count=3)
    scene.add(2, f"while [ ! -e {scene.project.root}/go ]; do sleep 0.02; done")
    eventually(lambda: all(scene.tally.runs(task) for task in scene.tasks))
    running = {scene.project.show(task)["workerId"]: task for task in scene.tasks}
    pids = {worker["id"]: worker["pid"] for worker in scene.project.workers()}
    scene.project.kill_hard()
    # One of the two attempts dies with its worker, the other is adopted.
    victim = psutil.Process(pids[min(running)])
    victim.kill()
    scene.project.arm()
    assert scene.project.run("worker", "start", "--count", "4").code == 1
    assert scene.project.is_struck()
    scene.project.start(count=4)
    (scene.project.root / "go").touch()
    assert scene.prove() == 1


@pytest.mark.parametrize(
    "step",
    [
        f"{POOL}.drain:before",
        f"{POOL}.drain:after",
        f"{SUPERVISOR}._forget:before",
        f"{SUPERVISOR}._forget:after",
        f"{SUPERVISOR}.close:before",
        f"{SUPERVISOR}.close:after",
    ],
)
def test_a_daemon_that_dies_while_it_stops_leaves_nothing_to_fear(scene: Scene, step: str) -> None:
    scene.project.prepare_fault(step)
    scene.project.start()
    scene.add(4)
    scene.project.arm()
    daemon = scene.project.daemon
    scene.project.run("worker", "stop")
    daemon.wait(60)
    assert scene.project.is_struck()
    scene.project.start()
    assert scene.prove() == 0
