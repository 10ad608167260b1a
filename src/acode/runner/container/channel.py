"""Our end of the pipes of a container: one session with its supervisor."""

import os
import select
from contextlib import suppress
from types import TracebackType

from acode.clock import Deadline
from acode.runner.container.seat import Seat

RETRY_SECONDS = 0.0005
DOOR_SECONDS = 0.5
"""A supervisor is away from its door for a moment only; one that stays away is gone."""


class Silent(Exception):
    """The supervisor does not answer."""


class Gone(Exception):
    """The container is gone: nobody is left at the other end."""


class Channel:
    """Tells the supervisor what to do and hears what it says."""

    def __init__(
        self, seat: Seat, seconds: float, first: str = "", door_seconds: float = DOOR_SECONDS
    ) -> None:
        self._seat = seat
        self._first = first
        self.reply = os.open(seat.path("reply"), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._orders: int | None = None
        self._heard = bytearray()
        self._session = os.urandom(8).hex()
        self._poll = select.poll()
        self._poll.register(self.reply, select.POLLIN)
        try:
            self._greet(Deadline(seconds), Deadline(door_seconds))
        except BaseException:
            self.close()
            raise

    def _greet(self, deadline: Deadline, door: Deadline) -> None:
        """Whatever was said before our name was is about somebody else."""
        while True:
            try:
                if self._orders is None:
                    path = self._seat.path("in")
                    self._orders = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
                    # In one piece: the first order need not wait for the greeting.
                    self.say("hello", f"{self._session}\n{self._first}".rstrip())
                if self.hear(deadline, until_gone=False) == ["hello"]:
                    return
            except BrokenPipeError:
                self._hang_up()  # it went back to its door between our opening and our greeting
            except OSError:  # nobody is at the door
                if not door.rest(RETRY_SECONDS):
                    raise Gone from None

    def say(self, *words: str) -> None:
        """Give an order."""
        if self._orders is not None:
            os.write(self._orders, " ".join(words).encode() + b"\n")

    def hear(self, deadline: Deadline, *, until_gone: bool = True) -> list[str]:
        """The next answer to us; raises when there is none in time."""
        while (words := self.next()) is None:
            left = deadline.left()
            if left <= 0:
                raise Silent
            for _, event in self._poll.poll(left * 1000):
                if not event & select.POLLIN and event & select.POLLHUP:
                    if until_gone:
                        raise Gone
                    deadline.rest(RETRY_SECONDS)
        return words

    def next(self) -> list[str] | None:
        """An answer to us that has come already: its words, without our name."""
        with suppress(BlockingIOError):
            self._heard += os.read(self.reply, 4096)
        while b"\n" in self._heard:
            line, _, rest = self._heard.partition(b"\n")
            self._heard = rest
            verb, session, *words = [*line.decode(errors="replace").split(), "", ""]
            if session == self._session:
                return [verb, *(word for word in words if word)]
        return None

    def quit(self, seconds: float) -> bool:
        """End the session; nothing of it is alive then. Says whether something was left behind."""
        with suppress(BrokenPipeError):
            self.say("quit")
        self._hang_up()  # or it would find the door open and take us for the next one
        deadline = Deadline(seconds)
        while (words := self.hear(deadline))[0] != "gone":
            pass
        return words == ["gone", "some"]

    def _hang_up(self) -> None:
        if self._orders is not None:
            os.close(self._orders)
            self._orders = None

    def close(self) -> None:
        """Let go; whatever runs is killed."""
        self._hang_up()
        os.close(self.reply)

    def __enter__(self) -> "Channel":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
