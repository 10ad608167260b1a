"""Paths that must stay inside the project."""

import os


def leaves(root: str, path: str) -> bool:
    """Whether a relative path gets out: by its first letter, by `..`, or through a link."""
    if os.path.isabs(path) or _climbs(path):
        return True
    top = os.path.realpath(root)
    target = os.path.realpath(os.path.join(top, path))
    return os.path.commonpath([top, target]) != top


def glob_leaves(root: str, pattern: str) -> bool:
    """Whether a pattern gets out; links are followed up to its first wildcard."""
    return _climbs(pattern) or leaves(root, _literal_part(pattern))


def _climbs(path: str) -> bool:
    return os.path.normpath(path).split(os.sep)[0] == os.pardir


def _literal_part(pattern: str) -> str:
    names = pattern.split(os.sep)
    wild = [position for position, name in enumerate(names) if set(name) & set("*?[")]
    return os.sep.join(names[: wild[0]] if wild else names)
