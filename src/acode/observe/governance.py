"""The governance file: other tools write to it, too, so only our own part of it is replaced."""

import os
from contextlib import suppress
from typing import Any

import msgspec

KEY = "workerPool"


def publish(path: str, pool: dict[str, Any]) -> bool:
    """Put the pool's state into the file; False where the file holds what is no JSON object."""
    document = read(path)
    if document is None:
        return False
    document[KEY] = pool
    folder = os.path.dirname(path)
    os.makedirs(folder, exist_ok=True)
    draft = os.path.join(folder, f".{os.path.basename(path)}.{os.getpid()}")
    try:
        _write(draft, msgspec.json.format(msgspec.json.encode(document), indent=2))
        os.replace(draft, path)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(draft)
    return True


def read(path: str) -> dict[str, Any] | None:
    """What the file holds: nothing where there is none, None where it makes no sense."""
    try:
        with open(path, "rb") as file:
            found = msgspec.json.decode(file.read() or b"{}")
    except FileNotFoundError:
        return {}
    except msgspec.DecodeError:
        return None
    return found if isinstance(found, dict) else None


def _write(path: str, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data + b"\n")
        file.flush()
        os.fsync(file.fileno())
