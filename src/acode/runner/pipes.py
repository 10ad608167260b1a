"""The pipes that a command's output comes through."""

import os

READ_BYTES = 64 * 1024


class Pipes:
    """One for each stream; we hold both ends.

    Our copies of the ends that the command writes to stay open: the end of a command is that of
    its tree, and an end of file would only wake us up twice before it.
    """

    def __init__(self) -> None:
        self.stdout, self.stdout_end = os.pipe2(os.O_CLOEXEC)
        self.stderr, self.stderr_end = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self.stdout, False)
        os.set_blocking(self.stderr, False)

    @property
    def tagged(self) -> tuple[tuple[str, int], tuple[str, int]]:
        """The ends to read from, each with its stream's tag in the log."""
        return ("O", self.stdout), ("E", self.stderr)

    def close(self) -> None:
        """Let go of both."""
        for descriptor in (self.stdout, self.stdout_end, self.stderr, self.stderr_end):
            os.close(descriptor)


class HandedPipes(Pipes):
    """The ends to write to of somebody else's pipes."""

    def __init__(self, stdout: int, stderr: int) -> None:
        self.stdout = self.stdout_end = stdout
        self.stderr = self.stderr_end = stderr

    def close(self) -> None:
        """Let go of both."""
        os.close(self.stdout_end)
        os.close(self.stderr_end)


def read_available(descriptor: int) -> bytes:
    """What can be read without waiting."""
    try:
        return os.read(descriptor, READ_BYTES)
    except BlockingIOError:
        return b""
