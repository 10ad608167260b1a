"""The project directory: how it is found, and where everything in it lies."""

import os
from _thread import get_ident
from collections.abc import Callable, Mapping

import msgspec

from acode.errors import ProjectUnusable, UsageError

AGENT_DIR = ".agent"


class Project(msgspec.Struct, frozen=True):
    """One project directory and the paths below it."""

    root: str

    @property
    def agent_dir(self) -> str:
        """Everything that acode keeps."""
        return os.path.join(self.root, AGENT_DIR)

    @property
    def config_file(self) -> str:
        """Settings, if the user wrote any."""
        return self._path("config.yml")

    @property
    def gitignore(self) -> str:
        """Keeps all of it out of `git status`."""
        return self._path(".gitignore")

    @property
    def queue_db(self) -> str:
        """The SQLite store."""
        return self._path("queue.db")

    @property
    def worktrees_dir(self) -> str:
        """Workspaces."""
        return self._path("worktrees")

    @property
    def logs_dir(self) -> str:
        """Every log."""
        return self._path("logs")

    @property
    def daemon_log(self) -> str:
        """What the daemon says."""
        return self._path("logs", "daemon.log")

    @property
    def daemon_output(self) -> str:
        """What the daemon prints when it cannot write its log."""
        return self._path("logs", "daemon.out")

    def worker_log(self, worker_id: str) -> str:
        """What one worker says."""
        return self._path("logs", "workers", f"worker-{worker_id}.log")

    def task_log(self, task_id: str) -> str:
        """What one task printed."""
        return self._path("logs", "tasks", f"{task_id}.log")

    @property
    def all_artifacts_dir(self) -> str:
        """What tasks left."""
        return self._path("artifacts")

    def artifacts_dir(self, task_id: str) -> str:
        """What one task left."""
        return self._path("artifacts", task_id)

    @property
    def run_dir(self) -> str:
        """Pid and socket files and spooled results, for the owner's eyes only."""
        return self._path("run")

    @property
    def daemon_lock(self) -> str:
        """Held and signed by the daemon while it lives."""
        return self._path("run", "daemon.lock")

    @property
    def control_socket(self) -> str:
        """Where the daemon answers."""
        return self._path("run", "control.sock")

    @property
    def bell_socket(self) -> str:
        """Where the daemon is told that there is something new in the store."""
        return self._path("run", "bell.sock")

    @property
    def feed_file(self) -> str:
        """What the pool did, for those who follow it."""
        return self._path("run", "feed", "events.jsonl")

    @property
    def api_socket(self) -> str:
        """Where the gateway answers besides its port."""
        return self._path("run", "api.sock")

    @property
    def login_dir(self) -> str:
        """Login links that nobody has used."""
        return self._path("run", "login")

    @property
    def pauses_file(self) -> str:
        """Which types of tasks wait for their service."""
        return self._path("run", "pauses.json")

    @property
    def host_file(self) -> str:
        """Who this host is to others that share its queue."""
        return self._path("run", "host.json")

    @property
    def peer_key_file(self) -> str:
        """The key with which other hosts read what tasks left here."""
        return self._path("run", "peer-key")

    @property
    def token_file(self) -> str:
        """The key to the HTTP door."""
        return self._path("run", "token")

    @property
    def governance_file(self) -> str:
        """The published state of the pool."""
        return self._path("governance.json")

    def _path(self, *names: str) -> str:
        return os.path.join(self.root, AGENT_DIR, *names)

    def prepare(self) -> None:
        """Make `.agent/` ready for use. Safe to repeat, also by several processes at once."""
        try:
            os.makedirs(self.agent_dir, exist_ok=True)
            self._write_gitignore()
            os.makedirs(self.run_dir, mode=0o700, exist_ok=True)
            os.chmod(self.run_dir, 0o700)
        except OSError as error:
            raise ProjectUnusable(f"{self.agent_dir}: {error.strerror}") from error

    def _write_gitignore(self) -> None:
        if os.path.exists(self.gitignore):
            return
        # Renamed into place, so that nobody ever reads half of it.
        draft = f"{self.gitignore}.{os.getpid()}.{get_ident()}"
        with open(draft, "w", encoding="utf-8") as file:
            file.write("*\n")
        os.replace(draft, self.gitignore)


def find(start: str, override: str | None, environ: Mapping[str, str]) -> Project:
    """The project of a directory: the one named, or the nearest with `.agent/`, or git's top."""
    if override is not None:
        return _named(override, "--project")
    if environ.get("ACODE_PROJECT"):
        return _named(environ["ACODE_PROJECT"], "ACODE_PROJECT")
    here = os.path.realpath(start)
    root = _nearest(here, _has_agent_dir) or _nearest(here, _has_git) or here
    return Project(root)


def _named(path: str, where: str) -> Project:
    if not os.path.isdir(path):
        raise UsageError(f"{where}: {path!r} is no directory", hint="name a directory that exists")
    return Project(os.path.realpath(path))


def _nearest(here: str, fits: Callable[[str], bool]) -> str | None:
    while not fits(here):
        above = os.path.dirname(here)
        if above == here:
            return None
        here = above
    return here


def _has_agent_dir(path: str) -> bool:
    return os.path.isdir(os.path.join(path, AGENT_DIR))


def _has_git(path: str) -> bool:
    """A file in the worktrees and submodules of another repository."""
    return os.path.exists(os.path.join(path, ".git"))
