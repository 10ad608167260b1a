"""How the pool shares the processors with everybody else."""

import os
from contextlib import suppress


def interrupt_nobody() -> None:
    """Where all processors are busy, this process and all below it wait until one is left to them.

    They get their share as ever. But whoever sends a worker word is not put aside for it in the
    middle of what it does, and whoever sits at this machine goes first.
    """
    # Somebody may have decided otherwise, and a container may forbid it.
    if os.sched_getscheduler(0) == os.SCHED_OTHER:
        with suppress(OSError):
            os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
