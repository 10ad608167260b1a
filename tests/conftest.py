"""What every test shares: the small plugins and the Hypothesis profiles."""

import os
import signal

from hypothesis import HealthCheck, settings

pytest_plugins = [
    "pytester",
    "tests.plugins.components",
    "tests.plugins.engines",
    "tests.plugins.leftovers",
    "tests.plugins.pictures",
    "tests.plugins.requirements",
]

# No deadlines: a busy machine is not a bug.
settings.register_profile("dev", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("ci", settings.get_profile("dev"), derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") == "true" else "dev")

# Started in the background, Ctrl-C may be ignored, and all below us would inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
