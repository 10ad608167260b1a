"""`acode queue migrate`: the whole queue to another store, and back."""

import os

from acode.cli.context import Context
from acode.cli.parser import Command, Parser
from acode.errors import FileUnreadable, PoolRunning, StoreUnusable, UsageError
from acode.human import number
from acode.store.opening import POSTGRES, SQLITE, open_store

EXAMPLES = (
    "ACODE_NEW_URL=postgresql://acode:secret@db/queue acode queue migrate --to env:ACODE_NEW_URL",
    "acode queue migrate --to file:/run/secrets/queue-url",
    "acode queue migrate --to postgresql://acode@db.example.com/queue",
    "acode queue migrate --to sqlite:///.agent/queue-back.db --json",
)


def _arguments(parser: Parser) -> None:
    parser.add_argument(
        "--to",
        metavar="ADDRESS",
        required=True,
        help="postgresql://… or sqlite:///FILE; env:NAME or file:FILE where the address has a "
        "password, which others would see in a command line",
    )


def _migrate(context: Context) -> int:
    from acode.engine.lock import holder

    app, screen = context.app, context.screen
    if holder(app.project.daemon_lock) is not None:
        raise PoolRunning("the worker pool of this project runs", "acode worker stop ends it")
    source = app.existing_store()
    if source is None:
        raise StoreUnusable("there is no store yet", "acode task add makes one")
    target = open_store(
        _address(context.args.to), app.project.queue_db, app.clock, 0, grouped=False
    )
    there, here = target.describe()["path"], source.describe()["path"]
    if there == here:
        raise UsageError("the queue is there already")
    with screen.working("moving") as say:
        moved = source.move_to(
            target, lambda what, done, total: say(f"{what}: {done:,} of {total:,}")
        )
    if screen.json:
        facts = {"from": here, "to": there, "rows": moved.rows, "resumed": moved.resumed}
        screen.data({**facts, "verified": True})
        return 0
    tasks = moved.rows["tasks"] + moved.rows["archive"]
    screen.said(f"{number(tasks, 'task')} moved to {there}, every row compared")
    screen.said(f"the old queue is kept, paused, in {here}")
    screen.said("set store.url (or ACODE_STORE__URL) to the new address to go on there")
    return 0


def _address(words: str) -> str:
    """The address itself, wherever the user keeps it."""
    kind, _, rest = words.partition(":")
    if kind == "env":
        found = os.environ.get(rest)
        if not found:
            raise UsageError(f"the variable {rest} is not set")
    elif kind == "file":
        found = _read(rest)
    else:
        found = words
    if not found.startswith((POSTGRES, SQLITE)):
        # Not quoted: it may hold a password.
        raise UsageError("--to: expected postgresql://…, sqlite:///FILE, env:NAME or file:FILE")
    return found


def _read(path: str) -> str:
    try:
        with open(path, encoding="utf-8") as file:
            return file.read().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise FileUnreadable(f"{path} cannot be read") from error


MIGRATE = Command(
    "migrate",
    "move the whole queue to another store; run it again if it was interrupted",
    _migrate,
    EXAMPLES,
    _arguments,
)
