"""A pool whose disk has no room for a while. Run by test_disk.py on a file system of its own."""

import sys
from pathlib import Path

from tests.pool.checker import Tally, check, records
from tests.pool.conftest import PoolProject, eventually


def fill(ballast: Path) -> None:
    """Take all the room there is."""
    with open(ballast, "ab", buffering=0) as file:
        for size in (65536, 4096, 512, 1):
            try:
                while file.write(b"\0" * size):
                    pass
            except OSError:
                continue


def main(disk: Path, outside: Path) -> None:
    project = PoolProject(disk / "project")
    try:
        live_through_it(project, disk, outside)
    finally:
        (disk / "ballast").unlink(missing_ok=True)
        project.close()


def live_through_it(project: PoolProject, disk: Path, outside: Path) -> None:
    tally = Tally(outside / "tally")
    go, ballast = outside / "go", disk / "ballast"
    project.configure(workers={"pollIntervalMs": 100})
    project.start(count=2)
    wait = f"while [ ! -e {go} ]; do sleep 0.02; done"
    tasks = [project.add(tally.command(wait))]
    eventually(lambda: tally.runs(tasks[0]))
    tasks += project.add_all([{"command": tally.command(wait), "delaySeconds": 1}] * 6)
    fill(ballast)
    # The delay is over and a worker is free, but nothing can be written down.
    eventually(lambda: project.pool()["backpressure"])
    go.touch()
    (busy,) = [worker for worker in project.workers() if worker["currentTaskId"]]
    assert [tally.runs(task) for task in tasks] == [1, 0, 0, 0, 0, 0, 0]
    refused = project.run("task", "add", "--", "true")
    assert refused.code == 1, refused
    eventually(lambda: b"exited" in (project.agent / "run" / "spool" / busy["id"]).read_bytes())
    ballast.unlink()
    assert project.wait(*tasks).code == 0
    eventually(lambda: project.pool()["backpressure"] is None)
    for record in records(project.agent, tasks):
        check(record)
        assert record.task.attempt_count == 1
        assert tally.runs(record.task.id) == 1
    assert {worker["restarts"] for worker in project.workers()} == {0}


main(Path(sys.argv[1]), Path(sys.argv[2]))
