"""`acode dlq …`: dead letters, the tasks that failed for good."""

import sys

from acode.cli.context import Context, drive
from acode.cli.parser import Command, Parser, add_id, add_ids
from acode.cli.render import Column
from acode.clock import iso
from acode.errors import TaskNotFound, UsageError
from acode.human import ago, number
from acode.model.task import DeadLetter, Task
from acode.store.base import Store
from acode.views import dead_letter_view

COLUMNS = (
    Column("ID"),
    Column("TYPE"),
    Column("ATTEMPTS"),
    Column("FAILED"),
    Column("REASON"),
)


def _list(context: Context) -> int:
    letters, screen = drive(context.app.reader().dead_letters()), context.screen
    if screen.json:
        screen.data([dead_letter_view(letter) for letter in letters])
    elif screen.quiet:
        for letter in letters:
            screen.line(letter.task_id)
    elif letters:
        screen.table(COLUMNS, [_row(letter, context.app.clock.now()) for letter in letters])
    else:
        screen.note("no dead letters")
    return 0


def _row(letter: DeadLetter, now: int) -> list[str]:
    return [
        letter.task_id,
        letter.task_type,
        str(letter.attempt_count),
        ago(letter.last_failure, now),
        letter.failure_reason,
    ]


def _show(context: Context) -> int:
    store, screen = context.app.reader(), context.screen
    letter = _letter(store, context.resolve(store, context.args.id))
    if screen.json:
        screen.data(dead_letter_view(letter))
    else:
        screen.fields(_fields(letter))
    return 0


def _letter(store: Store, task_id: str) -> DeadLetter:
    found = drive(store.dead_letters(task_id))
    if not found:
        raise TaskNotFound(f"task {task_id} is no dead letter", "acode dlq list shows them")
    return found[0]


def _fields(letter: DeadLetter) -> dict[str, str | None]:
    return {
        "Task": letter.task_id,
        "Type": letter.task_type,
        "Reason": letter.failure_reason,
        "Hint": letter.error_details.hint,
        "Category": letter.error_details.category,
        "Failed step": letter.error_details.failed_step,
        "Attempts": str(letter.attempt_count),
        "First failure": iso(letter.first_failure),
        "Last failure": iso(letter.last_failure),
        "Finished steps": ", ".join(letter.checkpoint),
    }


def _choice_arguments(parser: Parser) -> None:
    add_ids(parser, nargs="*")
    parser.add_argument("--all", action="store_true", help="every dead letter")


def _drop_arguments(parser: Parser) -> None:
    _choice_arguments(parser)
    parser.add_argument("--yes", action="store_true", help="do not ask before dropping all")


def _retry(context: Context) -> int:
    store = context.app.reader()

    def retry(task_id: str) -> Task:
        letter = _letter(store, task_id)
        return drive(store.retry(letter.task_id, actor=context.actor))

    code = context.each(store, _chosen(context, store), retry)
    context.ring()
    return code


def _drop(context: Context) -> int:
    store = context.app.reader()
    chosen = _chosen(context, store)
    if context.args.all and chosen and not _confirmed(context, len(chosen)):
        context.screen.note("nothing was dropped")
        return 1
    return context.each(store, chosen, lambda id_: drive(store.drop(id_, actor=context.actor)))


def _chosen(context: Context, store: Store) -> list[str]:
    """The ids that were named, or those of all dead letters."""
    ids: list[str] = context.args.ids
    if bool(ids) == context.args.all:
        raise UsageError("name some ids or use --all", f"{context.args.prog} --help shows how")
    return ids or [letter.task_id for letter in drive(store.dead_letters())]


def _confirmed(context: Context, count: int) -> bool:
    """Ask where somebody can answer; a script has said --all and means it."""
    if context.args.yes or not (context.screen.terminal and sys.stdin.isatty()):
        return True
    answer = input(f"Drop {number(count, 'dead letter')} for good? [y/N] ")
    return answer.strip().lower() in ("y", "yes")


COMMANDS = (
    Command(
        "list",
        "list the tasks that failed for good, the newest first",
        _list,
        ("acode dlq list", "acode dlq list --json"),
    ),
    Command("show", "show one dead letter", _show, ("acode dlq show 01J9X",), add_id),
    Command(
        "retry",
        "queue dead letters again; finished steps are not repeated",
        _retry,
        ("acode dlq retry 01J9X 01J9Y", "acode dlq retry --all"),
        _choice_arguments,
    ),
    Command(
        "drop",
        "give dead letters up; their tasks are cancelled",
        _drop,
        ("acode dlq drop 01J9X", "acode dlq drop --all --yes"),
        _drop_arguments,
    ),
)
