"""`python -m bench [NAME…] [--quick]`: measure everything, or the named questions."""

import argparse
import gc
import os
import platform
import sqlite3
import sys
from collections.abc import Callable, Iterable

from bench import (
    adoption,
    claiming,
    containers,
    crowd,
    embedded,
    gateway,
    latency,
    limits,
    listing,
    postgres,
    promises,
    spawning,
    startup,
    throughput,
    workspaces,
    writers,
)
from bench.disk import file_system, real_disk, scratch, sync_seconds
from bench.filled import Shelf
from bench.report import Line, table
from bench.rounds import FULL, QUICK, Scale

QUESTIONS: dict[str, Callable[[Shelf, Scale], Iterable[Line]]] = {
    "throughput": throughput.measure,
    "claiming": claiming.measure,
    "listing": listing.measure,
    "writers": writers.measure,
    "postgres": postgres.measure,
    "startup": startup.measure,
    "latency": latency.measure,
    "spawning": spawning.measure,
    "crowd": crowd.measure,
    "limits": limits.measure,
    "adoption": adoption.measure,
    "embedded": embedded.measure,
    "gateway": gateway.measure,
    "workspaces": workspaces.measure,
    "containers": containers.measure,
    "promises": promises.measure,
}


def main() -> int:
    """Measure what was asked for; 1 if a goal was missed."""
    args = _arguments()
    with scratch() as directory:
        print(_surroundings(directory), end="\n\n")
        shelf = Shelf(directory)
        lines: list[Line] = []
        for name in args.names or QUESTIONS:
            print(f"measuring {name} …", file=sys.stderr, flush=True)
            lines += QUESTIONS[name](shelf, QUICK if args.quick else FULL)
            gc.collect()
    print(table(lines))
    return 1 if any(line.met is False for line in lines) else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(QUESTIONS))
    parser.add_argument("--quick", action="store_true", help="fewer rounds, smaller databases")
    args = parser.parse_args()
    for name in args.names:
        if name not in QUESTIONS:
            parser.error(f"{name!r} is none of {', '.join(QUESTIONS)}")
    return args


def _surroundings(directory: str) -> str:
    return (
        f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, "
        f"{file_system(real_disk())}, {sync_seconds(directory) * 1000:.1f} ms per fsync"
    )


if __name__ == "__main__":
    sys.exit(main())
