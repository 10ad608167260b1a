"""A filter for system calls: no sockets that have a path.

Landlock has no say in connections to them, and whoever listens at one often does what he is told:
an engine of containers, the user's service manager, an agent that holds keys.
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
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000
_AF_UNIX: Final = 1
_IO_URING_SETUP: Final = 425
"""It makes sockets without the system call for them."""
_OTHER_ABI: Final = 0x40000000


class _Machine(NamedTuple):
    architecture: int
    socket: int


_MACHINES: Final = {
    "x86_64": _Machine(0xC000003E, 41),
    "aarch64": _Machine(0xC00000B7, 198),
}


def is_known() -> bool:
    """Whether there is a filter for this machine."""
    return os.uname().machine in _MACHINES


def close_unix_sockets() -> None:
    """Make no more of them, in this thread and whatever it starts; pairs are as good as pipes."""
    program = _program(os.uname().machine)
    buffer = ctypes.create_string_buffer(program)
    header = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(buffer))
    pointer = ctypes.create_string_buffer(header)
    prctl(_PR_SET_SECCOMP, _MODE_FILTER, ctypes.addressof(pointer))


@cache
def _program(machine: str) -> bytes:
    """Steps of (what, where to if so, where to if not, number); where is how many to skip."""
    known = _MACHINES[machine]
    steps = (
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 0, 8, known.architecture),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 6, 0, _OTHER_ABI),
        (_EQUAL, 5, 0, _IO_URING_SETUP),
        (_EQUAL, 0, 2, known.socket),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_EQUAL, 1, 0, _AF_UNIX),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _REFUSE | errno.EACCES),
        (_RETURN, 0, 0, _REFUSE | errno.ENOSYS),
    )
    return b"".join(struct.pack("HBBI", *step) for step in steps)
