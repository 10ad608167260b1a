"""How long does a command take, beside an interpreter that does nothing?

The quickest of many turns counts: others who use the machine only ever add to it.
"""

from collections.abc import Callable, Iterator

from bench.command import acode, bare_python
from bench.filled import Shelf
from bench.report import Line, duration
from bench.rounds import Rounds, Scale, seconds

TURNS = 6
"""For each round of the other questions."""
TIMES = 3
PLUS_SECONDS = 0.060


def measure(shelf: Shelf, scale: Scale) -> Iterator[Line]:
    """Compare the everyday commands with `python -c pass`."""
    root = shelf.fresh().root
    task = acode("task add --quiet -- true", root).strip()
    commands = ("task add -- true", "task list", f"task show {task}", "queue status")
    turns = {words: _running(words, root) for words in commands}
    turns["python"] = lambda: seconds(lambda: bare_python(root))
    costs = Rounds(turns, scale.rounds * TURNS)
    for words in commands:
        yield _line(words.replace(task, "ID"), costs.least(words), costs.least("python"))


def _running(words: str, root: str) -> Callable[[], float]:
    return lambda: seconds(lambda: acode(words, root))


def _line(words: str, ours: float, python: float) -> Line:
    allowed = TIMES * python + PLUS_SECONDS
    beside = f"python -c pass: {duration(python)}"
    goal = f"≤ {TIMES}x + 60 ms = {duration(allowed)}"
    return Line(f"acode {words}", duration(ours), beside, ours / python, goal, ours <= allowed)
