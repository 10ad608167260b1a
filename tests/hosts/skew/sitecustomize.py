"""A machine whose clock is wrong by CLOCK_SKEW_MS: found by every Python that is started there."""

import os
import time

_real = time.time_ns
_skew = int(os.environ.get("CLOCK_SKEW_MS", "0")) * 1_000_000
time.time_ns = lambda: _real() + _skew
