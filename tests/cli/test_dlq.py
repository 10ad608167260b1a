"""`acode dlq …`."""

import pytest

from tests.cli.conftest import Project, problem_of


def dead(project: Project, count: int = 1) -> list[str]:
    tasks = [project.add("--", f"echo {n}") for n in range(count)]
    project.fail(count)
    return tasks


def test_a_look_creates_nothing(project: Project) -> None:
    assert project.ask("dlq", "list") == []
    assert not project.database.exists()


def test_dead_letters_are_listed_the_newest_first(project: Project) -> None:
    first, second = dead(project, 2)
    assert [letter["taskId"] for letter in project.ask("dlq", "list")] == [second, first]
    assert project.run("dlq", "list", "--quiet").out.split() == [second, first]
    assert "EXIT_CODE: exited with 1" in project.run("dlq", "list").out


def test_one_is_shown_with_all_its_fields(project: Project) -> None:
    (task,) = dead(project)
    letter = project.ask("dlq", "show", task[:20])
    names = "taskId taskType failureReason attemptCount firstFailure lastFailure errorDetails"
    assert " ".join(letter) == f"{names} checkpoint"
    assert letter["attemptCount"] == 1
    shown = project.run("dlq", "show", task).out
    assert "Hint           read its log" in shown


def test_a_task_that_did_not_fail_is_no_dead_letter(project: Project) -> None:
    task = project.add("--", "a")
    for verb in ("show", "retry"):
        problem_of(project.run("dlq", verb, task), 1, "TASK-001")
    problem_of(project.run("dlq", "drop", task), 1, "TASK-003")


def test_a_retried_letter_is_queued_and_gone(project: Project) -> None:
    first, second = dead(project, 2)
    assert project.ask("dlq", "retry", first) == [{"id": first, "status": "pending"}]
    assert [letter["taskId"] for letter in project.ask("dlq", "list")] == [second]


def test_all_are_retried(project: Project) -> None:
    tasks = dead(project, 3)
    assert {done["id"] for done in project.ask("dlq", "retry", "--all")} == set(tasks)
    assert project.ask("dlq", "list") == []


def test_a_dropped_letter_is_cancelled_and_gone(project: Project) -> None:
    (task,) = dead(project)
    assert project.run("dlq", "drop", task).code == 0
    assert project.status(task) == "cancelled"
    assert project.ask("dlq", "list") == []


def test_all_are_dropped_without_a_question_where_nobody_can_answer(project: Project) -> None:
    dead(project, 2)
    assert project.run("dlq", "drop", "--all").code == 0
    assert project.ask("dlq", "list") == []


@pytest.mark.parametrize("verb", ["retry", "drop"])
def test_ids_or_all_but_not_both_and_not_neither(project: Project, verb: str) -> None:
    problem_of(project.run("dlq", verb), 2, "USAGE")
    problem_of(project.run("dlq", verb, "01J", "--all"), 2, "USAGE")
