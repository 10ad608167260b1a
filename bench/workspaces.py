"""How soon is a workspace ready, beside `git worktree add --detach`, alone and many at once?

Repositories are generated, in memory, so that the disk does not decide. The clock runs from the
order until the last workspace is ready; each is opened in a process that waits for the order, as a
steward of the pool does: one that has had a workspace before, or a new one where a line says so.
"""

import gc
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from statistics import median
from typing import NamedTuple

from acode.runner.identity import is_alive, myself
from acode.workspace.base import CommitText, Order, Strategy, Workspace
from acode.workspace.opening import open_workspace
from acode.workspace.sweep import sweep
from bench.filled import Shelf
from bench.report import Line, Pair, at_least, at_most, duration
from bench.rounds import Rounds, Scale, seconds

SIZES = (5_000, 50_000)
FOLDERS = 100
GIT = "git worktree add"
FIRST = "overlay, first of a steward"
GOALS: dict[Strategy, float] = {"overlay": 0.02, "warm": 0.1, "plain": 1.1}
YOUNG_SECONDS = 1.1
"""So long git cannot tell by their times whether new files have changed; that is not the question.
"""
EIGHT = 8
EIGHT_GOAL = 0.01
SOME = 16
MANY = 64
LARGE = 20_000
TASKS = 100
WORKERS = 4
TURNAROUND_GOAL = 5


def measure(shelf: Shelf, scale: Scale) -> Iterator[Line]:  # noqa: ARG001
    """Both sizes, each way in turn."""
    with _as_in_a_zygote(), _in_memory() as directory:
        for size in SIZES:
            yield from _size(Yard(directory, size), scale)


@contextmanager
def _as_in_a_zygote() -> Iterator[None]:
    """What stewards are forked from looks at nothing again that is alive."""
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        gc.unfreeze()


@contextmanager
def _in_memory() -> Iterator[str]:
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with tempfile.TemporaryDirectory(prefix="acode-bench-", dir=memory) as path:
        yield path


def _size(yard: "Yard", scale: Scale) -> Iterator[Line]:
    name, rounds = f"{yard.files:,} files", 3 if scale.rounds < 7 else 5
    turns: dict[str, Callable[[], float]] = {GIT: partial(yard.git_at_once, 1)}
    for strategy in GOALS:
        yard.warm_up(strategy, 1)
        turns[strategy] = partial(yard.ours_at_once, strategy, 1)
    turns[FIRST] = partial(yard.ours_at_once, "overlay", 1, is_new=True)
    time.sleep(YOUNG_SECONDS)
    alone = Rounds(turns, rounds)
    for strategy, goal in GOALS.items():
        yield at_most(f"{strategy}, {name}", Pair(alone, strategy, GIT), goal)
    yield at_most(f"{FIRST}, {name}", Pair(alone, FIRST, GIT))
    yield from _crowds(yard, name)
    if yard.files >= LARGE:
        yield _turnaround(yard, rounds)


def _crowds(yard: "Yard", name: str) -> Iterator[Line]:
    theirs, ours = f"{GIT}, {EIGHT} at once", "overlay"
    at_once = Rounds(
        {
            theirs: partial(yard.noting, theirs, partial(yard.git_at_once, EIGHT)),
            ours: partial(yard.noting, ours, partial(yard.ours_at_once, "overlay", EIGHT)),
        },
        3,
    )
    spent = Rounds({name: partial(yard.processor_of, name) for name in (theirs, ours)}, 1)
    failed = f" ({yard.git_failures} of {3 * EIGHT} failed)" if yard.git_failures else ""
    line = at_most(f"overlay, {EIGHT} at once, {name}", Pair(at_once, ours, theirs), EIGHT_GOAL)
    yield line._replace(beside=line.beside + failed)
    yield at_most("the same, processor time", Pair(spent, ours, theirs), EIGHT_GOAL)
    # Whole trees take memory: sixteen large ones would be a million files.
    crowds: dict[Strategy, int] = {"overlay": MANY} | (
        {"warm": SOME, "plain": SOME} if yard.files < LARGE else {}
    )
    for strategy, many in crowds.items():
        taken = yard.ours_at_once(strategy, many)
        case = f"{strategy}, {many} at once, {name}"
        yield Line(case, duration(taken), "", None, "no failure", met=True)


def _turnaround(yard: "Yard", rounds: int) -> Line:
    rates = Rounds(
        {
            "overlay": partial(yard.ours_in_turn, TASKS),
            "add, commit, remove": partial(yard.git_in_turn, TASKS // 5),
        },
        min(rounds, 3),
    )
    case = f"tasks in turn, {WORKERS} at once, {yard.files:,} files"
    return at_least(case, Pair(rates, "overlay", "add, commit, remove"), TURNAROUND_GOAL)


Work = Callable[[], Callable[[], None]]
"""What is measured; it returns what is done afterwards."""


class Ended(NamedTuple):
    """When one of a crowd was ready, whether it was, and what that took."""

    spent: float
    processor: float
    ok: bool


class Yard:
    """One repository and everything that is made of it."""

    def __init__(self, directory: str, files: int) -> None:
        self.files = files
        self.git_failures = 0
        self._root = os.path.join(directory, str(files))
        self._made = 0
        self._last = 0.0
        self._processor: dict[str, list[float]] = {}
        generate(self._root, files)

    def noting(self, name: str, turn: Callable[[], float]) -> float:
        """Take a turn and remember its processor time, which load changes little."""
        spent = turn()
        self._processor[name] = [*self._processor.get(name, []), self._last]
        return spent

    def processor_of(self, name: str) -> float:
        """The middle one of what turns took."""
        return median(self._processor[name])

    def warm_up(self, strategy: Strategy, count: int) -> None:
        """Shared checkouts and ready trees are there before the clock starts."""
        self.ours_at_once(strategy, count)

    def ours_at_once(self, strategy: Strategy, count: int, *, is_new: bool = False) -> float:
        """Seconds until the last of them is ready; then they are put away, off the clock."""
        orders = [self._order(strategy, warm=count) for _ in range(2 * count)]
        stays = [partial(_stay, order) for order in orders]
        ended = _crowd(stays[:count], () if is_new or strategy == "plain" else stays[count:])
        if not all(each.ok for each in ended):
            raise SystemExit(f"{strategy}: not every workspace could be made")
        self._last = sum(each.processor for each in ended)
        sweep(self._root, f"{self._root}/.agent/worktrees", is_alive)
        return max(each.spent for each in ended)

    def git_at_once(self, count: int) -> float:
        """The same with git alone."""
        places = [self._place() for _ in range(count)]
        ended = _crowd([partial(self._add, place) for place in places])
        self.git_failures += sum(not each.ok for each in ended) if count > 1 else 0
        self._last = sum(each.processor for each in ended)
        for place in places:
            shutil.rmtree(place, ignore_errors=True)
        _git(self._root, "worktree", "prune")
        return max(each.spent for each in ended)

    def _add(self, place: str) -> Callable[[], None]:
        _git(self._root, "worktree", "add", "-q", "--detach", place)
        return lambda: None

    def ours_in_turn(self, tasks: int) -> float:
        """Tasks a second, each with a change that is collected."""
        works = [partial(self._work, tasks // WORKERS) for _ in range(WORKERS)]
        return tasks / seconds(lambda: _crowd(works))

    def _work(self, tasks: int) -> Callable[[], None]:
        for _ in range(tasks):
            ended = _crowd([partial(self._task, self._order("overlay"))])
            assert ended[0].ok
        return lambda: None

    def _task(self, order: Order) -> Callable[[], None]:
        workspace = open_workspace(order)
        _change(workspace.path)
        workspace.collect(patch_file=f"{self._place()}.patch", commit=CommitText("text"))
        return workspace.close

    def git_in_turn(self, tasks: int) -> float:
        """The same with `git worktree add`, `commit` and `remove`, one caller a time at each."""
        works = [partial(self._git_work, tasks // WORKERS) for _ in range(WORKERS)]
        return tasks / seconds(lambda: _crowd(works))

    def _git_work(self, tasks: int) -> Callable[[], None]:
        for _ in range(tasks):
            place = self._place()
            # Alone in adding, because git's own adding fails beside others.
            lock = f"{self._root}.lock"
            add = ["flock", lock, "git", "-C", self._root, "worktree", "add", "-q", "--detach"]
            subprocess.run([*add, place], check=True)
            _change(place)
            _git(place, "add", "-A")
            _git(place, "commit", "-qm", "text")
            remove = ["flock", lock, "git", "-C", self._root, "worktree", "remove", "--force"]
            subprocess.run([*remove, place], check=True)
        return lambda: None

    def _place(self) -> str:
        self._made += 1
        return f"{self._root}-{os.getpid()}-{self._made}"

    def _order(self, strategy: Strategy, warm: int = 2) -> Order:
        self._made += 1
        return Order(
            task_id=f"task-{os.getpid()}-{self._made}",
            number=1,
            worker_id="worker",
            kind="worktree",
            project_root=self._root,
            trees=f"{self._root}/.agent/worktrees/worker",
            owner=myself(),
            strategy=strategy,
            warm=warm,
        )


def _stay(order: Order) -> Callable[[], None]:
    workspace: Workspace = open_workspace(order)
    return workspace.close


def _change(place: str) -> None:
    with open(os.path.join(place, "folder-0", "file-0"), "a", encoding="utf-8") as file:
        file.write("changed\n")


def _crowd(works: Sequence[Work], before: Sequence[Work] = ()) -> list[Ended]:
    """Do all at once, each in a process of its own; what each returns is done off the clock.

    So is what some do before, and what comes of it.
    """
    gate, opener = os.pipe()
    exit_, leaver = os.pipe()
    pipes = []
    for number, work in enumerate(works):
        reading, writing = os.pipe()
        if os.fork() == 0:
            os.close(opener)
            os.close(leaver)
            _be_one(before[number : number + 1], work, (gate, exit_), writing)
        os.close(writing)
        pipes.append(reading)
    for pipe in pipes:
        os.read(pipe, 1)
    begin = time.perf_counter()
    os.close(opener)  # wakes all at once; of a byte for each, one would hear after the other
    ended = [_hear(pipe, begin) for pipe in pipes]
    for descriptor in (gate, exit_, leaver):
        os.close(descriptor)
    for _ in works:
        os.wait()
    return ended


def _be_one(before: Sequence[Work], work: Work, doors: tuple[int, int], writing: int) -> None:
    gate, exit_ = doors
    try:
        for each in before:
            each()()
        os.write(writing, b"r")
        os.read(gate, 1)
        used = _processor()
        after = work()
        # The clock is the same one in all processes.
        os.write(writing, f"{time.perf_counter()} {_processor() - used}".encode())
        os.close(writing)
        os.read(exit_, 1)  # nobody tidies up while others are still being measured
        after()
    except BaseException as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
    finally:
        os._exit(0)


def _hear(pipe: int, begin: float) -> Ended:
    with os.fdopen(pipe) as file:
        said = file.read()
    end, processor = map(float, (said or "0 0").split())
    return Ended(end - begin, processor, bool(said))


def generate(root: str, files: int) -> None:
    """A repository of small files of about a kilobyte, in folders of equal size."""
    for folder in range(FOLDERS):
        os.makedirs(f"{root}/folder-{folder}")
        for number in range(files // FOLDERS):
            with open(f"{root}/folder-{folder}/file-{number}", "w", encoding="utf-8") as file:
                file.write(f"{folder} {number} of {files}\n" * 50)
    _git(root, "init", "-q", "-b", "main")
    for key, value in (("user.name", "bench"), ("user.email", "bench@localhost"), ("gc.auto", "0")):
        _git(root, "config", key, value)
    os.makedirs(f"{root}/.agent")
    with open(f"{root}/.agent/.gitignore", "w", encoding="utf-8") as file:
        file.write("*\n")
    _git(root, "add", "-A")
    _git(root, "commit", "-qm", "all")
    _git(root, "repack", "-adq")


def _git(place: str, *words: str) -> None:
    subprocess.run(["git", "-C", place, *words], check=True, capture_output=True)


def _processor() -> float:
    """Processor seconds of this process and of the children that it has waited for."""
    who = (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    return sum(each.ru_utime + each.ru_stime for each in map(resource.getrusage, who))
