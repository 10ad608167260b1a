"""The directories of an attempt, and what its command is told about them."""

import os
import shutil
import stat
from contextlib import suppress
from typing import NamedTuple

from acode.runner.suite import Suite
from acode.worker.config import WorkerConfig
from acode.worker.messages import Assignment
from acode.workspace.removal import remove


class Places(NamedTuple):
    """The directories of one attempt: rooms of one suite."""

    suite: str
    has_workspace: bool = False

    @property
    def workspace(self) -> str:
        """Where a command works that needs nothing but an empty directory."""
        return f"{self.suite}/work"

    @property
    def temporary(self) -> str:
        """For whatever the command needs while it runs."""
        return f"{self.suite}/tmp"  # noqa: S108 -- below the suite

    @property
    def artifacts(self) -> str:
        """For what it wants to leave."""
        return f"{self.suite}/artifacts"


class Shelves:
    """Where the directories of a worker's attempts come from."""

    def __init__(self, config: WorkerConfig) -> None:
        self._config = config
        self.home = config.home
        self._scratches = f"{config.trees}/scratch"
        # What a worker of this name left when it was killed.
        self.clear()
        os.makedirs(config.live_checkpoints)
        self._beside = Suite(self.home, "spare", ("tmp", "artifacts"), remove)
        """For those whose workspace comes from elsewhere."""
        self._whole = Suite(self._scratches, "spare", ("work", "tmp", "artifacts"), remove)

    def hand_out(self, task_id: str, number: int, *, workspace: bool = False) -> Places:
        """Fresh, empty directories."""
        directory = self._scratches if workspace else self.home
        places = Places(f"{directory}/{task_id}-{number}", workspace)
        self._suite_of(places).hand_out(places.suite)
        return places

    def has_artifacts(self, places: Places) -> bool:
        """Whether there is anything to keep, as far as can be told without a look inside."""
        return not self._suite_of(places).is_unused(places.suite, "artifacts")

    def take_back(self, places: Places) -> None:
        """Remove them with everything in them, but for a workspace that is to be kept."""
        if places.has_workspace and self._config.keep_workspaces:
            remove(places.temporary)
            remove(places.artifacts)
        else:
            self._suite_of(places).take_back(places.suite)

    def empty_inside(self) -> None:
        """Nothing of an attempt in a container is found by the next one."""
        for directory, _ in self._config.inside:
            for name in os.listdir(directory) if os.path.isdir(directory) else ():
                remove(f"{directory}/{name}")

    def _suite_of(self, places: Places) -> Suite:
        return self._whole if places.has_workspace else self._beside

    def clear(self) -> None:
        """Remove everything of this worker but for worktrees, which may hold unsaved work."""
        remove(self.home)
        if not self._config.keep_workspaces:
            remove(self._scratches)
        for empty in (self._scratches, self._config.trees):
            with suppress(OSError):  # not there, or not empty
                os.rmdir(empty)


def environment(
    task: Assignment, config: WorkerConfig, places: Places, workspace: str
) -> dict[str, str]:
    """What an attempt is told about itself."""
    return {
        "ACODE_TASK_ID": task.task_id,
        "ACODE_WORKER_ID": config.id,
        "ACODE_WORKTREE_PATH": workspace,
        "ACODE_CONFIG_PATH": config.config_file,
        "ACODE_ATTEMPT": str(task.number),
        "ACODE_ATTEMPT_TOKEN": task.token,
        "ACODE_ARTIFACTS_DIR": places.artifacts,
        "ACODE_CHECKPOINT": checkpoint(task, config),
        "TMPDIR": places.temporary,
        "PWD": workspace,
    }


def checkpoint(task: Assignment, config: WorkerConfig) -> str:
    """A file that is handed to the next attempt, until one succeeds.

    It lies where only the task of this worker may write; between attempts it is kept elsewhere.
    """
    return live_checkpoint(config, task.task_id)


def fetch_checkpoint(task: Assignment, config: WorkerConfig) -> None:
    """Bring what the attempt before has left."""
    with suppress(OSError):  # not there, or shut by the task
        os.rename(kept_checkpoint(config, task.task_id), checkpoint(task, config))


def keep_checkpoint(config: WorkerConfig, task_id: str) -> None:
    """Put what the attempt has left where the next one finds it, if it is a file."""
    live = live_checkpoint(config, task_id)
    with suppress(OSError):  # not there, or shut by the task
        if stat.S_ISREG(os.lstat(live).st_mode):
            os.rename(live, kept_checkpoint(config, task_id))


def drop_checkpoints(config: WorkerConfig) -> None:
    """Nothing that a task has left where its checkpoint lay is found by the next one."""
    directory = config.live_checkpoints
    try:
        for name in os.listdir(directory):
            remove(f"{directory}/{name}")
    except OSError:
        return  # not there, or shut by the task


def live_checkpoint(config: WorkerConfig, task_id: str) -> str:
    """Where the task of this worker has it."""
    return f"{config.live_checkpoints}/{task_id}"


def kept_checkpoint(config: WorkerConfig, task_id: str) -> str:
    """Where it lies between attempts."""
    return f"{config.run_dir}/checkpoints/{task_id}"


def final_artifacts(task: Assignment, config: WorkerConfig) -> str:
    """Where what the task leaves is found afterwards."""
    return f"{config.agent_dir}/artifacts/{task.task_id}"


def find_program(program: str, env: dict[str, str]) -> str:
    """Where a program is; its bare name if it is nowhere."""
    if "/" in program:
        return program
    return shutil.which(program, path=env.get("PATH")) or program
