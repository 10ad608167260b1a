"""A filter for system calls: no sockets that have a path, no limits for others.

Landlock has no say in connections to such sockets, and whoever listens at one often does what he
is told: an engine of containers, the user's service manager, an agent that holds keys. Nor has it
in limits: whoever is given no processor time any more is killed.
"""

import ctypes
import errno
import os
import struct
from functools import cache
from typing import Final, NamedTuple

from acode.runner.syscalls import prctl

_PR_SET_SECCOMP, _MODE_FILTER = 22, 2
_LOAD, _EQUAL, _AT_LEAST, _RETURN = 0x20, 0x15, 0x35, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT, _THIRD_ARGUMENT = 0, 4, 16, 32
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000
_AF_UNIX: Final = 1
_IO_URING_SETUP: Final = 425
"""It makes sockets without the system call for them."""
_OTHER_ABI: Final = 0x40000000


class _Machine(NamedTuple):
    architecture: int
    socket: int
    prlimit: int
    small: int
    """The architecture of programs with smaller words, which the machine may run too."""
    small_prlimit: int


_MACHINES: Final = {
    "x86_64": _Machine(0xC000003E, 41, 302, 0x40000003, 340),
    "aarch64": _Machine(0xC00000B7, 198, 261, 0x40000028, 369),
}


@cache
def works() -> bool:
    """Whether there is a filter for this machine, and a kernel that takes one."""
    if os.uname().machine not in _MACHINES:
        return False
    try:
        prctl(_PR_SET_SECCOMP, _MODE_FILTER, 0)
    except OSError as error:
        return error.errno == errno.EFAULT  # it has looked for the filter, which is nowhere
    return False


def filter_calls(*, sockets: bool) -> None:
    """Set no limits of others, in this thread and whatever it starts.

    Without sockets none that have a path can be made either; pairs are as good as pipes.
    """
    program = _program(os.uname().machine, sockets)
    buffer = ctypes.create_string_buffer(program)
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(buffer))
    pointer = ctypes.create_string_buffer(header)
    prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.addressof(pointer))


_Step = tuple[int, int, str, str]
"""What, a number, and the labels to go on at if so and if not; without one it is the next step."""

_LIMITS: Final[dict[str, list[_Step]]] = {
    # Our own limits can be set, and anybody's can be read: then there is no new one.
    "limits": [
        (_LOAD, _FIRST_ARGUMENT, "", ""),
        (_EQUAL, 0, "allow", ""),
        (_LOAD, _THIRD_ARGUMENT, "", ""),
        (_EQUAL, 0, "", "forbid"),
        (_LOAD, _THIRD_ARGUMENT + 4, "", ""),
        (_EQUAL, 0, "allow", "forbid"),
    ],
    "allow": [(_RETURN, _ALLOW, "", "")],
    "forbid": [(_RETURN, _REFUSE | errno.EPERM, "", "")],
    "refuse": [(_RETURN, _REFUSE | errno.EACCES, "", "")],
    "unknown": [(_RETURN, _REFUSE | errno.ENOSYS, "", "")],
}


@cache
def _program(machine: str, sockets: bool) -> bytes:
    known = _MACHINES[machine]
    begin: list[_Step] = [
        (_LOAD, _ARCHITECTURE, "", ""),
        (_EQUAL, known.architecture, "", "small" if sockets else "unknown"),
        (_LOAD, _NUMBER, "", ""),
        (_AT_LEAST, _OTHER_ABI, "unknown", ""),
        (_EQUAL, known.prlimit, "limits", "allow" if sockets else ""),
    ]
    small: list[_Step] = [
        (_EQUAL, known.small, "", "allow"),
        (_LOAD, _NUMBER, "", ""),
        (_EQUAL, known.small_prlimit, "limits", "allow"),
    ]
    no_sockets: list[_Step] = [
        (_EQUAL, _IO_URING_SETUP, "unknown", ""),
        (_EQUAL, known.socket, "", "allow"),
        (_LOAD, _FIRST_ARGUMENT, "", ""),
        (_EQUAL, _AF_UNIX, "refuse", "allow"),
    ]
    return _assembled({"begin": begin, "small": small if sockets else no_sockets, **_LIMITS})


def _assembled(parts: dict[str, list[_Step]]) -> bytes:
    """Where to go on is written down as how many steps to skip."""
    places, place = {"": 0}, 0
    for label, steps in parts.items():
        places[label] = place
        place += len(steps)
    words = []
    for at, (what, number, yes, no) in enumerate(step for part in parts.values() for step in part):
        skips = (places[label] - at - 1 if label else 0 for label in (yes, no))
        words.append(struct.pack("HBBI", what, *skips, number))
    return b"".join(words)
