"""Whatever a command prints, and however much of it, is kept within bounds."""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from acode.observe.logread import read
from tests.cli.conftest import ACODE
from tests.pool.conftest import PoolProject

MEGABYTE = 1024 * 1024


def logs(project: PoolProject, task: str) -> bytes:
    """The bytes that `task logs` gives back."""
    return subprocess.run(
        [ACODE, "task", "logs", task], cwd=project.root, env=project.env, capture_output=True
    ).stdout


def kept(project: PoolProject, task: str) -> Iterator[bytes]:
    """The bytes that are in its log."""
    for record in read(str(project.agent / "logs" / "tasks" / f"{task}.log")):
        yield record.message if record.more else record.message + b"\n"


def peak(pid: int) -> int:
    """The most memory that a process ever had, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found is not None
    return int(found[1]) * 1024


@pytest.mark.req("027a-FR-042")
def test_a_hundred_megabytes_stay_within_bounds(pool_project: PoolProject) -> None:
    pool_project.start(count=1)
    (pid,) = pool_project.worker_pids()
    before = peak(pid)
    task = pool_project.add(
        "yes 0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcde | head -c 100M; "
        "echo the end"
    )
    assert pool_project.wait(task).code == 0
    assert peak(pid) - before < 8 * MEGABYTE
    printed = logs(pool_project, task)
    assert printed.endswith(b"abcde\nthe end\n")
    assert len(printed) > 30 * MEGABYTE
    files = list((pool_project.agent / "logs" / "tasks").glob(f"{task}*"))
    assert 2 <= len(files) <= 5
    assert max(file.stat().st_size for file in files) < 11 * MEGABYTE


def test_a_line_of_five_megabytes(pool_project: PoolProject) -> None:
    pool_project.start(count=1)
    (pid,) = pool_project.worker_pids()
    before = peak(pid)
    task = pool_project.add("head -c 5M /dev/zero | tr '\\0' x; printf end")
    assert pool_project.wait(task).code == 0
    assert peak(pid) - before < 8 * MEGABYTE
    assert logs(pool_project, task).rstrip(b"\n") == b"x" * 5 * MEGABYTE + b"end"


@pytest.mark.req("027a-FR-062", "027a-FR-063", "027a-FR-064", "027a-AC-008")
def test_both_streams_are_kept_apart_and_in_order(pool_project: PoolProject) -> None:
    pool_project.start(count=1)
    task = pool_project.add("echo one; sleep 0.05; echo two >&2; sleep 0.05; echo three")
    assert pool_project.wait(task).code == 0
    lines = pool_project.run("task", "logs", task, "--format", "json").out.splitlines()
    said = [(line["stream"], line["message"]) for line in map(json.loads, lines)]
    assert said == [("stdout", "one"), ("stderr", "two"), ("stdout", "three")]


@pytest.mark.parametrize(
    "data",
    [
        b"a\0b\0\0c\n",
        b"\xff\xfe\x80 \xc3\x28\n",
        "½ unfinished ".encode() + "½".encode()[:1],
        b"\r\n\x1b[31mred\x1b[0m\n\n\n",
        b"no newline at the end",
        bytes(range(256)) * 300 + b"\n",
    ],
    ids=["nul", "invalid", "cut", "control", "open", "all"],
)
def test_every_byte_comes_back(pool_project: PoolProject, tmp_path: Path, data: bytes) -> None:
    file = tmp_path / "data"
    file.write_bytes(data)
    pool_project.start(count=1)
    task = pool_project.add(f"cat {file}")
    assert pool_project.wait(task).code == 0
    assert b"".join(kept(pool_project, task)) in (data, data + b"\n")
    shown = data.decode(errors="replace").encode()
    assert logs(pool_project, task) in (shown, shown + b"\n")


def test_a_command_that_closes_its_output_is_waited_for(pool_project: PoolProject) -> None:
    pool_project.start(count=1)
    task = pool_project.add("exec >&- 2>&-; sleep 0.3; exit 4")
    assert pool_project.wait(task).code == 1
    assert pool_project.show(task)["exitCode"] == 4
    assert psutil.Process(pool_project.worker_pids()[0]).cpu_times().user < 1
