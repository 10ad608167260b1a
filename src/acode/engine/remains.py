"""The workers that a daemon has signed for on disk, so that the next one finds them."""

import os

import msgspec

from acode.model.worker import ProcessIdentity


def known_workers(run_dir: str) -> list[tuple[str, ProcessIdentity]]:
    """Id and process of every worker that was ever begun and not yet cleaned up."""
    known = []
    for name in _names(f"{run_dir}/workers"):
        if not name.endswith(".json"):
            continue
        try:
            with open(f"{run_dir}/workers/{name}", "rb") as file:
                process = msgspec.json.decode(file.read(), type=ProcessIdentity)
        except (FileNotFoundError, msgspec.MsgspecError):
            continue  # gone meanwhile, or torn by a crash: the worker never began
        known.append((name.removesuffix(".json"), process))
    return known


def _names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []
