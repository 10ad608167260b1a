"""Small files, read and written with as few calls as possible: a hand-out touches a dozen."""

import errno
import os
import stat

_MOST = 1 << 14
"""More than small files hold."""


def ensure_directory(path: str) -> None:
    """Make a directory that nearly always is there already."""
    if not os.path.isdir(path):
        os.makedirs(path, exist_ok=True)


def read_bytes(path: str) -> bytes:
    """What a file holds; nothing else is read, for it could be without end, or keep us waiting."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "no file", path)
        data = os.read(descriptor, _MOST)
        return data if len(data) < _MOST else data + _rest(descriptor)
    finally:
        os.close(descriptor)


def _rest(descriptor: int) -> bytes:
    parts = []
    while part := os.read(descriptor, _MOST):
        parts.append(part)
    return b"".join(parts)


def read_text(path: str) -> str:
    """The text of a file; nothing if it cannot be read."""
    try:
        return read_bytes(path).decode(errors="replace")
    except OSError:
        return ""


def write_bytes(path: str, data: bytes) -> None:
    """Make a file, or replace its content."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
    descriptor = os.open(path, flags, 0o666)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
    finally:
        os.close(descriptor)


def write_text(path: str, text: str) -> None:
    """The same for text; names of files may be in it, whatever their bytes."""
    write_bytes(path, os.fsencode(text))
