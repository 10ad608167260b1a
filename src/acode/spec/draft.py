"""Between a task that was read and one that is stored: what it waits for becomes ids."""

from collections.abc import Awaitable, Callable, Sequence

from msgspec import Struct, structs

from acode.errors import InvalidTask, TaskNotFound
from acode.model.task import Submission, TaskSpec
from acode.reading.problem import Problem, listing, quoted


class Draft(Struct, frozen=True):
    """A checked task that has no id yet. `after` names drafts of the same batch, or ids."""

    name: str | None
    spec: TaskSpec
    after: tuple[str, ...] = ()
    unknown: Problem | None = None
    """What to say, and of which place in a file, if a task that it waits for is not there."""


async def submissions(
    drafts: Sequence[Draft],
    *,
    new_id: Callable[[], str],
    resolve: Callable[[str], Awaitable[str]],
) -> list[Submission]:
    """Drafts with their ids; what they wait for is named by full ids. A name beats a prefix."""
    ids = [new_id() for _ in drafts]
    known = {draft.name: id_ for draft, id_ in zip(drafts, ids, strict=True) if draft.name}
    problems = []
    for draft in drafts:
        for name in draft.after:
            try:
                known[name] = known.get(name) or await resolve(name)
            except TaskNotFound:
                if draft.unknown is None:
                    raise
                problems.append(structs.replace(draft.unknown, found=quoted(name)))
    if problems:
        raise InvalidTask(listing(problems))
    return [
        Submission(id_, _waiting(draft.spec, [known[name] for name in draft.after]))
        for draft, id_ in zip(drafts, ids, strict=True)
    ]


def _waiting(spec: TaskSpec, ids: Sequence[str]) -> TaskSpec:
    return structs.replace(spec, dependencies=tuple(dict.fromkeys(ids)))
