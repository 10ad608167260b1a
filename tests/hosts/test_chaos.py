"""Two thousand tasks on three machines while everything breaks: none is lost, none done twice."""

import os
import random
import signal
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from acode.clock import Deadline
from acode.model.ending import Exited
from acode.model.state import Status
from acode.runner.identity import is_alive
from acode.worker.known import known_workers
from tests.hosts.conftest import LEASE_SECONDS, Company, Machine
from tests.pool.checker import Tally, check
from tests.pool.conftest import eventually

pytestmark = pytest.mark.needs("postgresql", "network namespaces")

TASKS = 2000
CHUNK = 500


class Chaos:
    """Breaks one thing after another, and repairs each."""

    def __init__(self, company: Company, seed: int) -> None:
        self._company = company
        self._dice = random.Random(seed)
        self._deck: list[Callable[[Machine], None]] = []
        self.done: list[str] = []

    def strike(self) -> None:
        """The next fault; every kind has its turn before one comes again."""
        if not self._deck:
            self._deck = [
                self.worker_killed,
                self.daemon_killed,
                self.machine_killed,
                self.line_cut,
                self.line_cut_for_long,
                self.database_restarted,
                self.database_killed,
            ]
            self._dice.shuffle(self._deck)
        fault = self._deck.pop()
        self.done.append(fault.__name__)
        fault(self._dice.choice(list(self._company.machines.values())))

    def worker_killed(self, machine: Machine) -> None:
        with suppress(ProcessLookupError):
            os.kill(self._dice.choice(_workers(machine)), signal.SIGKILL)

    def daemon_killed(self, machine: Machine) -> None:
        machine.kill_hard()
        machine.start(count=3)

    def machine_killed(self, machine: Machine) -> None:
        machine.kill_all()
        machine.start(count=3)

    def line_cut(self, machine: Machine) -> None:
        self._cut(machine, LEASE_SECONDS / 4)

    def line_cut_for_long(self, machine: Machine) -> None:
        self._cut(machine, LEASE_SECONDS * 1.5)

    def _cut(self, machine: Machine, seconds: float) -> None:
        machine.cut()
        Deadline(seconds).rest(seconds)
        machine.heal()

    def database_restarted(self, _: Machine) -> None:
        self._company.database.stop()
        self._company.database.start()

    def database_killed(self, _: Machine) -> None:
        self._company.database.kill_hard()
        self._company.database.start()


def _workers(machine: Machine) -> list[int]:
    """Without asking anybody: a daemon that is cut off takes its time to answer."""
    known = known_workers(str(machine.agent / "run"))
    return [process.pid for _, process in known if is_alive(process)]


def test_nothing_is_lost_and_nothing_done_twice(company: Company, tmp_path: Path) -> None:
    tally = Tally(tmp_path / "tally")
    company.start(count=3)
    command = tally.command("sleep 0.05")
    tasks: list[str] = []
    chaos = Chaos(company, seed=int(os.environ.get("CHAOS_SEED", "9")))
    while len(tasks) < TASKS:
        tasks += company.pluto.add_all([{"command": command} for _ in range(CHUNK)])
        chaos.strike()
        chaos.strike()
    while company.unfinished() > TASKS / 20:
        chaos.strike()
    eventually(lambda: company.unfinished() == 0, seconds=120)
    records = company.records(tasks)
    assert {record.task.status for record in records} == {Status.COMPLETED}, chaos.done
    for record in records:
        check(record)
        assert sum(attempt.ending == Exited(0) for attempt in record.attempts) == 1, record
        assert tally.runs(record.task.id) >= 1
    assert {record.task.host_id for record in records} == {
        attempt.host_id for record in records for attempt in record.attempts[-1:]
    }
    assert len(set(chaos.done)) == 7, "everything has happened"
