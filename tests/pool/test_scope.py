"""A pool on a machine that systemd runs. `systemd-run` is a stand-in: there is no systemd here."""

import json
import stat
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import ACODE
from tests.pool.conftest import PoolProject

pytestmark = pytest.mark.needs("root", "cgroup2")

STAND_IN = """#!/bin/sh
printf '%s\\n' "$@" > {heard}
{instead}
while [ "$1" != -- ]; do shift; done
shift
exec "$@"
"""

# Version 2 alone, and the directory by which everybody knows that systemd runs the machine.
MACHINE = """
mount --make-rprivate / && umount --recursive --lazy /sys/fs/cgroup &&
mount -t cgroup2 none /sys/fs/cgroup && mount -t tmpfs none /run &&
mkdir -p /run/systemd/system && exec "$0" "$@"
"""


def put_stand_in(project: PoolProject, instead: str = "") -> Path:
    """Where it keeps what it was asked for."""
    directory, heard = project.root / "bin", project.root / "heard"
    directory.mkdir()
    script = directory / "systemd-run"
    script.write_text(STAND_IN.format(heard=heard, instead=instead), encoding="utf-8")
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    project.env["PATH"] = f"{directory}:{project.env['PATH']}"
    return heard


def there(project: PoolProject, *words: str) -> "subprocess.CompletedProcess[str]":
    """What a command says on a machine that systemd runs."""
    return subprocess.run(
        ["unshare", "--mount", "sh", "-c", MACHINE, ACODE, *words],
        env=project.env,
        cwd=project.root,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def cgroups(done: "subprocess.CompletedProcess[str]") -> Any:
    return next(each for each in json.loads(done.stdout) if each["name"] == "cgroups")


def test_the_daemon_is_started_in_a_delegated_scope(pool_project: PoolProject) -> None:
    heard = put_stand_in(pool_project)
    started = there(pool_project, "worker", "start", "--count", "2")
    assert started.returncode == 0, started
    asked = heard.read_text(encoding="utf-8").splitlines()
    assert asked[:2] == ["--scope", "--quiet"]
    assert "--property=Delegate=yes" in asked
    assert f"--description=acode worker pool of {pool_project.root}" in asked
    # Whoever was asked has become the daemon: nobody stands between it and who supervises it.
    assert asked[asked.index("--") + 1 :] == pool_project.daemon.cmdline()
    assert pool_project.wait(pool_project.add("true")).code == 0


def test_a_manager_that_refuses_does_not_keep_the_pool_from_starting(
    pool_project: PoolProject,
) -> None:
    heard = put_stand_in(pool_project, "echo 'Failed to connect to bus' >&2; exit 1")
    assert there(pool_project, "worker", "start", "--count", "1").returncode == 0
    assert heard.exists()
    assert pool_project.wait(pool_project.add("true")).code == 0


def test_nobody_is_asked_if_groups_are_not_wanted(pool_project: PoolProject) -> None:
    heard = put_stand_in(pool_project)
    pool_project.env["ACODE_CGROUPS"] = "off"
    assert there(pool_project, "worker", "start", "--count", "1").returncode == 0
    assert not heard.exists()


def test_doctor_knows_that_there_will_be_a_scope(pool_project: PoolProject) -> None:
    put_stand_in(pool_project)
    found = cgroups(there(pool_project, "doctor", "--json"))
    assert found["status"] == "ok"
    assert "a scope by systemd" in found["found"]
