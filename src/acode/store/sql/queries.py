"""The queries of an engine's queries.sql, by name."""


class Queries:
    """Read once from a file; each engine has its own."""

    def __init__(self, path: str) -> None:
        with open(path, encoding="utf-8") as file:
            sections = file.read().split("-- name: ")[1:]
        named = (section.split("\n", 1) for section in sections)
        self._queries = {name.strip(): _bare(body) for name, body in named}

    def sql(self, name: str, **parts: str) -> str:
        """A query with its {parts} filled in from other queries or from the arguments."""
        return self._queries[name].format_map(self._queries | parts)

    def has(self, name: str) -> bool:
        """Whether there is a query of this name."""
        return name in self._queries


def _bare(body: str) -> str:
    """A query without the lines that explain it."""
    lines = [line for line in body.splitlines() if not line.startswith("--")]
    return "\n".join(lines).strip().removesuffix(";")
