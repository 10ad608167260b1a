"""Which workers there are, by the names that they leave on disk."""

import os

import msgspec

from acode.model.worker import ProcessIdentity


def known_workers(run_dir: str) -> list[tuple[str, ProcessIdentity]]:
    """Id and process of every worker that was ever begun and not yet cleaned up."""
    known = []
    for name in names(f"{run_dir}/workers"):
        if not name.endswith(".json"):
            continue
        try:
            with open(f"{run_dir}/workers/{name}", "rb") as file:
                process = msgspec.json.decode(file.read(), type=ProcessIdentity)
        except (FileNotFoundError, msgspec.MsgspecError):
            continue  # gone meanwhile, or torn by a crash: the worker never began
        known.append((name.removesuffix(".json"), process))
    return known


def names(folder: str) -> list[str]:
    """What lies in a directory; nothing if it is not there."""
    try:
        return sorted(os.listdir(folder))
    except FileNotFoundError:
        return []
