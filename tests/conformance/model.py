"""The queue on plain dictionaries: slow, obvious, and written without looking at the stores."""

from collections import Counter
from collections.abc import Collection
from typing import Any

AGEING = 600_000
LEVELS = ("high", "medium", "low", "background")

Row = dict[str, Any]


class Refused(Exception):
    """The store has to refuse this too."""


class Model:
    """What a store must look like after the same calls."""

    def __init__(self) -> None:
        self.tasks: dict[str, Row] = {}
        self.archive: dict[str, Row] = {}
        self.letters: list[str] = []
        self.paused = False

    def add(self, id_: str, row: Row, now: int) -> tuple[str, bool]:
        """The id it goes by, and whether that was there already."""
        if row["key"] is not None:
            for other, there in self.tasks.items():
                if there["key"] == row["key"]:
                    return other, True
        if any(self.archive.get(need, {}).get("status") == "cancelled" for need in row["needs"]):
            raise Refused
        self.tasks[id_] = row | {
            "ready_at": now + row["delay"],
            "count": 0,
            "last": 0,
            "steps": {},
            "wish": False,
            "ended": None,
        }
        self.tasks[id_]["status"] = "pending" if self.is_free(id_) else "blocked"
        return id_, False

    def is_free(self, id_: str) -> bool:
        there = [self.tasks[need] for need in self.tasks[id_]["needs"] if need in self.tasks]
        return all(need["status"] == "completed" for need in there)

    def claim(self, limit: int, held: Collection[tuple[str, str | None]], now: int) -> list[str]:
        if self.paused:
            return []
        ready = [
            (self.rank(row, now), id_)
            for id_, row in self.tasks.items()
            if row["status"] == "pending" and row["ready_at"] <= now
            if (row["kind"], row["stream"]) not in held
        ]
        # Sorting is stable, and the dictionary is in the order of arrival.
        claimed = [id_ for _, id_ in sorted(ready, key=lambda one: one[0])][:limit]
        for id_ in claimed:
            row = self.tasks[id_]
            row.update(status="running", count=row["count"] + 1, last=row["last"] + 1)
        return claimed

    def rank(self, row: Row, now: int) -> tuple[int, int]:
        risen = (now - row["ready_at"]) // AGEING
        return max(0, LEVELS.index(row["priority"]) - risen), row["ready_at"]

    def finish(self, id_: str, verdict: str, now: int) -> None:
        row = self.tasks[id_]
        if verdict == "release":
            row["count"] -= 1
        if verdict in ("retry", "release"):
            verdict = "cancel" if row["wish"] else "again"
        match verdict:
            case "complete":
                row.update(status="completed", steps={}, ended=now)
                self.unblock(now)
            case "fail":
                row.update(status="failed", ended=now)
                self.letters.insert(0, id_)
            case "cancel":
                row.update(status="cancelled", ended=now)
            case "again":
                row.update(status="pending", ready_at=now)
        row["wish"] = False

    def unblock(self, now: int) -> None:
        for id_, row in self.tasks.items():
            if row["status"] == "blocked" and self.is_free(id_):
                row.update(status="pending", ready_at=max(now, row["ready_at"]))

    def cancel(self, id_: str, now: int) -> None:
        row = self.tasks.get(id_)
        if row is None or row["status"] in ("completed", "failed", "cancelled"):
            raise Refused
        if row["status"] == "running":
            row["wish"] = True
        else:
            row.update(status="cancelled", ended=now)

    def retry(self, id_: str, reset: bool, now: int) -> None:
        row = self.tasks.get(id_)
        if row is None or row["status"] not in ("failed", "cancelled"):
            raise Refused
        if row["status"] == "failed":
            self.letters.remove(id_)
        row.update(ready_at=now, ended=None, status="pending" if self.is_free(id_) else "blocked")
        if reset:
            row["count"] = 0

    def drop(self, id_: str) -> None:
        row = self.tasks.get(id_)
        if row is None or row["status"] != "failed":
            raise Refused
        self.letters.remove(id_)
        row.update(status="cancelled", steps={})

    def tidy(self, before: int) -> int:
        archived = 0
        while old := [id_ for id_ in self.tasks if self.may_go(id_, before)]:
            for id_ in old:
                self.archive[id_] = self.tasks.pop(id_)
            archived += len(old)
        return archived

    def may_go(self, id_: str, before: int) -> bool:
        row = self.tasks[id_]
        waiting = [other["status"] for other in self.tasks.values() if id_ in other["needs"]]
        return (
            row["status"] in ("completed", "cancelled")
            and row["ended"] < before
            and not {"blocked", "cancelled"} & set(waiting)
        )

    def tallies(self) -> Counter[tuple[str, str]]:
        return Counter((row["status"], row["priority"]) for row in self.tasks.values())
