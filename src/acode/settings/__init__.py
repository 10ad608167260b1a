"""One frozen tree of settings: from config.yml and ACODE_… variables, checked once."""

from collections.abc import Mapping

from acode.errors import ConfigError
from acode.settings.tree import (
    Agent,
    Api,
    Autoscale,
    Breaker,
    Docker,
    DockerResources,
    Environment,
    Governance,
    Limits,
    Logging,
    Mount,
    PoolLimits,
    Process,
    Resources,
    Retry,
    Sandbox,
    Secret,
    Settings,
    Store,
    Tasks,
    Tools,
    Workers,
    Worktree,
)

__all__ = [
    "Agent",
    "Api",
    "Autoscale",
    "Breaker",
    "Docker",
    "DockerResources",
    "Environment",
    "Governance",
    "Limits",
    "Logging",
    "Mount",
    "PoolLimits",
    "Process",
    "Resources",
    "Retry",
    "Sandbox",
    "Secret",
    "Settings",
    "Store",
    "Tasks",
    "Tools",
    "Workers",
    "Worktree",
    "load",
    "template",
]


def load(path: str | None, environ: Mapping[str, str]) -> Settings:
    """The settings of a config.yml (`None`: there is none) and of the environment."""
    variables = {name: environ[name] for name in environ if _is_override(name)}
    data = b"" if path is None else _contents(path)
    if not _says_something(data):
        data = b""
    if not data and not variables:
        return Settings()
    # Most projects set nothing; only the others pay for the machinery that checks.
    from acode.settings.check import check

    return check(data, path or "config.yml", variables)


def template() -> str:
    """The config.yml of a new project: every key with its default, commented out."""
    from acode.settings.sample import TEXT

    return TEXT.replace("<cpu count>", str(Settings().workers.count))


def _is_override(name: str) -> bool:
    return name.startswith("ACODE_") and "__" in name


def _contents(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror}") from error


def _says_something(data: bytes) -> bool:
    """Whether a line is neither blank nor a comment."""
    lines = (line.strip() for line in data.splitlines())
    return any(line and not line.startswith(b"#") for line in lines)
