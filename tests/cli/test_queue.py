"""`acode queue …`."""

import sqlite3

from tests.cli.conftest import Project, problem_of


def test_the_status_of_nothing_creates_nothing(project: Project) -> None:
    status = project.ask("queue", "status")
    assert status["waiting"] == 0
    assert status["store"] is None
    assert not project.database.exists()


def test_the_queue_at_a_glance(project: Project) -> None:
    project.add("--priority", "high", "--", "a")
    project.add("--delay", "60", "--", "b")
    status = project.ask("queue", "status")
    assert status["tasks"]["pending"] == 2
    assert status["pendingByPriority"] == {"high": 1, "medium": 1, "low": 0, "background": 0}
    assert status["paused"] is False
    assert status["oldestReadyAt"].endswith("Z")
    assert status["store"]["bytes"] > 0
    text = project.run("queue", "status").out
    assert "1 high, 1 medium" in text
    assert str(project.database) in text


def test_the_queue_is_paused_and_resumed(project: Project) -> None:
    assert project.ask("queue", "pause") == {"paused": True, "changed": True}
    assert project.ask("queue", "pause") == {"paused": True, "changed": False}
    assert project.ask("queue", "status")["paused"] is True
    project.add("--", "a")
    assert project.claim() == []
    assert project.ask("queue", "resume") == {"paused": False, "changed": True}
    assert len(project.claim()) == 1


def test_resuming_nothing_creates_nothing(project: Project) -> None:
    assert project.run("queue", "resume").code == 0
    assert not project.database.exists()


def test_a_sound_store_is_said_to_be_sound(project: Project) -> None:
    project.add("--", "a")
    assert project.run("queue", "check").out == "the store is sound\n"
    assert project.ask("queue", "check") == {"ok": True, "problems": []}


def test_damage_is_listed_and_exits_1(project: Project) -> None:
    project.add("--", "a")
    spoil(project)
    assert "failed tasks" in problem_of(project.run("queue", "check"), 1, "QUEUE-002")
    spoil(project, status="completed")
    done = project.run("queue", "check")
    assert problem_of(done, 1, "QUEUE-002") == "2 problems"
    assert len(done.err.splitlines()) == 4
    answer = project.run("queue", "check", "--json")
    assert (answer.code, answer.json["ok"], len(answer.json["problems"])) == (1, False, 2)


def spoil(project: Project, status: str = "failed") -> None:
    connection = sqlite3.connect(project.database)
    connection.execute("UPDATE tallies SET n = n + 1 WHERE status = ? AND priority = 0", [status])
    connection.commit()
    connection.close()


def test_a_file_that_is_no_database_is_said_to_be_none(project: Project) -> None:
    project.database.write_bytes(b"not a database" * 1000)
    for command in (["queue", "status"], ["queue", "check"], ["task", "list"]):
        problem_of(project.run(*command), 1, "QUEUE-002")


def test_a_backup_is_a_whole_store(project: Project) -> None:
    task = project.add("--", "a")
    copy = project.root / "copy" / ".agent" / "queue.db"
    copy.parent.mkdir(parents=True)
    answer = project.ask("queue", "backup", "copy/.agent/queue.db")
    assert answer == {"path": str(copy), "bytes": copy.stat().st_size}
    rows = project.ask("--project", "copy", "task", "list")
    assert [row["id"] for row in rows] == [task]


def test_a_backup_overwrites_nothing(project: Project) -> None:
    project.add("--", "a")
    (project.root / "precious").write_text("mine")
    problem_of(project.run("queue", "backup", "precious"), 1, "FILE-001")
    assert (project.root / "precious").read_text() == "mine"


def test_nothing_cannot_be_backed_up(project: Project) -> None:
    problem_of(project.run("queue", "backup", "copy.db"), 1, "QUEUE-006")
    assert not (project.root / "copy.db").exists()


def test_old_tasks_are_archived_and_still_shown(project: Project) -> None:
    task = project.add("--", "a")
    project.complete()
    project.env["ACODE_TASKS__KEEPHISTORYDAYS"] = "0"
    answer = project.ask("queue", "recover")
    done = {"archived": 1, "checkpoints": 0, "recovery": None}
    assert answer == {"ok": True, "problems": [], **done}
    assert project.ask("task", "list") == []
    assert project.status(task) == "completed"


def test_young_tasks_stay(project: Project) -> None:
    project.add("--", "a")
    project.complete()
    assert "0 finished tasks archived" in project.run("queue", "recover").out
    assert len(project.ask("task", "list")) == 1


def test_a_damaged_store_is_not_tidied(project: Project) -> None:
    project.add("--", "a")
    project.complete()
    spoil(project)
    project.env["ACODE_TASKS__KEEPHISTORYDAYS"] = "0"
    problem_of(project.run("queue", "recover"), 1, "QUEUE-002")
    assert len(project.ask("task", "list")) == 1
