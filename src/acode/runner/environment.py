"""What a task sees of the environment: no secrets, nothing of acode's own settings."""

from collections.abc import Collection, Mapping
from fnmatch import fnmatchcase
from typing import Final

from acode.policy.secrets import looks_secret

STRICT: Final = (
    "PATH", "HOME", "USER", "SHELL", "TERM", "LANG", "LC_*", "FORGE_*", "CLAUDE_*", "NODE_*",
    "NPM_*",
)  # fmt: skip
"""All that passes by itself under the strict sandbox."""


def inheritable(
    environ: Mapping[str, str],
    *,
    deny: Collection[str] = (),
    passed: Collection[str] = (),
    only: Collection[str] = ("*",),
) -> dict[str, str]:
    """The daemon's environment without what a task must not see."""
    return {
        name: value
        for name, value in environ.items()
        if _matches(name, passed)
        or (
            _matches(name, only)
            and not (_is_ours(name) or looks_secret(name) or _matches(name, deny))
        )
    }


def chosen(environ: Mapping[str, str], passed: Collection[str]) -> dict[str, str]:
    """Only the variables that were named, secret or not."""
    return {name: value for name, value in environ.items() if _matches(name, passed)}


def _is_ours(name: str) -> bool:
    return name.upper().startswith("ACODE_")


def _matches(name: str, patterns: Collection[str]) -> bool:
    return any(fnmatchcase(name.upper(), pattern.upper()) for pattern in patterns)
