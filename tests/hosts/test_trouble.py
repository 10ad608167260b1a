"""What becomes of tasks when a machine, the line to it, or the database goes."""

import shlex
from contextlib import suppress
from itertools import pairwise
from pathlib import Path

import psutil
import pytest

from acode.model.ending import Exited, Lost, Released
from acode.model.state import Status
from tests.hosts.conftest import Company, Machine
from tests.hosts.network import Database, Network
from tests.pool.checker import check
from tests.pool.conftest import eventually

pytestmark = pytest.mark.needs("postgresql", "network namespaces")


class Traces:
    """A task that leaves a trace many times a second, for as long as any of it lives."""

    def __init__(self, directory: Path) -> None:
        self._file = directory / "traces"
        self._go = directory / "go"

    @property
    def command(self) -> str:
        """It ends when it is let go; it ignores whoever asks it to end earlier."""
        trace = (
            f'echo "$ACODE_ATTEMPT $(cut -d" " -f1 /proc/uptime)" >> {shlex.quote(str(self._file))}'
        )
        until = f"[ -e {shlex.quote(str(self._go))} ]"
        return f"trap '' TERM; until {until}; do {trace}; sleep 0.02; done"

    def let_go(self) -> None:
        self._go.touch()

    def attempts(self) -> list[int]:
        """The attempts that were at work, in the order of their traces."""
        lines = self._file.read_text().splitlines() if self._file.exists() else []
        return [int(line.split()[0]) for line in lines]

    def wait_for_second(self) -> None:
        """The second attempt is well under way; what the first still did would be seen."""
        eventually(lambda: self.attempts().count(2) > 15)

    def check(self) -> None:
        """No attempt was at work together with a later one."""
        seen = self.attempts()
        assert all(before <= after for before, after in pairwise(seen)), "two ran at once"


@pytest.fixture
def traces(tmp_path: Path) -> Traces:
    return Traces(tmp_path)


def begun(company: Company, traces: Traces, *flags: str) -> tuple[str, Machine]:
    """A task that leaves traces, and the machine that it runs on."""
    task = company.mars.add(traces.command, *flags)
    eventually(traces.attempts)
    return task, company.place(task)


def test_what_a_dead_machine_ran_runs_elsewhere(company: Company, traces: Traces) -> None:
    company.start()
    task, machine = begun(company, traces)
    machine.kill_all()
    traces.wait_for_second()
    other = company.place(task)
    assert other is not machine
    watcher = company.others(machine)[0]
    assert "its tasks run elsewhere" in watcher.run("worker", "status").out
    assert machine.name not in {worker["host"] for worker in watcher.workers()}
    traces.let_go()
    assert watcher.wait(task).code == 0
    record = company.record(task)
    check(record)
    first, second = record.attempts
    assert isinstance(first.ending, Lost)
    assert f"{machine.name} fell silent" in first.ending.why
    assert (second.ending, record.task.attempt_count) == (Exited(0), 2)
    shown = watcher.show(task)
    assert [each["host"] for each in shown["attempts"]] == [machine.name, other.name]
    assert shown["host"] == other.name


def test_a_machine_that_is_cut_off_stops_before_others_begin(
    company: Company, traces: Traces
) -> None:
    company.start()
    task, machine = begun(company, traces)
    machine.cut()
    traces.wait_for_second()
    traces.check()
    status = machine.run("worker", "status").out
    assert "cut off from the queue" in status
    machine.heal()
    eventually(lambda: "cut off" not in machine.run("worker", "status").out)
    traces.let_go()
    assert machine.wait(task).code == 0
    record = company.record(task)
    check(record)
    traces.check()
    assert record.task.attempt_count == 2
    assert isinstance(record.attempts[0].ending, Lost)
    # It takes part again.
    for other in company.others(machine):
        other.stop()
    assert machine.wait(machine.add("true")).code == 0


def test_a_short_cut_is_no_trouble(company: Company, traces: Traces) -> None:
    company.start()
    task, machine = begun(company, traces)
    machine.cut()
    eventually(lambda: "cannot be renewed" in machine.daemon_log())
    machine.heal()
    eventually(lambda: "answers again" in machine.daemon_log())
    traces.let_go()
    assert machine.wait(task).code == 0
    assert company.record(task).task.attempt_count == 1


def test_a_worker_without_a_daemon_stops_in_time(company: Company, traces: Traces) -> None:
    company.start()
    task, machine = begun(company, traces)
    machine.kill_hard()
    traces.wait_for_second()
    traces.check()
    traces.let_go()
    assert company.others(machine)[0].wait(task).code == 0
    traces.check()
    check(company.record(task))


def test_a_daemon_that_comes_back_takes_over_its_own_workers_only(
    company: Company, traces: Traces
) -> None:
    for each in (company.mars, company.venus):
        each.env["ACODE_WORKERS__LEASESECONDS"] = "20"  # the start may take its time
    company.start(company.mars, count=1)
    task, machine = begun(company, traces)
    other = company.venus
    company.start(other, count=1)
    held = other.hold("held")
    assert company.place(held) is other
    machine.kill_hard()
    machine.start(count=1)
    assert (company.record(task).task.attempt_count, machine.status(task)) == (1, "running")
    traces.let_go()
    other.let_go("held")
    assert other.wait(task, held).code == 0
    assert [len(record.attempts) for record in company.records([task, held])] == [1, 1]


@pytest.mark.parametrize("how", ["restarted", "killed"])
def test_the_database_may_go_and_come_back(company: Company, traces: Traces, how: str) -> None:
    company.start(company.mars, company.venus)
    task, machine = begun(company, traces)
    ending = company.mars.hold("ending")
    if how == "killed":
        company.database.kill_hard()
    else:
        company.database.stop()
    company.mars.let_go("ending")  # what ends now is told later
    eventually(lambda: machine.pool()["backpressure"])
    said = machine.run("worker", "status")
    assert said.code == 0
    assert "Held back" in said.out
    refused = machine.run("task", "add", "--", "true")
    assert refused.code == 1
    assert "QUEUE-007" in refused.err
    company.database.start()
    after = eventually(lambda: _added(machine))
    traces.let_go()
    assert machine.wait(task, ending, after).code == 0
    for record in company.records([task, ending, after]):
        check(record)
    counts = [record.task.attempt_count for record in company.records([task, ending])]
    assert counts == [1, 1]


def test_another_server_may_take_the_place_of_the_database(
    network: Network, tmp_path: Path, traces: Traces
) -> None:
    first = Database(network, 5442)
    first.start()
    second = first.stand_by()
    company = Company(network, first, "promoted", tmp_path)
    try:
        company.start(company.mars, company.venus)
        task, machine = begun(company, traces)
        tasks = machine.add_all([{"command": "sleep 0.02"} for _ in range(100)])
        first.kill_hard()
        second.execute("SELECT pg_promote()")
        company.database = second
        after = eventually(lambda: _added(machine))
        traces.let_go()
        assert machine.wait(task, after, *tasks).code == 0
        for record in company.records([task, after, *tasks]):
            check(record)
            assert record.task.status is Status.COMPLETED
    finally:
        company.close()
        second.remove()
        first.remove()


def _added(machine: Machine) -> str | None:
    done = machine.run("task", "add", "--", "true")
    return done.out.strip() if done.code == 0 else None


def test_a_task_that_takes_its_host_with_it_is_quarantined(company: Company) -> None:
    company.start(company.mars, count=1)
    # It kills the worker: the policies are those of one machine.
    task = company.mars.add("kill -9 $(cut -d' ' -f4 /proc/self/stat); kill -9 $PPID; sleep 60")
    company.mars.wait(task)
    record = company.record(task)
    assert record.task.status is Status.FAILED
    check(record)


def test_a_stopped_pool_gives_its_tasks_back_at_once(company: Company, traces: Traces) -> None:
    company.start(company.mars, company.venus)
    task, machine = begun(company, traces)
    machine.stop("--force")
    traces.wait_for_second()
    traces.let_go()
    (other,) = {company.mars, company.venus} - {machine}
    assert other.wait(task).code == 0
    record = company.record(task)
    assert isinstance(record.attempts[0].ending, Released)
    assert record.task.attempt_count == 1
    assert machine.name not in {host["name"] for host in other.pool()["hosts"]}


def test_a_frozen_machine_finds_out_that_it_lost_its_tasks(
    company: Company, traces: Traces
) -> None:
    company.start(company.mars, company.venus)
    task, machine = begun(company, traces)
    (other,) = {company.mars, company.venus} - {machine}
    frozen = freeze(machine)
    traces.wait_for_second()
    for process in frozen:
        with suppress(psutil.Error):
            process.resume()
    eventually(lambda: "given to others" in machine.daemon_log())
    eventually(lambda: not [each for each in machine.processes() if _is_task(each)])
    traces.let_go()
    assert other.wait(task).code == 0
    check(company.record(task))


def freeze(machine: Machine) -> set[psutil.Process]:
    """Stop every process, those too that were begun meanwhile."""
    frozen: set[psutil.Process] = set()
    while new := set(machine.processes()) - frozen:
        for process in new:
            with suppress(psutil.Error):
                process.suspend()
        frozen |= new
    return frozen


def _is_task(process: psutil.Process) -> bool:
    try:
        return "ACODE_ATTEMPT_TOKEN" in process.environ()
    except psutil.Error:
        return False


def test_a_pool_is_stopped_without_the_database(company: Company, traces: Traces) -> None:
    company.start(company.mars)
    task, machine = begun(company, traces)
    company.database.stop()
    assert machine.run("worker", "stop", "--force").code == 0
    assert not machine.has_daemon()
    assert not machine.processes()
    company.database.start()
    traces.let_go()
    machine.start()
    assert machine.wait(task).code == 0
    record = company.record(task)
    check(record)
    assert record.task.attempt_count == 1, "whoever stops a pool burns no attempt"
