"""The directories of an attempt, and what its command is told about them."""

import os
import shutil
from contextlib import suppress
from typing import NamedTuple

from acode.runner.shelf import Shelf
from acode.worker.messages import Assignment, WorkerConfig


class Places(NamedTuple):
    """The directories of one attempt beside its workspace."""

    temporary: str
    artifacts: str


class Shelves:
    """Where the directories of a worker's attempts come from."""

    def __init__(self, config: WorkerConfig) -> None:
        self._config = config
        self.home = os.path.join(config.run_dir, "tmp", config.id)
        self._scratches = f"{config.trees}/scratch"
        # What a worker of this name left when it was killed.
        self.clear()
        self._workspaces = Shelf(self._scratches, "spare")
        self._temporaries = Shelf(self.home, "tmp")
        self._artifacts = Shelf(self.home, "artifacts")

    def hand_out(self, task_id: str, number: int) -> Places:
        """Fresh, empty directories."""
        name = f"{task_id}-{number}"
        places = Places(
            os.path.join(self.home, f"tmp-{name}"), os.path.join(self.home, f"artifacts-{name}")
        )
        self._temporaries.hand_out(places.temporary)
        self._artifacts.hand_out(places.artifacts)
        return places

    def take_back(self, places: Places) -> None:
        """Remove them with everything in them."""
        self._temporaries.take_back(places.temporary)
        self._artifacts.take_back(places.artifacts)

    def scratch(self, task_id: str, number: int) -> str:
        """A fresh, empty workspace."""
        workspace = f"{self._scratches}/{task_id}"
        if os.path.lexists(workspace):  # a kept one of an earlier attempt stays as it is
            workspace = f"{workspace}-{number}"
        self._workspaces.hand_out(workspace)
        return workspace

    def take_back_scratch(self, workspace: str) -> None:
        """Remove it, unless it is to be kept."""
        if not self._config.keep_workspaces:
            self._workspaces.take_back(workspace)

    def clear(self) -> None:
        """Remove everything of this worker but for worktrees, which may hold unsaved work."""
        shutil.rmtree(self.home, ignore_errors=True)
        if not self._config.keep_workspaces:
            shutil.rmtree(self._scratches, ignore_errors=True)
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
    """A file that is handed to the next attempt, until one succeeds."""
    return f"{config.run_dir}/checkpoints/{task.task_id}"


def final_artifacts(task: Assignment, config: WorkerConfig) -> str:
    """Where what the task leaves is found afterwards."""
    return f"{config.agent_dir}/artifacts/{task.task_id}"


def find_program(program: str, env: dict[str, str]) -> str:
    """Where a program is; its bare name if it is nowhere."""
    if "/" in program:
        return program
    return shutil.which(program, path=env.get("PATH")) or program
