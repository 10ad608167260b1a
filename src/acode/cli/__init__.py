"""The command line: one file per noun, each importing only what it uses."""

import signal
import sys


def enter() -> int:
    """What `acode` runs: from the first moment on, Ctrl-C ends it without a traceback."""
    listen_to_interrupts(False)
    _load_msgspec()
    from acode.cli.main import main

    return main()


def listen_to_interrupts(wanted: bool) -> None:
    """Let Ctrl-C be an exception, or end the process at once as long as there is nothing to tidy.

    An exception in the middle of making a struct or a decoder lets msgspec 0.22 crash later.
    """
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        handler = signal.default_int_handler if wanted else signal.SIG_DFL
        signal.signal(signal.SIGINT, handler)


def _load_msgspec() -> None:
    """Import msgspec without typing_extensions, which it prefers and which takes 11 ms.

    All that msgspec wants from it is in the standard library since Python 3.11.
    """
    if "typing_extensions" not in sys.modules:
        sys.modules["typing_extensions"] = None  # type: ignore[assignment]
        try:
            import msgspec  # noqa: F401
        finally:
            del sys.modules["typing_extensions"]
