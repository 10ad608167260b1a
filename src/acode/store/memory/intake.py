"""What the memory store holds of the things that submissions name."""

from collections.abc import Mapping, Sequence

from acode.model.task import Record, Submission
from acode.store.admission import Present, Standing
from acode.store.memory.entry import Entry


def present(
    submissions: Sequence[Submission],
    entries: Mapping[str, Entry],
    archive: Mapping[str, Record],
    keys: Mapping[str, str],
    waiting: int,
) -> Present:
    """Everything that decides whether and how the submissions come in."""
    specs = [one.spec for one in submissions]
    has_key = {spec.key: keys[spec.key] for spec in specs if spec.key and spec.key in keys}
    named = {one.id for one in submissions} | set(has_key.values())
    named |= {need for spec in specs for need in spec.dependencies}
    standings = {
        id_: Standing(archive[id_].task.status, archived=True) for id_ in named & archive.keys()
    }
    standings |= {id_: Standing(entries[id_].task.status) for id_ in named & entries.keys()}
    return Present(standings, has_key, waiting)
