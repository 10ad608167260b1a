"""What the pool runs interrupts nobody, unless somebody wants it otherwise."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import ACODE
from tests.pool.conftest import PoolProject

POLICY = 38
"""Where it is told in /proc/…/stat, behind the name."""
TELL = "cat /proc/self/stat"


def policy(stat: str) -> int:
    return int(stat.rpartition(")")[2].split()[POLICY])


def policies_of_workers(project: PoolProject) -> set[int]:
    return {
        policy((thread / "stat").read_text(encoding="utf-8"))
        for pid in project.worker_pids()
        for thread in Path(f"/proc/{pid}/task").iterdir()
    }


@pytest.mark.parametrize("sandbox", ["off", "write"])
def test_workers_and_what_they_run_wait_for_their_turn(
    pool_project: PoolProject, sandbox: str
) -> None:
    pool_project.env["ACODE_SANDBOX__LEVEL"] = sandbox
    pool_project.start(count=2)
    tasks = [
        pool_project.add(TELL, "--workspace", workspace) for workspace in ("scratch", "project")
    ]
    choosy = pool_project.add(
        f"{sys.executable} -c 'import os; os.sched_setscheduler(0, 0, os.sched_param(0)); "
        f'os.execvp("cat", ["cat", "/proc/self/stat"])\''
    )
    assert pool_project.wait(*tasks, choosy).code == 0
    assert policies_of_workers(pool_project) == {os.SCHED_BATCH}
    assert {policy(pool_project.output(task)) for task in tasks} == {os.SCHED_BATCH}
    assert policy(pool_project.output(choosy)) == os.SCHED_OTHER
    assert policy(Path(f"/proc/{pool_project.daemon.pid}/stat").read_text()) == os.SCHED_OTHER


def test_a_pool_that_is_to_have_what_others_leave_stays_like_that(
    pool_project: PoolProject,
) -> None:
    modest = "os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))"
    begin = f"import os, sys; {modest}; os.execv(sys.argv[1], sys.argv[1:])"
    subprocess.run(
        [sys.executable, "-c", begin, ACODE, "worker", "start", "--count", "2"],
        cwd=pool_project.root,
        env=pool_project.env,
        check=True,
        capture_output=True,
    )
    task = pool_project.add(TELL)
    assert pool_project.wait(task).code == 0
    assert policies_of_workers(pool_project) == {os.SCHED_IDLE}
    assert policy(pool_project.output(task)) == os.SCHED_IDLE
