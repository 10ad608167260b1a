"""Writing logs, inside a worker or the daemon.

Readers see only files. So nobody who reads, however slowly, can hold up the one who writes.
"""

import errno
import os
from contextlib import suppress

from acode.observe.logformat import Chunk, Context, chunks
from acode.observe.logparts import renaming, shift

MAX_BYTES = 10 * 1024 * 1024
MAX_FILES = 5

_FULL = (errno.ENOSPC, errno.EDQUOT)


class LogFile:
    """One log, made when it gets its first record and rotated when it is full."""

    def __init__(
        self,
        path: str,
        context: Context,
        *,
        max_bytes: int = MAX_BYTES,
        max_files: int = MAX_FILES,
    ) -> None:
        self.context = context
        """Whose output comes next; may be replaced at any time."""
        self._path = path
        self._max_bytes = max_bytes
        self._max_files = max_files
        self._descriptor: int | None = None
        self._size = 0
        self._told: Context | None = None
        self._torn = False
        self._lost = 0
        self._lost_at = 0
        self._why_lost = ""

    def write(self, tag: str, output: bytes, now: int) -> None:
        """Write output of one kind as it comes, lines cut anywhere."""
        for chunk in chunks(tag, output, now):
            self.append(chunk)

    def append(self, chunk: Chunk) -> None:
        """Write a chunk. What cannot be written is lost, counted and told of; nothing is raised."""
        try:
            descriptor = self._ready_for(len(chunk.lines))
        except OSError as error:
            self._lose(chunk.size, chunk.at, error)
            return
        self._write(descriptor, chunk)

    def close(self) -> None:
        """Let go of the file; the next record opens it again."""
        if self._lost:
            self.append(Chunk(b"", 0, self._lost_at))
        self._close()

    def _close(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _ready_for(self, size: int) -> int:
        """An open file that has room."""
        descriptor = self._open()
        if self._size and self._size + size > self._max_bytes:
            self._rotate()
            descriptor = self._open()
        return descriptor

    def _open(self) -> int:
        if self._descriptor is not None:
            return self._descriptor
        try:
            descriptor = self._descriptor = _open(self._path)
        except FileNotFoundError:
            os.makedirs(os.path.dirname(self._path), exist_ok=True)
            descriptor = self._descriptor = _open(self._path)
        self._size = os.fstat(descriptor).st_size
        self._told = None
        # Whoever wrote before may have died in the middle of a record.
        self._torn = self._size > 0 and os.pread(descriptor, 1, self._size - 1) != b"\n"
        return descriptor

    def _rotate(self) -> None:
        """Begin a new file, or go on with this one if that cannot be done now."""
        with suppress(OSError), renaming(self._path) as mine:
            if mine:
                self._close()
                shift(self._path, self._max_files)

    def _write(self, descriptor: int, chunk: Chunk) -> None:
        data = self._preamble(chunk.at) + chunk.lines
        left = memoryview(data)
        failed: OSError | None = None
        try:
            while left:
                left = left[os.write(descriptor, left) :]
        except OSError as error:
            failed = error
        self._account(data, len(left), chunk)
        if failed:
            self._lose(_share(chunk, len(left)), chunk.at, failed)

    def _account(self, data: bytes, left: int, chunk: Chunk) -> None:
        """Remember what is in the file now."""
        done = len(data) - left
        self._size += done
        if done:
            self._torn = data[done - 1 : done] != b"\n"
        if left <= len(chunk.lines):
            self._told = self.context
            self._lost = 0

    def _preamble(self, now: int) -> bytes:
        """What has to stand before the next record."""
        lines = b"\n" if self._torn else b""
        if self._told != self.context:
            lines += self.context.line()
        if self._lost:
            # The context ends the line that was cut.
            note = f"{now} W {self._lost} bytes of output lost: {self._why_lost}\n"
            lines += self.context.line() + note.encode()
        return lines

    def _lose(self, size: int, now: int, error: OSError) -> None:
        self._lost += size
        self._lost_at = now
        full = error.errno in _FULL
        self._why_lost = "no space on disk" if full else error.strerror or str(error)


def _share(chunk: Chunk, left: int) -> int:
    """How many bytes of output are in the last bytes of its lines."""
    whole = len(chunk.lines)
    return chunk.size * left // whole if left < whole else chunk.size


def _open(path: str) -> int:
    return os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)


class OutputLog:
    """What a worker and its commands say: in the worker's log, and in that of the task it runs."""

    def __init__(
        self,
        logs_dir: str,
        worker_id: str,
        *,
        max_bytes: int = MAX_BYTES,
        max_files: int = MAX_FILES,
    ) -> None:
        self._logs_dir = logs_dir
        self._max_bytes = max_bytes
        self._max_files = max_files
        self._idle = Context(worker_id)
        self._worker = self._file(f"workers/worker-{worker_id}.log", self._idle)
        self._files: tuple[LogFile, ...] = (self._worker,)

    def begin(self, task_id: str, attempt: int) -> None:
        """What comes now belongs to this attempt. A task that says nothing leaves no file."""
        self.end()
        context = Context(self._idle.worker_id, task_id, attempt)
        self._worker.context = context
        self._files = (self._worker, self._file(f"tasks/{task_id}.log", context))

    def write(self, tag: str, output: bytes, now: int) -> None:
        """Write output as it comes from a pipe; it is formatted once for all files."""
        for chunk in chunks(tag, output, now):
            for file in self._files:
                file.append(chunk)

    def end(self) -> None:
        """The attempt is over."""
        for file in self._files[1:]:
            file.close()
        self._files = (self._worker,)
        self._worker.context = self._idle

    def close(self) -> None:
        """Let go of every file."""
        self.end()
        self._worker.close()

    def _file(self, name: str, context: Context) -> LogFile:
        return LogFile(
            f"{self._logs_dir}/{name}",
            context,
            max_bytes=self._max_bytes,
            max_files=self._max_files,
        )
