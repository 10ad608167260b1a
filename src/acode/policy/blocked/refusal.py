"""A blocked command as the failure of an attempt."""

from collections.abc import Sequence

import acode.policy.blocked.walk  # noqa: F401 -- whoever refuses attempts has to have it at hand
from acode.model.failure import Failure, FailureCode
from acode.policy.blocked import blocked
from acode.policy.failures import permanent

HINT = (
    "if it is really meant, do it by hand; sandbox.blockedCommands holds the patterns of your own"
)
_KIND = permanent(FailureCode.BLOCKED_COMMAND, HINT, final=True)


def refusal(argv: Sequence[str], patterns: Sequence[str]) -> Failure | None:
    """Why these words must not be executed."""
    found = blocked(argv, patterns)
    if found is None:
        return None
    return _KIND.failure(f"{found.command!r} would {found.would}")
