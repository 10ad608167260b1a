"""Rights that are given up, each in a child of its own."""

import ctypes
import errno
import os
import socket
import threading
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import pytest

from acode.runner import landlock, namespaces, seccomp
from acode.runner.airlock import Airlock
from acode.runner.cell import Cell
from acode.runner.landlock import ALL_WRITES, READ, WRITE, Ruleset, missing
from acode.runner.sandbox import Confinement
from acode.runner.syscalls import forbid_new_privileges

pytestmark = pytest.mark.needs("landlock")


def in_child(action: Callable[[], object]) -> int:
    """How a child ends that does this: 0, or the number of the error."""
    pid = os.fork()
    if pid == 0:
        code = 255
        try:
            action()
            code = 0
        except OSError as error:
            code = error.errno or 254
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def confined(rules: Ruleset, action: Callable[[], object]) -> int:
    def give_up() -> None:
        forbid_new_privileges()
        rules.enforce()
        action()

    return in_child(give_up)


@pytest.mark.parametrize("version", range(1, landlock.abi() + 1))
def test_every_version_keeps_from_writing_elsewhere(tmp_path: Path, version: int) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    rules = Ruleset(ALL_WRITES, ports=True, version=version)
    assert rules.allow(str(inside), WRITE)
    assert confined(rules, (inside / "file").touch) == 0
    assert confined(rules, (outside / "file").touch) == 13
    assert confined(rules, outside.rmdir) == 13
    rules.close()


def test_only_newer_kernels_keep_files_from_being_emptied(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    empty = lambda: os.truncate(file, 0)  # noqa: E731
    assert confined(Ruleset(ALL_WRITES), empty) == 13
    assert file.read_text() == "x"
    assert confined(Ruleset(ALL_WRITES, version=2), empty) == 0
    assert "emptying files" in " ".join(missing(2))
    assert "emptying files" not in " ".join(missing(3))


def test_reading_can_be_given_up(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_text("x")
    rules = Ruleset(READ)
    assert confined(rules, file.read_text) == 13
    assert rules.allow(str(file), READ | WRITE)
    assert confined(rules, file.read_text) == 0


def test_a_path_that_is_not_there_is_no_rule() -> None:
    assert not Ruleset(ALL_WRITES).allow("/not/there", WRITE)


def test_gaps_shrink_from_version_to_version() -> None:
    counts = [len(list(missing(version))) for version in range(1, 8)]
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] == 0
    assert "Landlock is missing" in " ".join(missing(0))


def spawned(airlock: Airlock, script: str) -> int:
    spawn = lambda: os.posix_spawn("/bin/sh", ["sh", "-c", script], dict(os.environ))  # noqa: E731
    return os.waitstatus_to_exitcode(os.waitpid(airlock.spawn(spawn), 0)[1])


def is_dumpable() -> bool:
    return bool(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))


@pytest.fixture
def cell() -> Iterator[Cell]:
    cell = Cell(lambda: None)
    yield cell
    cell.close()


def test_who_spawns_through_an_airlock_stays_free(tmp_path: Path, cell: Cell) -> None:
    inside, outside = tmp_path / "in", tmp_path / "out"
    inside.mkdir()
    outside.mkdir()
    airlock = Airlock(Confinement(level="write", writable=(str(inside),)), cell)
    threads = len(os.listdir("/proc/self/task"))
    for _ in range(3):
        assert spawned(airlock, f"echo x > {inside}/file") == 0
        assert spawned(airlock, f"echo x > {outside}/file 2> /dev/null") != 0
        (outside / "ours").write_text("x")
    assert not is_dumpable(), "somebody confined may still be here"
    airlock.reopen()
    assert is_dumpable()
    assert len(os.listdir("/proc/self/task")) == threads
    assert spawned(airlock, "kill -0 $PPID 2> /dev/null") != 0
    assert spawned(airlock, "cat /proc/$PPID/environ > /dev/null 2>&1") != 0
    airlock.reopen()
    airlock.close()


def filters(thread: int | None = None) -> int:
    """How many filters for system calls a thread of ours has."""
    place = f"/proc/self/task/{thread or threading.get_native_id()}/status"
    (line,) = (line for line in Path(place).read_text().splitlines() if "Seccomp_filters" in line)
    return int(line.split()[1])


@pytest.mark.skipif(not seccomp.works(), reason="no filter for this machine")
def test_one_filter_holds_every_command_and_not_us(tmp_path: Path, cell: Cell) -> None:
    ours = filters()
    status = tmp_path / "status"
    for level in ("write", "write", "strict"):  # other rules, the same cell
        readable = ("/",) if level == "strict" else ()
        confinement = Confinement(level=level, writable=(str(tmp_path),), readable=readable)
        airlock = Airlock(confinement, cell)
        for _ in range(2):
            assert (
                spawned(airlock, f"grep -E 'Seccomp|NoNewPrivs' /proc/self/status > {status}") == 0
            )
            found = dict(line.split(":") for line in status.read_text().splitlines())
            held = 2 if level == "strict" else 1
            assert int(found["Seccomp_filters"]) == ours + held
            assert int(found["NoNewPrivs"]) == 1
        airlock.reopen()
        airlock.close()
    assert filters() == ours
    assert filters(cell.call(threading.get_native_id)) == ours + 2


def test_a_filter_that_is_refused_keeps_every_command_from_starting(
    tmp_path: Path, cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**_options: object) -> None:
        raise OSError(errno.EACCES, "no filter")

    monkeypatch.setattr(seccomp, "works", lambda: True)
    monkeypatch.setattr(seccomp, "filter_calls", refuse)
    for _ in range(2):
        with pytest.raises(OSError, match="no filter"):
            Airlock(Confinement(level="write", writable=(str(tmp_path),)), cell)


class Watched(Cell):
    """Notes whether others could look at us while somebody confined was waited for."""

    def __init__(self) -> None:
        self.was_dumpable: list[bool] = []
        super().__init__(lambda: None)

    def bury(self) -> None:
        self.was_dumpable.append(is_dumpable())
        super().bury()


def test_nobody_may_look_at_us_before_who_spawned_is_gone(tmp_path: Path) -> None:
    cell = Watched()
    airlock = Airlock(Confinement(level="write", writable=(str(tmp_path),)), cell)
    assert spawned(airlock, "true") == 0
    airlock.reopen()
    assert cell.was_dumpable == [False]
    assert is_dumpable()
    airlock.close()
    cell.close()


def test_a_command_that_is_not_there_is_an_error_as_ever(tmp_path: Path, cell: Cell) -> None:
    airlock = Airlock(Confinement(level="write", writable=(str(tmp_path),)), cell)
    with pytest.raises(FileNotFoundError):
        airlock.spawn(lambda: os.posix_spawn("/not/there", ["x"], {}))
    airlock.reopen()
    airlock.close()


@pytest.fixture
def common_place() -> Iterator[Path]:
    """A directory that every user may enter."""
    with TemporaryDirectory() as name:
        Path(name).chmod(0o777)
        yield Path(name)


def as_nobody(confinement: Confinement, action: Callable[[], object]) -> int:
    """How a child ends that has become nobody and is confined."""

    def run() -> None:
        os.setgroups([])
        os.setresgid(65534, 65534, 65534)
        os.setresuid(65534, 65534, 65534)
        namespaces.may_make.cache_clear()
        confinement.apply()
        action()

    return in_child(run)


@pytest.mark.needs("root", "user namespaces")
@pytest.mark.parametrize("network", ["inherit", "none"])
def test_a_user_without_rights_is_confined_as_well(
    common_place: Path, network: Literal["inherit", "none"]
) -> None:
    inside = common_place / "in"
    sealed = inside / "sealed"
    sealed.mkdir(parents=True)
    inside.chmod(0o777)
    sealed.chmod(0o777)
    confinement = Confinement(
        level="write", network=network, writable=(str(inside),), sealed=(str(sealed),)
    )
    assert as_nobody(confinement, (inside / "file").touch) == 0
    assert as_nobody(confinement, (common_place / "file").touch) == errno.EACCES
    assert as_nobody(confinement, (sealed / "file").touch) == errno.EROFS
    if network == "none":
        assert as_nobody(confinement, _reach_out) == errno.ENETUNREACH


def _reach_out() -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as wire:
        wire.connect(("192.0.2.1", 9))
