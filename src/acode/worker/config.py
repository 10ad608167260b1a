"""What a worker is born with."""

import os
from typing import Literal

import msgspec

from acode.model.limits import AttemptLimits
from acode.runner.cgroup import Place
from acode.runner.sandbox import Level, Network


class SandboxRules(msgspec.Struct, frozen=True, kw_only=True):
    """What the tasks of a worker are kept from; paths are absolute."""

    level: Level = "off"
    network: Network = "inherit"
    write_paths: tuple[str, ...] = ()
    read_paths: tuple[str, ...] = ()


class WorkerConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What a worker is born with."""

    id: str
    project_root: str
    agent_dir: str
    config_file: str
    worktrees: str
    heartbeat_ms: int
    on_daemon_exit: str
    log_max_bytes: int
    log_max_files: int
    tools: tuple[str, ...] = ()
    """Programs that must be there."""
    limits: AttemptLimits = AttemptLimits()
    """What attempts are held to that ask for nothing else."""
    cgroup: Place | None = None
    """Where it can make a control group for its attempts."""
    author: str = "acode <acode@localhost>"
    """Who signs the commits that hold what tasks changed."""
    push: str | None = None
    """The remote that result branches are pushed to."""
    sandbox: SandboxRules = SandboxRules()
    blocked_commands: tuple[str, ...] = ()
    """Patterns of the user, beside the list of acode's own."""
    strategy: Literal["auto", "overlay", "warm", "plain"] = "auto"
    warm: int = 0
    copy_ignored: tuple[str, ...] = ()
    max_artifact_mb: int = 1024
    keep_workspaces: bool = False
    """For a look afterwards: the directories that attempts worked in are not removed."""

    @property
    def run_dir(self) -> str:
        """Sockets, spools and temporary directories."""
        return f"{self.agent_dir}/run"

    @property
    def undelivered(self) -> str:
        """Notes about branches that are still to be pushed."""
        return os.path.join(self.run_dir, "push")

    @property
    def home(self) -> str:
        """Temporary directories, artifacts and checkpoints of this worker's attempts."""
        return f"{self.agent_dir}/run/tmp/{self.id}"

    @property
    def live_checkpoints(self) -> str:
        """Where the checkpoint is of the task that this worker runs."""
        return f"{self.agent_dir}/run/tmp/{self.id}/checkpoints"

    @property
    def inside(self) -> tuple[tuple[str, str], ...]:
        """Directories of this machine that are the temporary ones of the worker's container."""
        return (
            (f"{self.home}/inside/tmp", "/tmp"),  # noqa: S108 -- inside
            (f"{self.home}/inside/var-tmp", "/var/tmp"),  # noqa: S108 -- inside
        )

    @property
    def trees(self) -> str:
        """The workspaces of this worker."""
        return f"{self.worktrees}/{self.id}"
