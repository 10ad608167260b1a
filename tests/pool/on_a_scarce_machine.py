"""A pool whose machine runs short. Run by test_backpressure.py with mounts of its own."""

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.pool.conftest import PoolProject, eventually
from tests.pool.pressure import begun_again, held_back, told_once

MB = 1 << 20


class Gauge(NamedTuple):
    """How to turn one, and what is said then."""

    turn: Callable[[float], None]
    said: str
    scarce: float
    between: float
    """Enough not to pause, too little to go on."""
    plenty: float


def gauges(disk: Path, told: Path) -> dict[str, Gauge]:
    """10 GB of memory, of which a tenth is kept free; of the disk's 256 MB, two hundredths."""

    def memory(available: float) -> None:
        rewrite(
            told / "meminfo",
            f"MemTotal: {10240 << 10} kB\nMemAvailable: {available * 1024:.0f} kB\n",
        )

    def stall(percent: float) -> None:
        rewrite(told / "stall", f"full avg10={percent:.2f} avg60=0.00 avg300=0.00 total=0\n")

    def room(left: float) -> None:
        with open(disk / "ballast", "ab") as file:
            seen = os.statvfs(disk)
            file.truncate(0)
            free = os.statvfs(disk).f_bavail * seen.f_frsize
            os.posix_fallocate(file.fileno(), 0, free - round(left * MB))

    return {
        "memory": Gauge(memory, "MB of memory left; 1024 MB are kept free", 1000, 1100, 2000),
        "stall": Gauge(stall, "stands still for want of memory", 30, 19, 5),
        "disk": Gauge(room, "MB on the disk left; 5 MB are kept free", 4, 5.8, 20),
    }


def rewrite(path: Path, text: str) -> None:
    """In place, because it is the file itself that is mounted; and whole at any moment."""
    with open(path, "r+b", buffering=0) as file:
        file.write(text.encode().ljust(os.fstat(file.fileno()).st_size))


def main(gauge: str, disk: Path, told: Path) -> None:
    project = PoolProject(disk / "project")
    turned = gauges(disk, told)[gauge]
    turned.turn(turned.plenty)
    try:
        live_through_it(project, turned)
    finally:
        (disk / "ballast").unlink(missing_ok=True)
        project.close()


def live_through_it(project: PoolProject, gauge: Gauge) -> None:
    project.start(count=2)
    running = project.hold("running")
    gauge.turn(gauge.scarce)
    waiting = held_back(project, gauge.said)
    scarce = project.pool()["backpressure"]
    project.let_go("running")
    assert project.wait(running).code == 0
    gauge.turn(gauge.between)
    eventually(lambda: project.pool()["backpressure"] not in (None, scarce))
    assert project.status(waiting) == "pending"
    gauge.turn(gauge.plenty)
    begun_again(project, waiting)
    told_once(project)


main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
