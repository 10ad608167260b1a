"""Names of settings, however they are spelled."""

from acode.reading.node import Node
from acode.reading.problem import Path


def squash(word: str) -> str:
    """A name without what does not count: `POLL_INTERVAL_MS` is `pollIntervalMs`."""
    return word.lower().replace("_", "").replace("-", "")


def find(root: Node, path: Path) -> Node | None:
    """The node that stands there, if any does."""
    node = root
    for key in path:
        entries = node.value if isinstance(node.value, dict) else {}
        fitting = (child for name, child in entries.items() if squash(name) == squash(str(key)))
        found = next(fitting, None)
        if found is None:
            return None
        node = found
    return node
