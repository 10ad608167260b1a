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


class Wire:
    """Tells the supervisor what to do and hears what it says; never waits."""

    def __init__(self, seat: Seat, first: str = "") -> None:
        self._seat = seat
        self._first = first
        self._orders: int | None = None
        self._heard = bytearray()
        self._session = os.urandom(8).hex()
        self.reply = os.open(seat.path("reply"), os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self.is_cut = False
        """Nobody was left at the other end at the last look."""

    def knock(self) -> bool:
        """Open the door and say who we are; whether somebody was there."""
        try:
            path = self._seat.path("in")
            self._orders = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            # In one piece: the first order need not wait for the greeting.
            self.say("hello", f"{self._session}\n{self._first}".rstrip())
        except OSError:
            # Nobody is at the door, or went back to it between our opening and our greeting.
            self.hang_up()
            return False
        return True

    def say(self, *words: str) -> None:
        """Give an order."""
        if self._orders is not None:
            os.write(self._orders, " ".join(words).encode() + b"\n")

    def next(self) -> list[str] | None:
        """An answer to us that has come already: its words, without our name."""
        with suppress(BlockingIOError):
            data = os.read(self.reply, 4096)
            self.is_cut = not data
            self._heard += data
        while b"\n" in self._heard:
            line, _, rest = self._heard.partition(b"\n")
            self._heard = rest
            verb, session, *words = [*line.decode(errors="replace").split(), "", ""]
            if session == self._session:
                return [verb, *(word for word in words if word)]
        return None

    def leave(self) -> None:
        """End the session: what is left is asked to end, then everything is killed."""
        with suppress(BrokenPipeError):
            self.say("quit")
        self.hang_up()  # or it would find the door open and take us for the next one

    def hang_up(self) -> None:
        """Close the door; whatever runs is killed."""
        if self._orders is not None:
            os.close(self._orders)
            self._orders = None

    def close(self) -> None:
        """Let go of everything."""
        self.hang_up()
        os.close(self.reply)


class Channel(Wire):
    """The same for those who have time to wait."""

    def __init__(self, seat: Seat, seconds: float, first: str = "") -> None:
        super().__init__(seat, first)
        self._poll = select.poll()
        self._poll.register(self.reply, select.POLLIN)
        try:
            self._greet(Deadline(seconds), Deadline(DOOR_SECONDS))
        except BaseException:
            self.close()
            raise

    def _greet(self, deadline: Deadline, door: Deadline) -> None:
        """Whatever was said before our name was is about somebody else."""
        while not self.knock():
            if not door.rest(RETRY_SECONDS):
                raise Gone
        while self.hear(deadline, until_gone=False) != ["hello"]:
            pass

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

    def quit(self, seconds: float) -> bool:
        """End the session; nothing of it is alive then. Says whether something was left behind."""
        self.leave()
        deadline = Deadline(seconds)
        while (words := self.hear(deadline))[0] != "gone":
            pass
        return words == ["gone", "some"]

    def __enter__(self) -> "Channel":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
