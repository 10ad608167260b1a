"""How long does a command take, beside an interpreter that does nothing?"""

from collections.abc import Iterator

from bench.command import acode, bare_python
from bench.filled import Shelf
from bench.report import Line, duration
from bench.rounds import Scale, medians, seconds

TURNS = 6
"""For each round of the other questions."""
TIMES = 3
PLUS_SECONDS = 0.060


def measure(shelf: Shelf, scale: Scale) -> Iterator[Line]:
    """Compare the everyday commands with `python -c pass`."""
    root = shelf.fresh().root
    task = acode("task add --quiet -- true", root).strip()
    commands = ("task add -- true", "task list", f"task show {task}", "queue status")
    turns = {words: lambda words=words: seconds(lambda: acode(words, root)) for words in commands}
    turns["python"] = lambda: seconds(lambda: bare_python(root))
    costs = medians(turns, scale.rounds * TURNS)
    for words in commands:
        yield _line(words.replace(task, "ID"), costs[words], costs["python"])


def _line(words: str, ours: float, python: float) -> Line:
    allowed = TIMES * python + PLUS_SECONDS
    beside = f"python -c pass: {duration(python)}"
    goal = f"≤ {TIMES}x + 60 ms = {duration(allowed)}"
    return Line(f"acode {words}", duration(ours), beside, ours / python, goal, ours <= allowed)
