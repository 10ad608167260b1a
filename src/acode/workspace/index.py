"""What an index says about the files as they were when git wrote them, to the nanosecond.

Git itself compares whole seconds, so it cannot tell a file that was touched, and touched back,
within the second in which it was written.
"""

import os
import struct

_HEADER = struct.Struct(">4sLL")
_ENTRY = struct.Struct(">10L")
_NAME_BITS = 0xFFF
_GITLINK = 0o160000

Look = tuple[int, ...]
"""Times, number, mode, owner and size of a file, as far as an index keeps them."""


class IndexUnreadable(ValueError):
    """The index has a form that we never write."""


def read_index(path: str, id_bytes: int) -> dict[str, Look | None]:
    """How each file looked; None for the place of a submodule."""
    with open(path, "rb") as file:
        data = file.read()
    magic, version, count = _HEADER.unpack_from(data)
    if magic != b"DIRC" or version != 2:
        raise IndexUnreadable(f"{path} is no index of version 2")
    found: dict[str, Look | None] = {}
    at, fixed = _HEADER.size, _ENTRY.size + id_bytes + 2
    for _ in range(count):
        look = _ENTRY.unpack_from(data, at)
        end = data.index(b"\0", at + fixed)
        name = os.fsdecode(data[at + fixed : end])
        found[name] = None if look[6] & 0o170000 == _GITLINK else look[:4] + look[5:]
        at += (fixed + end - at - fixed + 8) // 8 * 8
    return found


def look_at(status: os.stat_result) -> Look:
    """The same of a file as it is now."""
    seconds, nanoseconds = divmod(status.st_ctime_ns, 1_000_000_000)
    written, and_a_bit = divmod(status.st_mtime_ns, 1_000_000_000)
    kept = (seconds, nanoseconds, written, and_a_bit, status.st_ino, _mode(status.st_mode))
    more = (status.st_uid, status.st_gid, status.st_size)
    return tuple(number & 0xFFFF_FFFF for number in (*kept, *more))


def _mode(mode: int) -> int:
    """Git knows links and two kinds of files."""
    if mode & 0o170000 == 0o120000:
        return 0o120000
    return 0o100755 if mode & 0o100 else 0o100644
