"""Control groups of the real kernel, and of version 2 as far as a directory can play it."""

import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from acode.ids import new_id
from acode.model.limits import CPU, MEMORY, PROCESSES, AttemptLimits, OverLimitAction
from acode.runner.cell import Cell
from acode.runner.cgroup import (
    OURS,
    Place,
    find_place,
    make_room,
    members,
    remove_groups,
)
from acode.runner.group import Group
from acode.runner.pipes import Pipes
from acode.runner.process import fork_and_exec
from tests.plugins.components import unified_directory

KILL = AttemptLimits(memory_mb=64, max_processes=20, action=OverLimitAction.KILL)
HOG = "x = bytearray(200 * 1024 * 1024); print(len(x))"


@pytest.fixture
def group() -> Iterator[Group]:
    place = find_place()
    assert place is not None
    group = Group(place, new_id(1))
    group.make()
    yield group
    group.close()
    assert remove_groups(group.directories.values())


@pytest.fixture
def cell(group: Group) -> Iterator[Cell]:
    cell = Cell(group.enter)
    yield cell
    cell.close()


def run(cell: Cell, *argv: str) -> int:
    """The exit code of a command that was born in the cell's groups."""
    pid = cell.call(lambda: os.posix_spawn(argv[0], argv, os.environ))
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def python(cell: Cell, code: str) -> int:
    return run(cell, "/usr/bin/env", "python3", "-c", code)


v1 = pytest.mark.needs("cgroups v1")


@v1
def test_a_command_is_born_in_the_group_and_its_spawner_stays_outside(
    group: Group, cell: Cell, tmp_path: Path
) -> None:
    seen = tmp_path / "seen"
    assert run(cell, "/bin/sh", "-c", f"cat /proc/self/cgroup > {seen}") == 0
    lines = seen.read_text(encoding="utf-8").splitlines()
    inside = [line for line in lines if "acode-worker-" in line]
    assert len(inside) == len(group.directories)
    assert "acode-worker-" not in Path("/proc/self/cgroup").read_text(encoding="utf-8")


@v1
@pytest.mark.req("027-FR-058")
def test_more_memory_than_the_limit_is_an_end_that_the_kernel_counts(
    group: Group, cell: Cell
) -> None:
    assert MEMORY in group.hold_to(KILL)
    group.begin()
    assert python(cell, HOG) == -signal.SIGKILL
    assert group.since_begin().oom_kills == 1


@v1
def test_a_warned_attempt_is_not_held_to_its_memory(group: Group, cell: Cell) -> None:
    enforced = group.hold_to(AttemptLimits(memory_mb=64))
    group.begin()
    assert python(cell, HOG) == 0
    assert MEMORY not in enforced
    assert group.since_begin().oom_kills == 0


@v1
def test_the_limits_of_the_next_attempt_are_its_own(group: Group, cell: Cell) -> None:
    group.hold_to(KILL)
    group.begin()
    assert python(cell, HOG) == -signal.SIGKILL
    group.hold_to(AttemptLimits(memory_mb=512, action=OverLimitAction.KILL))
    group.begin()
    assert python(cell, HOG) == 0
    assert group.since_begin().oom_kills == 0


@v1
@pytest.mark.req("forge-18")
def test_no_more_processes_than_the_limit(group: Group, cell: Cell) -> None:
    assert PROCESSES in group.hold_to(AttemptLimits(max_processes=20))
    group.begin()
    many = "for i in $(seq 40); do sleep 5 & done; exit 0"
    run(cell, "/bin/sh", "-c", f"({many}) 2>/dev/null; kill $(jobs -p) 2>/dev/null; exit 0")
    alive = set(members(group.directories["pids"])) - {os.getpid()}
    assert group.since_begin().refused_forks > 0
    assert len(alive) <= 20
    group.kill()
    _until_empty(group)


def _until_empty(group: Group) -> None:
    from acode.clock import Deadline

    deadline = Deadline(10)
    while set(members(group.directories["pids"])) - {os.getpid()}:
        assert deadline.rest(0.01)


@v1
def test_a_group_that_was_killed_serves_the_next_attempt(group: Group, cell: Cell) -> None:
    limits = AttemptLimits(max_processes=20)
    group.hold_to(limits)
    pid = cell.call(lambda: os.posix_spawn("/bin/sleep", ["sleep", "60"], {}))
    group.kill()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    group.hold_to(limits)
    assert run(cell, "/bin/true") == 0


@v1
@pytest.mark.req("027-FR-057")
def test_a_throttled_attempt_gets_its_share_of_the_processor(group: Group, cell: Cell) -> None:
    limits = AttemptLimits(cpu_percent=10, action=OverLimitAction.THROTTLE)
    assert CPU in group.hold_to(limits)
    group.begin()
    assert run(cell, "/usr/bin/timeout", "1", "sh", "-c", "while :; do :; done") == 124
    # A second of it: a tenth is its share, and a full core would be one second.
    assert 0 < group.usage().cpu_seconds < 0.5
    assert group.since_begin().throttled > 0


@v1
@pytest.mark.req("027-FR-062")
def test_what_an_attempt_used_is_its_own_and_not_that_of_the_one_before(
    group: Group, cell: Cell, tmp_path: Path
) -> None:
    group.hold_to(AttemptLimits())
    group.begin()
    assert python(cell, HOG) == 0
    large = group.usage()
    group.begin()
    assert run(cell, "/bin/true") == 0
    small = group.usage()
    assert large.max_memory_bytes > 200 * 1024 * 1024
    assert 0 < small.max_memory_bytes < 8 * 1024 * 1024
    assert 0 < small.cpu_seconds < large.cpu_seconds


@v1
def test_files_that_were_read_are_not_the_memory_of_an_attempt(
    group: Group, cell: Cell, tmp_path: Path
) -> None:
    group.hold_to(AttemptLimits())
    group.begin()
    written = f"head -c 100000000 /dev/zero > {tmp_path}/file; cat {tmp_path}/file > /dev/null"
    assert run(cell, "/bin/sh", "-c", written) == 0
    assert group.usage().max_memory_bytes < 50_000_000


@v1
def test_removing_a_group_ends_what_is_in_it(group: Group) -> None:
    with subprocess.Popen(["sleep", "60"], preexec_fn=group.enter) as sleeper:
        assert remove_groups(group.directories.values())
        assert sleeper.wait() == -signal.SIGKILL
    assert not any(os.path.exists(path) for path in group.directories.values())


# Version 2, in a directory: what is written where. The kernel here has no controllers for it.


@pytest.fixture
def delegated(tmp_path: Path) -> Path:
    """What a systemd scope with Delegate=yes looks like."""
    own = tmp_path / "scope"
    own.mkdir()
    (own / "cgroup.controllers").write_text("cpuset cpu io memory pids\n")
    (own / "cgroup.subtree_control").touch()
    (own / "cgroup.procs").write_text("11\n12\n")
    return own


def found_in(tmp_path: Path, inside: str = "") -> Place | None:
    return find_place(
        fake_proc(tmp_path, f"0::/scope{inside}\n", mount(tmp_path, "cgroup2", "nsdelegate"))
    )


@pytest.mark.parametrize("inside", ["", f"/{OURS}"], ids=["first", "again"])
def test_version_2_is_found_where_it_was_delegated_and_left_as_it_is(
    delegated: Path, tmp_path: Path, inside: str
) -> None:
    if inside:
        (delegated / OURS).mkdir()
    before = sorted(delegated.iterdir())
    place = found_in(tmp_path, inside)
    assert place == Place(2, dict.fromkeys(("memory", "pids", "cpu"), str(delegated)))
    assert sorted(delegated.iterdir()) == before
    assert (delegated / "cgroup.subtree_control").read_text() == ""


def test_version_2_moves_everybody_into_a_leaf_and_asks_for_controllers(
    delegated: Path, tmp_path: Path
) -> None:
    place = found_in(tmp_path)
    assert place is not None
    assert make_room(place) == place
    assert (delegated / OURS / "cgroup.procs").read_text() == "12"
    assert (delegated / "cgroup.subtree_control").read_text() == "+memory +pids +cpu"


def test_version_2_that_refuses_controllers_is_no_place(delegated: Path, tmp_path: Path) -> None:
    place = found_in(tmp_path)
    assert place is not None
    (delegated / "cgroup.subtree_control").unlink()
    (delegated / "cgroup.subtree_control").mkdir()
    assert make_room(place) is None


def test_version_2_without_controllers_is_no_place(delegated: Path, tmp_path: Path) -> None:
    (delegated / "cgroup.controllers").write_text("hugetlb\n")
    assert found_in(tmp_path) is None


def test_version_1_needs_no_room(tmp_path: Path) -> None:
    place = Place(1, {"memory": str(tmp_path)})
    assert make_room(place) is place


FILES_V2 = {
    "memory.max": "max",
    "memory.swap.max": "max",
    "memory.oom.group": "0",
    "memory.current": "1000",
    "memory.peak": "1000",
    "memory.events": "low 0\nhigh 0\nmax 3\noom 1\noom_kill 1\noom_group_kill 0\n",
    "pids.max": "max",
    "pids.events": "max 2\n",
    "cpu.max": "max 100000",
    "cpu.stat": "usage_usec 1000000\nuser_usec 1\nnr_periods 9\nnr_throttled 4\n",
    "cgroup.kill": "",
    "cgroup.procs": "",
}


@pytest.fixture
def group_v2(delegated: Path) -> tuple[Group, Path]:
    place = Place(2, dict.fromkeys(("memory", "pids", "cpu"), str(delegated)))
    group = Group(place, "W")
    group.make()
    directory = delegated / "acode-worker-W"
    for name, text in FILES_V2.items():
        (directory / name).write_text(text)
    return group, directory


@pytest.mark.parametrize(
    ("limits", "enforced", "written"),
    [
        (
            KILL,
            {MEMORY, PROCESSES},
            {"memory.max": str(64 * 1024 * 1024), "memory.swap.max": "0", "pids.max": "20"},
        ),
        (
            AttemptLimits(cpu_percent=25, action=OverLimitAction.THROTTLE),
            {CPU, PROCESSES},
            {"cpu.max": "25000 100000", "memory.max": "max", "pids.max": "50"},
        ),
        (
            AttemptLimits(cpu_percent=0.5, action=OverLimitAction.THROTTLE),
            {CPU, PROCESSES},
            {"cpu.max": "5000 1000000"},
        ),
        (AttemptLimits(), {PROCESSES}, {"cpu.max": "max 100000", "memory.max": "max"}),
    ],
    ids=["kill", "throttle", "tiny", "warn"],
)
def test_version_2_is_told_in_its_own_words(
    group_v2: tuple[Group, Path],
    limits: AttemptLimits,
    enforced: set[str],
    written: dict[str, str],
) -> None:
    group, directory = group_v2
    for name in ("memory.max", "memory.swap.max", "pids.max", "cpu.max"):
        (directory / name).write_text("")
    assert group.hold_to(limits) == enforced
    group.close()
    assert {name: (directory / name).read_text() for name in written} == written


def test_version_2_counts_by_difference(group_v2: tuple[Group, Path]) -> None:
    group, directory = group_v2
    group.hold_to(AttemptLimits(action=OverLimitAction.THROTTLE))
    group.begin()
    (directory / "cpu.stat").write_text("usage_usec 3500000\nnr_throttled 5\n")
    (directory / "memory.peak").write_text("90001000")
    (directory / "memory.current").write_text("1000")
    (directory / "memory.events").write_text("oom_kill 3\n")
    usage, counted = group.usage(), group.since_begin()
    group.close()
    assert (usage.cpu_seconds, usage.max_memory_bytes) == (2.5, 90_000_000)
    assert counted == (2, 0, 1)


@pytest.mark.parametrize("known", [True, False], ids=["looked at the end", "did not look"])
def test_an_attempt_is_not_blamed_for_the_one_before(
    group_v2: tuple[Group, Path], known: bool
) -> None:
    group, directory = group_v2
    group.begin()
    (directory / "memory.events").write_text("oom_kill 3\n")
    assert group.since_begin().oom_kills == 2
    (directory / "memory.events").write_text("oom_kill 4\n")
    (directory / "cpu.stat").write_text("usage_usec 3500000\nnr_throttled 5\n")
    if known:
        assert group.since_begin(is_over=True).oom_kills == 3
    assert group.usage().cpu_seconds == 2.5
    group.begin()
    assert group.since_begin(is_over=True) == (0, 0, 0)
    assert group.usage().cpu_seconds == 0
    group.close()


def test_version_2_ends_everything_at_once(group_v2: tuple[Group, Path]) -> None:
    group, directory = group_v2
    group.kill()
    group.close()
    assert (directory / "cgroup.kill").read_text() == "1"


@pytest.mark.needs("cgroup2")
def test_version_2_of_the_real_kernel_takes_a_child_in_and_ends_it() -> None:
    """Membership and its end; the controllers themselves belong to version 1 on such a machine."""
    unified = unified_directory()
    assert unified is not None
    group, pipes = Group(Place(2, {"pids": unified}), new_id(1)), Pipes()
    group.make()
    try:
        assert not group.holds_threads
        argv = ("/bin/sh", "-c", "cat /proc/self/cgroup; sleep 60 & wait")
        pid = fork_and_exec(argv, {"PATH": os.environ["PATH"]}, "/", pipes, [group.enter])
        os.set_blocking(pipes.stdout, True)
        seen = os.read(pipes.stdout, 4096).decode()
        while "0::" not in seen:
            seen += os.read(pipes.stdout, 4096).decode()
        assert re.search(r"^0::.*/acode-worker-", seen, re.MULTILINE)
        assert len(members(group.directories["pids"])) >= 1
        group.kill()
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGKILL
    finally:
        pipes.close()
        group.close()
        assert remove_groups(group.directories.values())


# Where groups can be made.


def fake_proc(tmp_path: Path, cgroup: str, mountinfo: str) -> str:
    (tmp_path / "cgroup").write_text(cgroup)
    (tmp_path / "mountinfo").write_text(mountinfo)
    return str(tmp_path)


def mount(point: Path, kind: str, options: str, root: str = "/") -> str:
    return f"30 20 0:26 {root} {point} rw,nosuid shared:9 - {kind} cgroup rw,{options}\n"


def test_groups_are_made_below_our_own(tmp_path: Path) -> None:
    for name in ("memory", "cpu,cpuacct"):
        (tmp_path / name / "user" / "me").mkdir(parents=True)
    proc = fake_proc(
        tmp_path,
        "5:cpu,cpuacct:/user/me\n4:memory:/user/me\n0::/\n",
        mount(tmp_path / "memory", "cgroup", "memory")
        + mount(tmp_path / "cpu,cpuacct", "cgroup", "cpu,cpuacct"),
    )
    cpu = str(tmp_path / "cpu,cpuacct" / "user" / "me")
    expected = {"memory": str(tmp_path / "memory" / "user" / "me"), "cpu": cpu, "cpuacct": cpu}
    assert find_place(proc) == Place(1, expected)


def test_in_a_container_paths_count_from_what_is_mounted(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    proc = fake_proc(
        tmp_path,
        "4:memory:/docker/abc\n",
        mount(tmp_path / "memory", "cgroup", "memory", root="/docker/abc"),
    )
    assert find_place(proc) == Place(1, {"memory": str(tmp_path / "memory")})


def test_where_nothing_can_be_made_there_is_no_place(tmp_path: Path) -> None:
    assert find_place(str(tmp_path / "nowhere")) is None
    assert find_place(fake_proc(tmp_path, "0::/\n", "")) is None
    # /proc is a file system in which nobody makes directories.
    proc = fake_proc(tmp_path, "4:memory:/\n", mount(Path("/proc/self"), "cgroup", "memory"))
    assert find_place(proc) is None


def test_the_search_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "memory").mkdir()
    find_place(fake_proc(tmp_path, "4:memory:/\n", mount(tmp_path / "memory", "cgroup", "memory")))
    assert os.listdir(tmp_path / "memory") == []


def test_a_group_that_is_not_there_is_removed_already() -> None:
    assert remove_groups(["/sys/fs/cgroup/memory/acode-worker-none"])


def test_a_cell_raises_what_its_function_raises_and_goes_on() -> None:
    cell = Cell(lambda: None)
    with pytest.raises(ZeroDivisionError):
        cell.call(lambda: 1 // 0)
    assert cell.call(lambda: 7) == 7
    cell.close()


def test_what_has_a_lasting_effect_in_a_cell_is_done_once() -> None:
    cell = Cell(lambda: None)
    done: list[str] = []

    def note(what: str) -> None:
        if not done:
            done.append("in vain")
            raise OSError(what)
        done.append(what)

    with pytest.raises(OSError, match="first"):
        cell.once(note, "first")
    for what in ("first", "first", "second", "first"):
        cell.once(note, what)
    assert done == ["in vain", "first", "second"]
    cell.close()


def test_a_thread_that_was_spent_is_gone_and_the_cell_stays() -> None:
    cell = Cell(lambda: None)
    resident = cell.call(threading.get_native_id)
    threads = len(os.listdir("/proc/self/task"))
    spent = [cell.spend(threading.get_native_id) for _ in range(3)]
    assert resident not in spent
    cell.bury()
    assert not any(os.path.exists(f"/proc/self/task/{each}") for each in spent)
    assert len(os.listdir("/proc/self/task")) == threads
    cell.close()
    assert len(os.listdir("/proc/self/task")) == threads - 1


def test_a_spent_thread_ends_whatever_its_function_raises() -> None:
    cell = Cell(lambda: None)
    ids: list[int] = []

    def fail() -> None:
        ids.append(threading.get_native_id())
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        cell.spend(fail)
    cell.bury()
    assert not os.path.exists(f"/proc/self/task/{ids[0]}")
    assert cell.call(lambda: 7) == 7
    cell.close()


def test_a_cell_that_can_start_no_thread_refuses_and_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cell = Cell(lambda: None)
    resident = cell.call(threading.get_native_id)

    def refuse(*_: object) -> int:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patched:
        patched.setattr("_thread.start_new_thread", refuse)
        with pytest.raises(OSError, match="no thread"):
            cell.spend(lambda: pytest.fail("nobody could call it"))
    assert cell.call(threading.get_native_id) == resident
    cell.close()


@v1
def test_threads_that_are_spent_live_in_the_group_too(group: Group, cell: Cell) -> None:
    def groups() -> str:
        return Path("/proc/thread-self/cgroup").read_text(encoding="utf-8")

    for _ in range(3):
        assert cell.spend(groups).count("acode-worker-") == len(group.directories)


def test_a_cell_that_cannot_settle_in_says_so_and_works_outside() -> None:
    def refuse() -> None:
        raise PermissionError("no")

    cell = Cell(refuse)
    assert cell.call(lambda: subprocess.run(["true"]).returncode) == 0
    assert isinstance(cell.trouble, PermissionError)
    cell.close()
