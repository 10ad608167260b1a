"""Runs a command in a world without fork: programs and threads can still be started.

The kernel refuses it as on a machine that promises no more memory than it has.
"""

import ctypes
import errno
import os
import struct
import sys
from typing import Final

from acode.runner.syscalls import forbid_new_privileges, prctl

_LOAD, _EQUAL, _HAS, _RETURN = 0x20, 0x15, 0x45, 0x06
_NUMBER, _FLAGS = 0, 16
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000
_SHARES_MEMORY: Final = 0x100
_CLONE: Final = {"x86_64": 56, "aarch64": 220}
"""What fork is made of; whoever starts threads or programs shares its memory with them."""


def is_known() -> bool:
    """Whether there is such a filter for this machine."""
    return os.uname().machine in _CLONE


def refuse_forks() -> None:
    """From here on, for this process and all below it."""
    steps = [
        (_LOAD, 0, 0, _NUMBER),
        (_EQUAL, 0, 3, _CLONE[os.uname().machine]),
        (_LOAD, 0, 0, _FLAGS),
        (_HAS, 1, 0, _SHARES_MEMORY),
        (_RETURN, 0, 0, _REFUSE | errno.ENOMEM),
        (_RETURN, 0, 0, _ALLOW),
    ]
    program = b"".join(struct.pack("HBBI", *step) for step in steps)
    buffer = ctypes.create_string_buffer(program)
    header = struct.pack("HxxxxxxP", len(steps), ctypes.addressof(buffer))
    pointer = ctypes.create_string_buffer(header)
    forbid_new_privileges()
    prctl(22, 2, ctypes.addressof(pointer))


if __name__ == "__main__":
    refuse_forks()
    os.execvp(sys.argv[1], sys.argv[1:])
