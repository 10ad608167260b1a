"""A pool for as long as a command needs one: the running one, or one of its own."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

from acode.cli.context import Context
from acode.cli.start import daemon_options, refuse_partial
from acode.cli.stop import end
from acode.engine.client import Refused
from acode.engine.launch import launch
from acode.engine.lock import holder
from acode.engine.tools import locate
from acode.errors import PoolNotRunning, PoolRunning
from acode.model.worker import ProcessIdentity
from acode.runner.grip import grip

_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Signals that end a command become one `KeyboardInterrupt`, never in the middle of a start."""

    def __init__(self) -> None:
        self._before: dict[signal.Signals, Any] = {}
        self._held = False
        self._came = False

    def __enter__(self) -> "Interrupts":
        # What our caller ignores, as nohup does with a hang-up, stays ignored.
        heard = [each for each in _SIGNALS if signal.getsignal(each) is not signal.SIG_IGN]
        self._before = {each: signal.signal(each, self._on_signal) for each in heard}
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Wait with interrupts: something is done that must not be left half done."""
        self._held = True
        try:
            yield
        finally:
            self._held = False
            if self._came:
                raise KeyboardInterrupt

    def ignore(self) -> None:
        """Whatever is done now is the end already."""
        self._held = True

    def _on_signal(self, _number: int, _frame: FrameType | None) -> None:
        self._came = True
        if not self._held:
            self._held = True
            raise KeyboardInterrupt


class Borrowed:
    """A pool that is given back as it was found."""

    def __init__(self, context: Context, interrupts: Interrupts) -> None:
        self._context = context
        self._interrupts = interrupts
        self._ours: ProcessIdentity | None = None

    @property
    def is_foreign(self) -> bool:
        """Whether it was there before."""
        return self._ours is None

    def have(self) -> None:
        """Use the pool that runs, or start one."""
        if self._holder() is not None:
            self._note_size()
            return
        locate(self._context.app.settings.tools.required)
        with self._interrupts.held():
            self._start()

    def _start(self) -> None:
        app, screen = self._context.app, self._context.screen
        options = daemon_options(self._context)
        app.project.prepare()
        try:
            with screen.working("starting the workers"):
                told = launch(options, app.project.daemon_output)
        except Refused as error:
            if error.code != PoolRunning.code:
                raise
            return  # somebody was faster
        self._ours = self._holder()
        if not told["started"]:
            refuse_partial(told, app.project.daemon_output)

    def _note_size(self) -> None:
        args = self._context.args
        if args.count is not None or args.mode is not None:
            self._context.screen.note(
                "a pool runs already: it is used as it is, --count and --mode change nothing"
            )

    def is_gone(self) -> bool:
        """Whether the pool of somebody else is no more. One of our own must not go."""
        if self._holder() is not None:
            return False
        if self._ours is not None:
            raise PoolNotRunning(
                "the pool was stopped before every task was done",
                "the tasks are still there; the same command goes on with them",
            )
        return True

    def give_back(self, *, force: bool) -> None:
        """Stop it if it was started for this command."""
        daemon = None if self._ours is None else grip(self._ours)
        if daemon is None:
            return
        if force:
            self._interrupts.ignore()
        with daemon:
            end(self._context, daemon, force=force)

    def _holder(self) -> ProcessIdentity | None:
        return holder(self._context.app.project.daemon_lock)
