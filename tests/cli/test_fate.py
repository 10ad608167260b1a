"""`acode task wait`, `cancel` and `retry`: what becomes of tasks."""

import signal

from tests.cli.conftest import Project, problem_of


def test_waiting_for_completed_tasks_succeeds(project: Project) -> None:
    tasks = [project.add("--", "a"), project.add("--", "b")]
    project.complete(2)
    done = project.run("task", "wait", *tasks)
    assert done.code == 0
    assert done.out.splitlines() == [f"{task} completed" for task in tasks]


def test_waiting_goes_on_until_the_last_is_finished(project: Project) -> None:
    tasks = [project.add("--", "a"), project.add("--", "b")]
    project.complete()
    process = project.start("task", "wait", *tasks, "--json")
    project.complete()
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert out.count('"completed"') == 2


def test_waiting_for_a_failed_task_fails(project: Project) -> None:
    task = project.add("--", "a")
    project.fail()
    assert project.run("task", "wait", task).code == 1


def test_a_wait_that_takes_too_long_says_so(project: Project) -> None:
    task = project.add("--", "a")
    done = project.run("task", "wait", task, "--timeout", "0.1")
    assert "1 task not finished after 0.1 s" in problem_of(done, 1, "TIMEOUT")
    assert f"acode task why {task}" in done.err


def test_an_interrupted_wait_exits_130_without_a_word(project: Project) -> None:
    process = project.start("task", "wait", project.add("--", "a"))
    project.wait_until_opened(process)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert (process.returncode, out, err) == (130, "", "")


def test_a_waiting_task_is_cancelled(project: Project) -> None:
    task = project.add("--", "a")
    done = project.run("task", "cancel", task)
    assert (done.code, done.out) == (0, f"{task} cancelled\n")
    assert project.status(task) == "cancelled"


def test_a_task_that_is_named_twice_is_cancelled_once(project: Project) -> None:
    task = project.add("--", "a")
    done = project.run("task", "cancel", task, task.lower(), task[:20])
    assert (done.code, done.err, done.out) == (0, "", f"{task} cancelled\n")


def test_a_running_task_gets_the_wish(project: Project) -> None:
    task = project.add("--", "a")
    project.claim()
    done = project.run("task", "cancel", "--force", task)
    assert (done.code, done.out) == (0, f"{task} running, asked to end\n")


def test_one_that_cannot_be_cancelled_does_not_save_the_others(project: Project) -> None:
    finished = project.add("--", "a")
    project.complete()
    waiting = project.add("--", "b")
    done = project.run("task", "cancel", finished, "01J", waiting, "--json")
    assert [task["id"] for task in done.json] == [waiting]
    assert done.code == 1
    assert "acode: TASK-003: " in done.err
    assert "acode: TASK-001: " in done.err


def test_a_failed_task_is_queued_again(project: Project) -> None:
    task = project.add("--", "a")
    project.fail()
    assert project.ask("task", "retry", task) == {"id": task, "status": "pending"}
    assert project.ask("task", "show", task)["attemptCount"] == 1


def test_attempts_can_be_forgotten(project: Project) -> None:
    task = project.add("--", "a")
    project.fail()
    project.run("task", "retry", task, "--reset-attempts")
    assert project.ask("task", "show", task)["attemptCount"] == 0


def test_a_waiting_task_cannot_be_retried(project: Project) -> None:
    problem_of(project.run("task", "retry", project.add("--", "a")), 1, "TASK-003")


def test_quiet_deeds_say_nothing(project: Project) -> None:
    task = project.add("--", "a")
    assert project.run("task", "cancel", task, "--quiet").out == ""
