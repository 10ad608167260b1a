"""Old parts of logs: compressed, and removed when they are too many or too old.

Compressing takes a while: whoever runs an event loop calls this in a thread.
"""

import os
import re
from collections.abc import Callable
from typing import NamedTuple, Protocol

from acode.observe.logparts import PACKED, renaming

BLOCK_BYTES = 1 << 20
DAY_MS = 86_400_000

_LOG = re.compile(r"(?P<name>.+)\.log(?:\.(?P<number>[1-9]\d*)(?P<packed>\.gz)?)?")
_DRAFT = ".gz.tmp"


class Rules(Protocol):
    """How much is kept; the settings of `logging` have these."""

    @property
    def max_files(self) -> int:
        """Files of one log, the one that is written to among them."""
        ...

    @property
    def retention_days(self) -> float:
        """How long a file is kept after it was last written to."""
        ...


class Cared(NamedTuple):
    """What was done, by the paths of the files."""

    compressed: list[str]
    removed: list[str]


class _Part(NamedTuple):
    """A file in a directory of logs."""

    path: str
    name: str
    number: int
    """0 is the one that is written to."""
    packed: bool


def care(
    directory: str,
    rules: Rules,
    now: int,
    is_over: Callable[[str], bool] = lambda _name: False,
) -> Cared:
    """Tidy the logs of a directory.

    A file that may still be written to is touched only if `is_over` says of its log, named without
    `.log`, that nobody writes it any more.
    """
    if not os.path.isdir(directory):
        return Cared([], [])
    removed = _remove_old(directory, rules, now, is_over)
    rotated = [part for part in _parts(directory) if part.number and not part.packed]
    return Cared([part.path for part in rotated if _compress(part.path)], removed)


def _parts(directory: str) -> list[_Part]:
    matches = [_LOG.fullmatch(name) for name in sorted(os.listdir(directory))]
    return [_part(directory, match) for match in matches if match]


def _part(directory: str, match: re.Match[str]) -> _Part:
    number = int(match["number"] or 0)
    return _Part(f"{directory}/{match[0]}", match["name"], number, bool(match["packed"]))


def _remove_old(
    directory: str, rules: Rules, now: int, is_over: Callable[[str], bool]
) -> list[str]:
    oldest = now - rules.retention_days * DAY_MS
    # Under the lock, because a part that grows older meanwhile leaves its name to a newer one.
    with renaming(f"{directory}/") as mine:
        if not mine:
            return []
        _remove_drafts(directory)
        useless = [
            part.path
            for part in _parts(directory)
            if (part.number or is_over(part.name))
            and (part.number >= rules.max_files or _changed_at(part.path) < oldest)
        ]
        return [path for path in useless if _unlink(path)]


def _remove_drafts(directory: str) -> None:
    """What an interrupted compression left."""
    for name in os.listdir(directory):
        if name.endswith(_DRAFT):
            _unlink(f"{directory}/{name}")


def _changed_at(path: str) -> float:
    try:
        return os.stat(path).st_mtime * 1000
    except FileNotFoundError:
        return float("inf")


def _unlink(path: str) -> bool:
    try:
        os.unlink(path)
    except OSError:
        return False
    return True


def _compress(path: str) -> bool:
    """Replace a part by its compressed self; False if it moved away or there is no room."""
    draft = path + _DRAFT
    try:
        with open(path, "rb") as plain:
            status = os.fstat(plain.fileno())
            _pack(plain.fileno(), draft)
        os.utime(draft, ns=(status.st_atime_ns, status.st_mtime_ns))
        return _exchange(path, draft, status)
    except OSError:
        return False
    finally:
        _unlink(draft)


def _pack(source: int, draft: str) -> None:
    from gzip import GzipFile

    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with open(descriptor, "wb") as raw:
        with GzipFile("", "wb", fileobj=raw, mtime=0, compresslevel=6) as packed:
            while block := os.read(source, BLOCK_BYTES):
                packed.write(block)
        raw.flush()
        # The original is removed next; a crash of the machine must leave one of them whole.
        os.fsync(raw.fileno())


def _exchange(path: str, draft: str, status: os.stat_result) -> bool:
    """Under the lock, and only if the name still means the file that was read."""
    with renaming(path) as mine:
        if not mine or not os.path.samestat(os.stat(path), status):
            return False
        os.replace(draft, path + PACKED)
        os.unlink(path)
        return True
