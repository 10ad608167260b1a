"""`acode bench` measures with the real thing and leaves nothing behind."""

import os

from tests.cli.conftest import Project, problem_of


def test_every_part_is_measured_and_nothing_is_left(project: Project) -> None:
    project.run("queue", "status")
    readings = project.ask("bench", "--quick")
    wanted = {"disk.sync", "queue.throughput", "latency.p50", "spawn.pool", "worktree.plain"}
    assert wanted <= set(readings)
    for name in wanted:
        assert readings[name]["value"] > 0, name
    assert not [name for name in os.listdir(project.root / ".agent" / "run") if "bench" in name]


def test_a_part_can_be_chosen(project: Project) -> None:
    assert list(project.ask("bench", "disk", "--quick")) == ["disk.sync"]
    assert "disk.sync" in project.run("bench", "disk", "--quick").out


def test_a_part_that_there_is_not_exits_2(project: Project) -> None:
    assert "none of disk, queue, spawn, worktree" in problem_of(
        project.run("bench", "nonsense"), 2, "USAGE"
    )
