"""Containers whose owner is gone. A label says whose they were; only proof removes them."""

import os
from typing import Any

import msgspec

from acode.model.worker import ProcessIdentity
from acode.runner.container.api import Api
from acode.runner.container.life import OURS, destroy
from acode.runner.identity import boot_id, is_alive

WORKER = f"{OURS}.id"
POOL = f"{OURS}.pool"
"""The project's run directory: where its workers leave their names."""
BOOT = f"{OURS}.boot"
PIDS = f"{OURS}.pids"
"""The namespace that pids of the owner are counted in."""
KEEP = f"{OURS}.keep"


def labels_for(worker_id: str, run_dir: str, *, keep: bool) -> dict[str, str]:
    """What a container says about itself."""
    return {
        OURS: "true",
        WORKER: worker_id,
        POOL: run_dir,
        BOOT: boot_id(),
        PIDS: _pid_namespace(),
        **({KEEP: "true"} if keep else {}),
    }


def ours(api: Api) -> list[dict[str, Any]]:
    """Every container that any acode has made on this engine, running or not."""
    found: list[dict[str, Any]] = api.get(
        "/containers/json", all=True, filters={"label": [f"{OURS}=true"]}
    )
    return found


def sweep(api: Api, run_dir: str, spared: frozenset[str]) -> list[str]:
    """Remove what nobody owns any more; the names of what was removed.

    Of our own pool that is whatever belongs to none of its workers.
    """
    removed = []
    for found in ours(api):
        labels = found.get("Labels") or {}
        if labels.get(WORKER) in spared or KEEP in labels:
            continue
        if labels.get(POOL) != run_dir and not is_orphan(labels):
            continue
        destroy(api, found["Id"])
        removed.append(str((found.get("Names") or ["?"])[0]).lstrip("/"))
    return removed


def is_orphan(labels: dict[str, str]) -> bool:
    """Whether the worker that it was made for is proven to be gone."""
    run_dir, worker_id = labels.get(POOL), labels.get(WORKER)
    if not run_dir or not worker_id:
        return False
    if labels.get(BOOT) != boot_id():
        # From before a restart of this machine, or another machine's: only our own are known.
        return os.path.isdir(run_dir)
    if labels.get(PIDS) != _pid_namespace():
        return False
    owner = _process(f"{run_dir}/workers/{worker_id}.json")
    if owner is not None:
        return not is_alive(owner)
    # It never began, or has been cleaned up after: either way its daemon knows.
    daemon = _process(f"{run_dir}/daemon.lock")
    return daemon is None or not is_alive(daemon)


def _process(path: str) -> ProcessIdentity | None:
    try:
        with open(path, "rb") as file:
            return msgspec.json.decode(file.read(), type=ProcessIdentity)
    except (OSError, msgspec.MsgspecError):
        return None


def _pid_namespace() -> str:
    return os.readlink("/proc/self/ns/pid")
