"""The command line: one file per noun, each importing only what it uses."""

import signal
import sys

# msgspec 0.22 loses an interrupt that comes while it is imported, and crashes later.
_before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGINT,))

# Where typing_extensions is installed msgspec prefers it, and importing it costs every command
# 11 ms. All that msgspec wants from it is in the standard library since Python 3.11.
if "typing_extensions" not in sys.modules:
    sys.modules["typing_extensions"] = None  # type: ignore[assignment]
    try:
        import msgspec  # noqa: F401
    finally:
        del sys.modules["typing_extensions"]

signal.pthread_sigmask(signal.SIG_SETMASK, _before)
