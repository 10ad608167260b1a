"""What the filter for system calls says, read as the kernel reads it."""

import errno
import struct
from collections.abc import Iterator

import pytest

from acode.runner import seccomp

NATIVE, SMALL = 0xC000003E, 0x40000003
GETPID, SOCKET, PRLIMIT, SMALL_PRLIMIT, IO_URING = 39, 41, 302, 340, 425
POINTER = 0x7FFF_0000_0000
ALLOWED = 0x7FFF0000


def steps(sockets: bool) -> Iterator[tuple[int, int, int, int]]:
    return struct.iter_unpack("HBBI", seccomp._program("x86_64", sockets))


def judge(sockets: bool, architecture: int, number: int, *arguments: int) -> int:
    """The error that a call gets; 0 is none."""
    padded = (*arguments, *[0] * (6 - len(arguments)))
    data = struct.pack("=IIQ6Q", number, architecture, 0, *padded)
    program, at, held = list(steps(sockets)), 0, 0
    while True:
        what, yes, no, value = program[at]
        at += 1
        match what:
            case 0x20:
                (held,) = struct.unpack_from("=I", data, value)
            case 0x15:
                at += yes if held == value else no
            case 0x35:
                at += yes if held >= value else no
            case _:
                assert what == 0x06
                return 0 if value == ALLOWED else value & 0xFFFF


@pytest.mark.parametrize("sockets", [False, True])
def test_limits_of_others_can_be_read_and_not_set(sockets: bool) -> None:
    for pid, new, error in (
        (0, POINTER, 0),
        (0, 0, 0),
        (77, 0, 0),
        (77, POINTER, errno.EPERM),
        (77, 1, errno.EPERM),
    ):
        assert judge(sockets, NATIVE, PRLIMIT, pid, 7, new, 0) == error


def test_programs_with_small_words_get_no_way_around() -> None:
    assert judge(True, SMALL, SMALL_PRLIMIT, 77, 7, 4096, 0) == errno.EPERM
    assert judge(True, SMALL, SMALL_PRLIMIT, 0, 7, 4096, 0) == 0
    assert judge(True, SMALL, PRLIMIT, 77, 7, 4096, 0) == 0
    assert judge(False, SMALL, GETPID) == errno.ENOSYS


def test_sockets_with_a_path_are_closed_where_that_is_wanted() -> None:
    for sockets, error in ((True, 0), (False, errno.EACCES)):
        assert judge(sockets, NATIVE, SOCKET, 1) == error
        assert judge(sockets, NATIVE, SOCKET, 2) == 0
        assert judge(sockets, NATIVE, GETPID) == 0
    assert judge(False, NATIVE, IO_URING) == errno.ENOSYS
    assert judge(True, NATIVE, IO_URING) == 0


@pytest.mark.parametrize("sockets", [False, True])
def test_numbers_of_other_words_are_unknown(sockets: bool) -> None:
    assert judge(sockets, NATIVE, 0x40000000 | PRLIMIT, 77, 7, POINTER) == errno.ENOSYS


def test_a_kernel_that_takes_no_filter_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: int) -> None:
        raise OSError(errno.EINVAL, "no such mode")

    assert seccomp.works()
    seccomp.works.cache_clear()
    monkeypatch.setattr(seccomp, "prctl", refuse)
    assert not seccomp.works()
    seccomp.works.cache_clear()
