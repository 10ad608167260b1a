"""`acode run`: the tasks of a file, from the first to the last, with a pool for as long."""

from acode.cli import listen_to_interrupts
from acode.cli.add import FILE_HELP
from acode.cli.batch import Batch
from acode.cli.borrowed import Borrowed, Interrupts
from acode.cli.context import Context, drive
from acode.cli.follow import Follower
from acode.cli.parser import Command, Parser
from acode.cli.progress import Standing, Teller, teller, told
from acode.cli.render import Column
from acode.cli.start import size_arguments
from acode.clock import Deadline, ticks
from acode.human import number, span
from acode.model.state import FINISHED, Status
from acode.model.task import Task
from acode.views import View, duration_ms, label, row_view

LOOK_SECONDS = 0.1
POOL_LOOK_SECONDS = 1.0
"""How often it is checked that the pool is still there, and that the queue is not paused."""
LONGEST_TABLE = 50

COLUMNS = (
    Column("ID"),
    Column("STATUS", coloured=True),
    Column("ATTEMPTS"),
    Column("TOOK"),
    Column("TITLE"),
)


def run_arguments(parser: Parser) -> None:
    """What `run` takes."""
    parser.add_argument("file", metavar="FILE", help=FILE_HELP)
    size_arguments(parser)
    # The rest of what a start may be told.
    parser.set_defaults(
        autoscale=False, keep_worktrees=False, keep_containers=False, foreground=False
    )


def run(context: Context) -> int:
    """Run every task of a file and tell how they ended."""
    listen_to_interrupts(False)
    batch = Batch(context, context.args.file)
    with Interrupts() as interrupts:
        pool = Borrowed(context, interrupts)
        followed: Run | None = None
        try:
            pool.have()
            with interrupts.held():
                followed = Run(context, batch, pool)
            followed.follow()
            pool.give_back(force=False)
        except KeyboardInterrupt:
            pool.give_back(force=True)
            _tell_interrupted(context, pool, followed)
            raise
        except BaseException:
            pool.give_back(force=True)
            raise
    followed.summarise(interrupted=False)
    return 0 if followed.succeeded else 1


def _tell_interrupted(context: Context, pool: Borrowed, followed: "Run | None") -> None:
    if followed is None:
        return
    followed.summarise(interrupted=True)
    where = "go on in the pool that ran before" if pool.is_foreign else "wait in the queue"
    context.screen.note(
        f"interrupted: tasks that are not done {where}; the same command goes on with them"
    )


class Run:
    """One batch on its way."""

    def __init__(self, context: Context, batch: Batch, pool: Borrowed) -> None:
        self._context = context
        self._batch = batch
        self._pool = pool
        self._began = ticks()
        added = batch.add()
        resumed = any(each.existed for each in added)
        self._follower = Follower(context.app.store(), [each.id for each in added], known=resumed)
        self._resumed = resumed
        self._done_before = self._told = self._follower.count(*FINISHED) if resumed else 0
        self._note = ""

    @property
    def succeeded(self) -> bool:
        """Whether every task has completed."""
        return self._follower.count(Status.COMPLETED) == len(self._follower.tasks)

    @property
    def _tasks(self) -> list[Task]:
        return list(self._follower.tasks.values())

    def follow(self) -> None:
        """Until nothing happens any more."""
        with teller(self._context.screen) as tell:
            self._begin(tell)
            care = Deadline(0)
            while not self._look(tell):
                if care.left() <= 0:
                    self._care(tell)
                    care = Deadline(POOL_LOOK_SECONDS)
                Deadline(LOOK_SECONDS).rest(LOOK_SECONDS)
        if self._follower.is_finished():
            self._batch.finished()

    def _begin(self, tell: Teller) -> None:
        total = len(self._tasks)
        if self._resumed:
            done = f"{self._done_before} of {number(total, 'task')} are done already"
            tell.line(f"going on with {self._batch.source}: {done}")
        else:
            tell.line(f"running {number(total, 'task')} of {self._batch.source}")

    def _look(self, tell: Teller) -> bool:
        """One look at the tasks; whether it was the last."""
        for move in self._follower.moves():
            task = self._follower.tasks[move.task_id]
            # Several may have ended since the last look: each has a number of its own.
            self._told += (move.became in FINISHED) - (move.was in FINISHED)
            place = f"[{self._told}/{len(self._follower.tasks)}]"
            if (line := told(move, task, place)) is not None:
                tell.line(line)
        tell.show(self._standing(), self._follower.with_status(Status.RUNNING))
        return self._follower.is_over()

    def _care(self, tell: Teller) -> None:
        """The pool may be gone, and the queue may be paused."""
        if self._pool.is_gone():
            tell.line("the pool was stopped; going on with one of its own")
            self._pool.have()
        paused = drive(self._context.app.store().counts()).paused
        note = "the queue is paused: acode queue resume" if paused else ""
        if note and note != self._note:
            tell.line(note)
        self._note = note

    def _standing(self) -> Standing:
        follower = self._follower
        done = follower.count(*FINISHED)
        return Standing(
            total=len(follower.tasks),
            done=done,
            running=follower.count(Status.RUNNING),
            failed=follower.count(Status.FAILED),
            ended_here=done - self._done_before,
            seconds=ticks() - self._began,
            note=self._note,
        )

    def summarise(self, *, interrupted: bool) -> None:
        """Tell how all of it ended."""
        screen = self._context.screen
        for _ in self._follower.moves():
            pass  # what happened while the pool was stopped
        if screen.json:
            screen.data(self._report() | {"interrupted": interrupted})
            return
        if screen.quiet:
            return
        self._print_table()
        cost = "" if self._cost is None else f", ${self._cost:.2f}"
        screen.text(f"{', '.join(self._counted())} in {span(self._took_ms)}{cost}")

    @property
    def _cost(self) -> float | None:
        """What agents say that the last attempts cost; `None` if none said anything."""
        runs = [task.result.agent for task in self._tasks if task.result is not None]
        costs = [run.cost_usd for run in runs if run is not None and run.cost_usd is not None]
        return sum(costs) if costs else None

    @property
    def _took_ms(self) -> int:
        return round((ticks() - self._began) * 1000)

    def _print_table(self) -> None:
        screen, tasks = self._context.screen, self._tasks
        if len(tasks) > LONGEST_TABLE:
            # Those that did well are counted below.
            tasks = [task for task in tasks if task.status is not Status.COMPLETED]
        screen.line("")
        if tasks:
            screen.table(COLUMNS, [_row(task) for task in tasks[:LONGEST_TABLE]])
            screen.line("")
        if len(tasks) > LONGEST_TABLE:
            screen.note(f"{len(tasks) - LONGEST_TABLE} more did not complete; --json has them all")

    def _counted(self) -> list[str]:
        counts = [(self._follower.count(status), status) for status in Status]
        return [f"{count:,} {status}" for count, status in counts if count] or ["nothing"]

    def _report(self) -> View:
        defaults = self._context.app.settings.tasks
        return {
            "file": self._batch.source,
            "succeeded": self.succeeded,
            "total": len(self._tasks),
            "counts": {status.value: self._follower.count(status) for status in Status},
            "durationMs": self._took_ms,
            "costUsd": self._cost,
            "tasks": [row_view(task, defaults) for task in self._tasks],
        }


def _row(task: Task) -> list[str]:
    took = duration_ms(task)
    return [
        task.id,
        task.status,
        str(task.attempt_count),
        "-" if took is None else span(took),
        label(task.spec),
    ]


COMMAND = Command(
    "run",
    "start a pool, run every task of a file, stop; exit 1 if any failed",
    run,
    (
        "acode run tasks.yml",
        "acode run tasks.txt --count 8",
        "printf 'make lint\\nmake test\\n' | acode run -",
        "acode run nightly.yml --json | tee report.json",
    ),
    run_arguments,
)
