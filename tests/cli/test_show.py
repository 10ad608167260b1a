"""`acode task show` and `acode task why`."""

from tests.cli.conftest import WORKER, Project, problem_of


def test_a_prefix_is_enough(project: Project) -> None:
    task = project.add("--", "true")
    assert project.ask("task", "show", task[:8].lower())["id"] == task


def test_a_prefix_of_two_is_not(project: Project) -> None:
    task = project.add("--", "true")
    project.add("--", "true")
    problem_of(project.run("task", "show", task[:5]), 1, "TASK-002")


def test_without_a_store_nothing_is_found_and_nothing_made(project: Project) -> None:
    problem_of(project.run("task", "show", "01J"), 1, "TASK-001")
    assert not project.database.exists()


def test_secrets_are_never_shown(project: Project) -> None:
    task = project.add("--env", "GITHUB_TOKEN=s3cret", "--env", "LANG=C", "--", "true")
    for command in ("show", "list", "why"):
        for flags in ([], ["--json"]):
            words = ["task", command, *([] if command == "list" else [task]), *flags]
            assert "s3cret" not in project.run(*words).out
    assert project.ask("task", "show", task)["env"] == {"GITHUB_TOKEN": "***", "LANG": "C"}


def test_every_move_and_attempt_is_shown(project: Project) -> None:
    task = project.add("--", "false")
    project.fail()
    shown = project.ask("task", "show", task)
    assert [move["to"] for move in shown["history"]] == ["pending", "running", "failed"]
    assert shown["history"][0]["actor"].startswith("cli:")
    (attempt,) = shown["attempts"]
    assert (attempt["number"], attempt["ending"], attempt["exitCode"]) == (1, "exited", 1)
    assert attempt["usage"] == {"cpuSeconds": 0.25, "maxMemoryBytes": 1 << 20}
    assert shown["error"]["hint"] == "read its log"


def test_the_text_tells_the_same_story(project: Project) -> None:
    task = project.add("--title", "Build", "--env", "A=1", "--meta", "k=v", "--", "false")
    project.fail()
    shown = project.run("task", "show", task[:20]).out
    for words in (
        "Title        Build",
        "Status       failed",
        "Timeout      1 h",
        f"Worker       worker-{WORKER}",
        "Error        EXIT_CODE (permanent): exited with 1",
        "Hint         read its log",
        "exited with 1",
    ):
        assert words in shown


def test_settings_decide_what_the_task_left_open(project: Project) -> None:
    task = project.add("--", "true")
    project.env["ACODE_TASKS__TIMEOUTSECONDS"] = "90"
    assert project.ask("task", "show", task)["timeoutSeconds"] == 90


def reasons(project: Project, task: str) -> str:
    answer = project.ask("task", "why", task)
    assert list(answer) == ["id", "status", "reasons"]
    text = project.run("task", "why", task).out
    assert all(reason.split(" (")[0] in text for reason in answer["reasons"])
    return "; ".join(answer["reasons"])


def test_a_ready_task_knows_its_place(project: Project) -> None:
    last = project.add("--", "a")
    assert "it is the next one" in reasons(project, last)
    project.add("--priority", "high", "--", "b")
    project.add("--priority", "low", "--", "c")
    project.add("--priority", "high", "--delay", "60", "--", "d")
    said = reasons(project, last)
    assert "about 1 ready task" in said
    assert "no worker pool is running" in said


def test_a_delayed_task_says_until_when(project: Project) -> None:
    said = reasons(project, project.add("--delay", "3600", "--", "a"))
    assert "it waits until" in said
    assert "in 59 m" in said
    assert "next one" not in said


def test_a_paused_queue_is_a_reason(project: Project) -> None:
    task = project.add("--", "a")
    project.run("queue", "pause")
    assert "the queue is paused" in reasons(project, task)


def test_a_blocked_task_names_what_it_waits_for(project: Project) -> None:
    first = project.add("--", "a")
    second = project.add("--after", first, "--", "b")
    assert f"it waits for {first}, which is pending" in reasons(project, second)
    project.fail()
    said = reasons(project, second)
    assert f"it waits for {first}, which is failed" in said
    assert f"acode task retry {first}" in said


def test_a_running_task_names_its_worker(project: Project) -> None:
    task = project.add("--", "a")
    project.claim()
    assert f"worker-{WORKER} runs attempt 1" in reasons(project, task)
    project.run("task", "cancel", task)
    assert "its end was asked for" in reasons(project, task)


def test_a_failed_task_says_why_and_what_to_do(project: Project) -> None:
    task = project.add("--", "a")
    project.fail()
    said = reasons(project, task)
    assert "it failed after 1 attempt: EXIT_CODE: exited with 1" in said
    assert "read its log" in said
    assert f"acode task retry {task}" in said


def test_a_cancelled_task_says_by_whom(project: Project) -> None:
    task = project.add("--", "a")
    project.run("task", "cancel", task)
    assert "cancelled by cli:" in reasons(project, task)


def test_a_completed_task_says_when(project: Project) -> None:
    task = project.add("--", "a")
    project.complete()
    assert "it completed at" in reasons(project, task)
