"""`acode task add`."""

import os
from pathlib import Path

import pytest

from acode.ids import LENGTH, is_prefix
from tests.cli.conftest import Project, problem_of


def test_the_id_is_printed_alone(project: Project) -> None:
    done = project.run("task", "add", "--", "true")
    assert (done.code, done.err) == (0, "")
    assert len(done.out.strip()) == LENGTH
    assert is_prefix(done.out.strip())


def test_json_says_id_and_status(project: Project) -> None:
    answer = project.run("task", "add", "--json", "--", "true").json
    assert list(answer) == ["id", "status"]
    assert answer["status"] == "pending"


def test_a_lone_command_is_a_line_for_the_shell(project: Project) -> None:
    task = project.ask("task", "show", project.add("--", "echo hi | wc -c"))
    assert (task["command"], task["args"], task["type"]) == ("echo hi | wc -c", [], "shell")


def test_a_command_with_arguments_keeps_them_apart(project: Project) -> None:
    task = project.ask("task", "show", project.add("--", "echo", "a b", "--json", "--", "*"))
    assert (task["command"], task["args"]) == ("echo", ["a b", "--json", "--", "*"])


def test_every_flag_reaches_the_task(project: Project) -> None:
    first = project.add("--", "true")
    task = project.ask(
        "task",
        "show",
        project.add(
            *("--title", "Build it", "--type", "script", "--priority", "high"),
            *("--workstream", "docs", "--timeout", "60", "--retries", "2"),
            *("--env", "A=1", "--env", "B=x=y", "--after", first[:20]),
            *("--mode", "docker", "--workspace", "worktree", "--base", "main", "--cwd", "sub"),
            *("--artifact", "out/*.txt", "--artifact", "log", "--key", "k1", "--delay", "1.5"),
            *("--memory-mb", "256", "--cpu-percent", "50", "--disk-mb", "100"),
            *("--meta", "ticket=42", "--", "build.sh"),
        ),
    )
    expected = {
        "title": "Build it",
        "type": "script",
        "priority": "high",
        "workstreamId": "docs",
        "timeoutSeconds": 60,
        "retryLimit": 2,
        "env": {"A": "1", "B": "x=y"},
        "dependencies": [first],
        "mode": "docker",
        "workspace": "worktree",
        "base": "main",
        "cwd": "sub",
        "artifacts": ["out/*.txt", "log"],
        "key": "k1",
        "delaySeconds": 1.5,
        "limits": {"memoryMb": 256, "cpuPercent": 50, "diskMb": 100},
        "metadata": {"ticket": "42"},
        "status": "blocked",
    }
    assert {name: task[name] for name in expected} == expected


def test_a_batch_prints_one_id_per_line_in_the_order_of_the_file(project: Project) -> None:
    (project.root / "tasks.txt").write_text("echo one\necho two\n")
    ids = project.run("task", "add", "tasks.txt").out.split()
    assert [project.ask("task", "show", task)["command"] for task in ids] == [
        "echo one",
        "echo two",
    ]


def test_a_batch_is_an_array_and_a_single_task_an_object(project: Project) -> None:
    (project.root / "batch.yml").write_text("- command: a\n- command: b\n")
    (project.root / "one.json").write_text('{"command": "a"}')
    assert len(project.run("task", "add", "batch.yml", "--json").json) == 2
    assert project.run("task", "add", "one.json", "--json").json["status"] == "pending"


def test_tasks_come_from_standard_input(project: Project) -> None:
    done = project.run("task", "add", "-", text="echo one\necho two\n")
    assert len(done.out.split()) == 2


def test_a_refused_file_lists_every_problem_and_adds_nothing(project: Project) -> None:
    (project.root / "bad.yml").write_text("- command: ok\n- priority: urgent\n- comand: x\n")
    done = project.run("task", "add", "bad.yml")
    count = int(problem_of(done, 1, "INVALID_TASK").removesuffix(" problems"))
    assert len(done.err.splitlines()) == count + 2
    assert "bad.yml:2" in done.err
    assert "urgent" in done.err
    assert project.ask("task", "list") == []


def test_a_key_that_exists_gives_the_task_that_has_it(project: Project) -> None:
    first = project.run("task", "add", "--key", "k", "--", "true")
    second = project.run("task", "add", "--key", "k", "--", "true")
    assert second.out == first.out
    assert "already" in second.err
    assert first.err == ""
    assert project.run("task", "add", "--quiet", "--key", "k", "--", "true").err == ""


def test_a_dry_run_checks_and_writes_nothing(project: Project) -> None:
    done = project.run("task", "add", "--dry-run", "--env", "API_TOKEN=abc", "--", "make", "test")
    assert done.code == 0
    assert "make test" in done.out
    assert "abc" not in done.out
    assert not project.database.exists()


def test_a_dry_run_in_json_shows_the_whole_task(project: Project) -> None:
    answer = project.ask("task", "add", "-", "--dry-run", text='[{"command": "a", "retries": 1}]')
    assert (answer["command"], answer["retryLimit"]) == ("a", 1)


def test_a_dry_run_refuses_what_would_be_refused(project: Project) -> None:
    problem_of(project.run("task", "add", "--dry-run", "--after", "01J", "--", "x"), 1, "TASK-001")
    assert not project.database.exists()


def test_a_full_queue_refuses_more(project: Project) -> None:
    project.env["ACODE_TASKS__QUEUESIZE"] = "1"
    project.add("--", "true")
    problem_of(project.run("task", "add", "--", "true"), 1, "QUEUE-001")


def test_a_command_from_a_subdirectory_uses_the_same_queue(project: Project) -> None:
    (project.root / "sub").mkdir()
    task = project.run("task", "add", "--", "true", cwd=project.root / "sub").out.strip()
    assert project.status(task) == "pending"


def test_every_need_of_a_file_that_is_not_there_is_told_with_its_place(project: Project) -> None:
    lines = [
        '{"command": "a"}',
        '{"command": "b", "after": "01J"}',
        '{"command": "c", "after": ["zz"]}',
    ]
    (project.root / "tasks.jsonl").write_text("\n".join(lines), encoding="utf-8")
    done = project.run("task", "add", "tasks.jsonl")
    assert problem_of(done, 1, "INVALID_TASK") == "2 problems"
    expected = "expected the name of a task in this file or the id of a task"
    assert f'tasks.jsonl:2: [1].after: found "01J", {expected}\n' in done.err
    assert f'tasks.jsonl:3: [2].after: found "zz", {expected}\n' in done.err
    assert project.ask("task", "list") == []


@pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
def test_global_options_stand_before_or_after_the_command(
    project: Project, tmp_path_factory: pytest.TempPathFactory, before: bool
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    options, command = ["--project", str(project.root), "--json"], ["task", "list"]
    words = [*options, *command] if before else [*command, *options]
    task = project.add("--", "true")
    assert [row["id"] for row in project.run(*words, cwd=elsewhere).json] == [task]


def test_many_processes_add_at_once(project: Project) -> None:
    processes = [project.start("task", "add", "--", f"echo {n}") for n in range(12)]
    answers = [process.communicate(timeout=60) for process in processes]
    assert [process.returncode for process in processes] == [0] * 12, answers
    ids = {out.strip() for out, _ in answers}
    rows = project.ask("task", "list")
    assert {row["id"] for row in rows} == ids
    assert {row["command"] for row in rows} == {f"echo {n}" for n in range(12)}


def test_an_endless_input_is_refused(project: Project) -> None:
    problem_of(project.run("task", "add", "/dev/zero"), 1, "INVALID_TASK")


def test_what_acode_makes_is_invisible_to_git(tmp_path: Path) -> None:
    os.mkdir(tmp_path / ".git")
    project = Project(tmp_path)
    project.add("--", "true")
    assert (tmp_path / ".agent" / ".gitignore").read_text() == "*\n"
