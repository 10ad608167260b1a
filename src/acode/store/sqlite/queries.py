"""The queries of queries.sql, by name."""

import os


def _read(path: str) -> dict[str, str]:
    with open(path, encoding="utf-8") as file:
        sections = file.read().split("-- name: ")[1:]
    named = (section.split("\n", 1) for section in sections)
    return {name.strip(): body.strip().removesuffix(";") for name, body in named}


_QUERIES = _read(os.path.join(os.path.dirname(__file__), "queries.sql"))


def sql(name: str, **parts: str) -> str:
    """A query with its {parts} filled in from other queries or from the arguments."""
    return _QUERIES[name].format_map(_QUERIES | parts)


def has(name: str) -> bool:
    """Whether there is a query of this name."""
    return name in _QUERIES
