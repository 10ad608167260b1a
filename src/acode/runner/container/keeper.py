"""What runs in a container whose image has no shell: a program of its own, and our end of it.

It keeps the container up and signals what runs there; commands are started by the engine.
"""

import os
import select
import signal
import struct
from types import TracebackType

from acode.clock import Deadline
from acode.runner.container.channel import DOOR_SECONDS, RETRY_SECONDS, Gone, Silent
from acode.runner.container.seat import Seat

ANSWER_SECONDS = 5.0
SOMEBODY = 0
_MARKS = range(128, 256)
"""No signals: nothing happens, but they are answered."""

# keeper.x86_64.s and keeper.aarch64.s, assembled.
_CODE = {
    "x86_64": (
        62,
        "5f83ff03bf000000000f829800000058415c5fbe02000000b8020000000f054189c54c89e731f6b802000000"
        "0f05bf0100000085c0787089c389df4889e6ba0100000031c00f0583f80175270fb634244883cfffb83e0000"
        "000f05884424014489ef4889e6ba02000000b8010000000f05ebc689dfb8030000000f05be090000004883cf"
        "ffb83e0000000f0585c075926840420f006a004889e731f6b8230000000f055858ebd5b83c0000000f05",
    ),
    "aarch64": (
        183,
        "e00340f91f0c00f1000080d283060054f30b40f9e10f40f9600c8092420080d2080780d2010000d4f40300aa"
        "600c8092e10313aa020080d2080780d2010000d4f50300aa200080d2b504f8b7e00315aae1030091220080d2"
        "e80780d2010000d41f0400f181010054e103403900008092281080d2010000d4e0070039e00314aae1030091"
        "420080d2080880d2010000d4efffff17e00315aa280780d2010000d4210180d200008092281080d2010000d4"
        "e0fbffb5000080d2014888d2e101a0f2e007bfa9e0030091010080d2a80c80d2010000d4ff430091f2ffff17"
        "a80b80d2010000d4",
    ),
}
_HEADERS = "<16sHHIQQQIHHHHHHIIQQQQQQ"
_HEADERS_SIZE = struct.calcsize(_HEADERS)
_BASE, _PAGE = 0x400000, 0x10000


def program(machine: str) -> bytes | None:
    """The program for a kind of processor: nothing but a header and its code."""
    if machine not in _CODE:
        return None
    number, text = _CODE[machine]
    code = bytes.fromhex(text)
    size = _HEADERS_SIZE + len(code)
    about = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    file = (about, 2, number, 1, _BASE + _HEADERS_SIZE, 64, 0, 0, 64, 56, 1, 0, 0, 0)
    segment = (1, 5, 0, _BASE, _BASE, size, size, _PAGE)
    return struct.pack(_HEADERS, *file, *segment) + code


class Keeper:
    """Our end of it: while it is open, what is started in the container may live."""

    def __init__(self, seat: Seat) -> None:
        self._reply = os.open(seat.path("reply"), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            self.orders = _knock(seat)
        except BaseException:
            os.close(self._reply)
            raise
        self._heard = b""
        self._greet()

    def _greet(self) -> None:
        """Whatever was answered before this was meant for somebody else; he has left nothing."""
        mark = _MARKS[os.urandom(1)[0] % len(_MARKS)]
        try:
            self._ask(mark)
            self.clear(ANSWER_SECONDS)
        except BaseException:
            self.close()
            raise

    def signal(self, number: int) -> bool:
        """Signal everybody in the container; whether there was anybody."""
        return self._ask(number) == SOMEBODY

    def end_strays(self, grace_seconds: float) -> bool:
        """End what is left, gently if it hurries; whether there was anything."""
        if not self.signal(signal.SIGTERM):
            return False
        self.signal(signal.SIGCONT)
        deadline = Deadline(grace_seconds)
        while self.signal(0) and deadline.rest(0.02):
            pass
        self.clear(ANSWER_SECONDS)
        return True

    def clear(self, seconds: float) -> None:
        """Kill everybody; nobody is left when this returns."""
        deadline = Deadline(seconds)
        while self.signal(signal.SIGKILL):
            if not deadline.rest(0.002):
                raise Silent

    def _ask(self, byte: int) -> int:
        try:
            os.write(self.orders, bytes([byte]))
        except BrokenPipeError:
            raise Gone from None
        deadline = Deadline(ANSWER_SECONDS)
        while True:
            asked, answer = self._answer(deadline)
            if asked == byte:
                return answer

    def _answer(self, deadline: Deadline) -> bytes:
        poll = select.poll()
        poll.register(self._reply, select.POLLIN)
        while len(self._heard) < 2:
            if not poll.poll(max(0.0, deadline.left()) * 1000):
                raise Silent
            data = os.read(self._reply, 2 - len(self._heard))
            if not data:
                raise Gone
            self._heard += data
        answer, self._heard = self._heard, b""
        return answer

    def close(self) -> None:
        """Let go: whatever runs is killed."""
        os.close(self.orders)
        os.close(self._reply)

    def __enter__(self) -> "Keeper":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _knock(seat: Seat) -> int:
    """The keeper is away from its pipe while it kills; one that stays away is gone."""
    door = Deadline(DOOR_SECONDS)
    while True:
        try:
            return os.open(seat.path("in"), os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            if not door.rest(RETRY_SECONDS):
                raise Gone from None
