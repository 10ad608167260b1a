"""What workers leave on disk, and how it is removed."""

import os
from contextlib import suppress

import msgspec

from acode.runner.cgroup import PREFIX, remove_groups
from acode.worker.config import WorkerConfig
from acode.worker.known import names
from acode.workspace.removal import remove
from acode.workspace.state import FOLDER, directory_of


def remembered_workers(run_dir: str) -> set[str]:
    """The ids of all workers of which anything is left."""
    folders = ("workers", "spool", "tmp", "cgroups", "containers")
    return {name.partition(".")[0] for folder in folders for name in names(f"{run_dir}/{folder}")}


def remove_remains(worker: WorkerConfig) -> None:
    """Remove what a worker has left; its name goes last, so that a crash here can be made good."""
    if not worker.keep_workspaces:
        for name in names(worker.trees):
            # What has a record may hold work that is not saved yet; the rest is scratch.
            if name != FOLDER and not os.path.lexists(directory_of(worker.trees, name)):
                remove(f"{worker.trees}/{name}")
    for folder in (f"{worker.trees}/{FOLDER}", worker.trees):
        with suppress(OSError):  # not there, or it holds trees with work that is not saved yet
            os.rmdir(folder)
    for name in (
        f"tmp/{worker.id}",
        *(f"containers/{worker.id}{part}" for part in ("", ".json", ".secrets")),
        *_groups(worker.run_dir, worker.id),
        f"workers/{worker.id}.sock",
        f"workers/{worker.id}.json",
        f"spool/{worker.id}",
    ):
        remove(f"{worker.run_dir}/{name}")


def remove_group(run_dir: str, worker_id: str) -> None:
    """Remove the control group of a worker that is proven gone, with what is in it."""
    for name in _groups(run_dir, worker_id):
        remove(f"{run_dir}/{name}")


def _groups(run_dir: str, worker_id: str) -> list[str]:
    """The name of its control group, if that could be removed with what was in it."""
    name = f"cgroups/{worker_id}"
    try:
        with open(f"{run_dir}/{name}", "rb") as file:
            directories = msgspec.json.decode(file.read(), type=list[str])
    except FileNotFoundError:
        return []
    except msgspec.MsgspecError:
        return [name]  # torn by a crash: the group was not yet made
    # A stranger's file must not make us remove anything but groups of ours.
    ours = [path for path in directories if os.path.basename(path) == f"{PREFIX}{worker_id}"]
    return [name] if remove_groups(ours) else []
