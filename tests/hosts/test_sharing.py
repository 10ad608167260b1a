"""Several machines have one queue: who works, where things are, and who can be asked."""

import json
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.hosts.conftest import Company, Machine
from tests.pool.conftest import eventually
from tests.workspace.kit import git

pytestmark = pytest.mark.needs("postgresql", "network namespaces")


def test_all_machines_work_on_one_queue(company: Company) -> None:
    company.start()
    tasks = company.mars.add_all([{"command": "sleep 0.3; hostname"} for _ in range(24)])
    assert company.venus.wait(*tasks).code == 0
    hosts = {task["host"] for task in company.pluto.ask("task", "list")}
    assert hosts == {"mars", "venus", "pluto"}
    for machine in company.machines.values():
        workers = eventually(lambda m=machine: len(found := m.workers()) == 6 and found)
        assert {worker["host"] for worker in workers} == {"mars", "venus", "pluto"}
    said = company.mars.run("worker", "list").out
    assert "HOST" in said
    assert said.count("pluto") == 2
    pool = company.mars.pool()
    assert (pool["host"], pool["activeCount"]) == ("mars", 6)
    assert [host["name"] for host in pool["hosts"] if host["isThis"]] == ["mars"]
    assert "key" not in json.dumps(pool)


def test_one_machine_alone_says_nothing_of_hosts(company: Company) -> None:
    company.start(company.mars)
    task = company.mars.add("true")
    assert company.mars.wait(task).code == 0
    assert "HOST" not in company.mars.run("worker", "list").out
    assert [worker["host"] for worker in company.mars.workers()] == ["mars", "mars"]
    assert company.mars.show(task)["attempts"][0]["host"] == "mars"


def test_what_a_task_left_elsewhere_is_read_through_that_host(company: Company) -> None:
    company.start(company.venus)
    task = company.mars.add("echo said; echo made > it; cp it $ACODE_ARTIFACTS_DIR/it")
    assert company.mars.wait(task).code == 0
    assert company.mars.output(task) == "said"
    followed = company.mars.run("task", "logs", task, "--follow")
    assert followed.out == "said\n"
    (worker, _) = company.venus.workers()
    refused = company.mars.run("worker", "logs", worker["id"])
    assert (refused.code, "is on venus" in refused.err) == (1, True), refused
    company.start(company.mars)
    token = (company.mars.agent / "run" / "token").read_text()
    url = company.mars.pool()["apiUrl"]
    for path, expected in (("logs", "said"), ("artifacts", '["it"]'), ("artifacts/it", "made")):
        code, said = company.mars.get(f"{url}/api/workers/tasks/{task}/{path}", token)
        assert (code, expected in said) == (200, True), (path, said)


def test_a_host_that_answers_nobody_or_is_gone_is_named(company: Company) -> None:
    company.venus.env["ACODE_API__HOST"] = "127.0.0.1"
    company.start(company.venus)
    task = company.mars.add("echo said")
    assert company.mars.wait(task).code == 0
    done = company.mars.run("task", "logs", task)
    assert (done.code, done.out) == (1, "")
    assert "HOST-001: venus answers nobody but itself" in done.err
    assert "api.host" in done.err
    company.venus.stop()
    done = company.mars.run("task", "logs", task)
    assert (done.code, done.out) == (1, "")
    assert "HOST-001: venus is gone" in done.err
    assert company.venus.output(task) == "said"


def test_another_key_opens_nothing(company: Company) -> None:
    company.start(company.venus)
    task = company.mars.add("echo said")
    assert company.mars.wait(task).code == 0
    key = (company.venus.agent / "run" / "peer-key").read_text()
    port = company.venus.pool()["apiUrl"].rpartition(":")[2]
    here = f"http://10.77.0.3:{port}"
    logs = f"{here}/api/peers/tasks/{task}/logs"
    assert company.mars.get(logs, key)[0] == 200
    assert company.mars.get(logs, "wrong")[0] == 401
    for path in ("/api/workers", f"/api/workers/tasks/{task}", "/metrics"):
        assert company.mars.get(f"{here}{path}", key)[0] == 401, path


def test_a_wish_reaches_the_machine_that_it_concerns(company: Company) -> None:
    for key in ("POLLINTERVALMS", "IDLEBACKOFFMAXMS"):
        company.venus.env[f"ACODE_WORKERS__{key}"] = "600000"  # only the bell wakes it
    company.start(company.venus)
    task = company.venus.hold("held")
    assert company.mars.run("task", "cancel", task).code == 0
    assert company.mars.wait(task).code == 1
    assert company.mars.status(task) == "cancelled"
    assert company.mars.run("queue", "pause").code == 0
    waits = company.venus.add("true")
    assert "paused" in company.venus.run("task", "why", waits).out
    assert company.mars.run("queue", "resume").code == 0
    assert company.mars.wait(waits).code == 0


def test_every_machine_begins_with_the_commit_that_was_meant(company: Company) -> None:
    clones = Clones(company)
    company.venus.configure(results={"push": "origin"})
    company.start(company.venus)
    clones.commit(company.mars, "new", "from mars\n")
    meant = clones.head(company.mars)
    assert clones.head(company.venus) != meant
    first = company.mars.add("cat new; echo more > more")
    unpushed = clones.commit(company.mars, "newer", "not pushed\n", push=False)
    second = company.mars.add("true")
    assert company.mars.wait(first).code == 0
    assert company.venus.output(first) == "from mars"
    assert company.mars.show(first)["baseCommit"] == meant
    assert company.mars.run("task", "diff", first).out.count("+more") == 1
    assert company.mars.wait(second).code == 1
    error = company.mars.show(second)["error"]
    assert error["code"] == "INVALID_TASK"
    assert unpushed in error["message"]
    assert "push it to origin" in error["hint"]
    # What was done on one machine is where another one begins.
    company.venus.stop()
    company.start(company.pluto)
    then = company.pluto.add("cat more", "--base", f"acode/{first}", "--after", first)
    assert company.pluto.wait(then).code == 0
    assert company.pluto.output(then) == "more"


class Clones:
    """One repository, and a clone of it on each machine."""

    def __init__(self, company: Company) -> None:
        self._bare = company.mars.root.parent / "remote.git"
        git(self._bare.parent, "init", "-q", "--bare", "-b", "main", str(self._bare))
        for number, machine in enumerate(company.machines.values()):
            git(machine.root, "init", "-q", "-b", "main")
            git(machine.root, "remote", "add", "origin", str(self._bare))
            if number == 0:
                self.commit(machine, "README", "hello\n")
            else:
                git(machine.root, "fetch", "-q")
                git(machine.root, "reset", "-q", "--hard", "origin/main")

    def commit(self, machine: Machine, name: str, text: str, *, push: bool = True) -> str:
        (machine.root / name).write_text(text)
        git(machine.root, "add", name)
        git(machine.root, "commit", "-q", "-m", name)
        if push:
            git(machine.root, "push", "-q", "origin", "main")
        return self.head(machine)

    def head(self, machine: Machine) -> str:
        return git(machine.root, "rev-parse", "HEAD")


CHECKPOINTED = (
    'cat "$ACODE_CHECKPOINT" && exit; echo "from $ACODE_ATTEMPT" > "$ACODE_CHECKPOINT"; '
    "trap 'exit 1' TERM; while :; do sleep 0.02; done"
)
"""The first attempt leaves something and goes on; the next one shows it and is done."""


def kept(company: Company) -> list[object]:
    """What the store has of checkpoints."""
    return company.database.execute("SELECT step FROM acode.checkpoints", company.name)


def checkpoints(machine: Machine, task: str) -> Iterable[Path]:
    return (machine.agent / "run" / "tmp").glob(f"*/checkpoints/{task}")


def test_a_checkpoint_goes_where_its_task_goes(company: Company) -> None:
    company.start(company.mars, company.venus, count=1)
    task = company.mars.add(CHECKPOINTED)
    machine = company.place(task)
    eventually(lambda: any(each.read_text() for each in checkpoints(machine, task)))
    machine.stop("--force")
    (other,) = {company.mars, company.venus} - {machine}
    assert other.wait(task).code == 0
    assert other.output(task).splitlines()[-1] == "from 1"
    assert company.place(task) is other
    assert not kept(company)


def test_a_checkpoint_outlives_its_machine(company: Company) -> None:
    company.start(company.mars, company.venus, count=1)
    task = company.mars.add(CHECKPOINTED)
    machine = company.place(task)
    eventually(lambda: kept(company))
    machine.kill_all()
    (other,) = {company.mars, company.venus} - {machine}
    assert other.wait(task).code == 0
    assert company.place(task) is other
    assert other.output(task).splitlines()[-1] == "from 1"
