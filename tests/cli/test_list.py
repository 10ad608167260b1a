"""`acode task list`."""

import signal

from tests.cli.conftest import Project


def ids(project: Project, *args: str) -> list[str]:
    return [row["id"] for row in project.ask("task", "list", *args)]


def test_a_look_creates_nothing(project: Project) -> None:
    assert project.ask("task", "list") == []
    assert project.run("task", "list").out == ""
    assert not project.database.exists()


def test_the_oldest_comes_first(project: Project) -> None:
    tasks = [project.add("--", f"echo {n}") for n in range(3)]
    assert ids(project) == tasks
    assert ids(project, "--reverse") == tasks[::-1]


def test_rows_are_filtered(project: Project) -> None:
    high = project.add("--priority", "high", "--workstream", "docs", "--", "a")
    low = project.add("--priority", "low", "--", "b")
    project.complete()
    assert ids(project, "--priority", "low") == [low]
    assert ids(project, "--workstream", "docs") == [high]
    assert ids(project, "--status", "completed") == [high]
    assert ids(project, "--status", "completed", "--status", "pending") == [high, low]


def test_rows_are_sorted(project: Project) -> None:
    low = project.add("--priority", "low", "--", "b")
    high = project.add("--priority", "high", "--", "a")
    assert ids(project, "--sort", "priority") == [high, low]
    assert ids(project, "--sort", "created") == [low, high]


def test_pages_follow_each_other_and_say_that_there_is_more(project: Project) -> None:
    tasks = [project.add("--", f"echo {n}") for n in range(3)]
    first = project.run("task", "list", "--limit", "2", "--json")
    assert [row["id"] for row in first.json] == tasks[:2]
    assert "--reverse shows the newest" in first.err
    second = project.run("task", "list", "--limit", "2", "--offset", "2", "--json")
    assert [row["id"] for row in second.json] == tasks[2:]
    assert second.err == ""


def test_a_pipe_gets_plain_aligned_columns(project: Project) -> None:
    task = project.add("--title", "Build", "--priority", "background", "--", "make")
    head, row = project.run("task", "list").out.splitlines()
    assert head.split() == ["ID", "STATUS", "PRIORITY", "WORKSTREAM", "CREATED", "TITLE"]
    assert row.startswith(f"{task}  pending  background  -")
    assert head.index("TITLE") == row.index("Build")
    assert "\x1b" not in row


def test_a_task_without_a_title_is_known_by_its_command(project: Project) -> None:
    project.add("--", "make", "-j4", "all")
    assert project.run("task", "list").out.rstrip().endswith("make -j4 all")


def test_quiet_prints_ids_only(project: Project) -> None:
    tasks = [project.add("--", "a"), project.add("--", "b")]
    assert project.run("task", "list", "--quiet").out.split() == tasks


def test_titles_cannot_play_tricks(project: Project) -> None:
    project.add("--title", "[red]x[/red] \x1b[31m\t\u202eevil", "--", "a")
    shown = project.run("task", "list").out
    assert "[red]x[/red] \ufffd[31m \ufffdevil" in shown
    assert len(shown.splitlines()) == 2


def test_watching_shows_what_changes_until_it_is_interrupted(project: Project) -> None:
    process = project.start("task", "list", "--watch", "--quiet")
    assert process.stdout is not None
    task = project.add("--", "true")
    assert process.stdout.readline().strip() == task
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=10)
    assert (process.returncode, err) == (130, "")
