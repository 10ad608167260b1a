"""The commands on a queue in PostgreSQL, and what they say when it cannot be used."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Project
from tests.postgres.server import PASSWORD, QUOTED, Server, free_port

SECRETS = ("geheim", PASSWORD, QUOTED)


@pytest.fixture
def project(tmp_path: Path, url: str) -> Project:
    made = Project(tmp_path)
    made.env["ACODE_STORE__URL"] = url
    return made


def said(project: Project, *words: str) -> str:
    """Everything that a command says; it must not know a secret."""
    done = project.run(*words)
    text = done.out + done.err
    assert not any(secret in text for secret in SECRETS)
    return f"{done.code} {text}"


def test_tasks_are_kept_on_the_server(project: Project) -> None:
    assert "pending" in said(project, "task", "add", "--json", "--", "true")
    assert '"pending":1' in said(project, "queue", "status", "--json")
    assert said(project, "queue", "check").startswith("0 the store is sound")
    assert said(project, "queue", "recover").startswith("0 the store is sound")
    assert "already" not in said(project, "queue", "pause")
    assert not (project.root / ".agent" / "queue.db").exists()


def test_a_backup_is_made_by_the_tools_of_the_server(project: Project) -> None:
    assert "pg_dump" in said(project, "queue", "backup", "copy.db")


@pytest.fixture
def locked(server: Server, url: str) -> str:
    """An address with a password that the server asks for."""
    server.execute("DO $$ BEGIN CREATE ROLE locked LOGIN SUPERUSER; "
                   "EXCEPTION WHEN duplicate_object THEN END $$")  # fmt: skip
    server.execute(f"ALTER ROLE locked PASSWORD '{PASSWORD}'")
    return f"postgresql://locked:{QUOTED}@127.0.0.1:{server.port}/{url.rpartition('/')[2]}"


def test_a_password_is_shown_nowhere(project: Project, locked: str) -> None:
    project.env["ACODE_STORE__URL"] = locked
    assert "0" in said(project, "task", "add", "--", "true")[:1]
    assert "postgresql://locked@127.0.0.1" in said(project, "queue", "status")
    assert "0" in said(project, "queue", "status", "--json")[:1]


@pytest.mark.parametrize(
    ("address", "code", "word"),
    [
        ("postgresql://locked:geheim@127.0.0.1:{port}/{name}", "1", "QUEUE-008"),
        ("postgresql://locked@127.0.0.1:{port}/{name}", "1", "QUEUE-008"),
        ("postgresql://stranger:geheim@127.0.0.1:{port}/{name}", "1", "QUEUE-008"),
        ("postgresql://postgres:geheim@127.0.0.1:{port}/nowhere", "1", "QUEUE-008"),
        ("postgresql://postgres:geheim@127.0.0.1:{free}/{name}", "1", "QUEUE-007"),
        ("postgresql://u:geheim@no.such.host.invalid/{name}", "1", "QUEUE-007"),
        ("postgresql://u:ge@heim@127.0.0.1/{name}", "2", "CONFIG"),
        ("postgresql://u:geheim@127.0.0.1:x/{name}", "2", "CONFIG"),
        ("postgresql://u:geheim@127.0.0.1/{name}?geheim=1", "2", "CONFIG"),
        ("mysql://u:geheim@127.0.0.1/{name}", "2", "CONFIG"),
    ],
)
def test_an_address_that_does_not_work_is_explained(
    project: Project, server: Server, locked: str, address: str, code: str, word: str
) -> None:
    name = locked.rpartition("/")[2]
    project.env["ACODE_STORE__URL"] = address.format(port=server.port, free=free_port(), name=name)
    for words in (("queue", "status"), ("task", "add", "--", "true"), ("worker", "start")):
        answer = said(project, *words)
        assert answer.startswith(code)
        assert f"acode: {word}: " in answer
        assert "\nhint: " in answer
        assert "Traceback" not in answer


def test_no_pool_runs_whether_the_server_answers_or_not(project: Project) -> None:
    project.env["ACODE_STORE__URL"] = f"postgresql://u:geheim@127.0.0.1:{free_port()}/away"
    answer = said(project, "worker", "status", "--json")
    assert answer.startswith("0")
    assert '"isRunning":false' in answer.replace(": ", ":")
    assert "Held back: the queue cannot be read" in said(project, "worker", "status")


def test_without_the_driver_it_is_said_what_to_install(project: Project) -> None:
    hidden = project.root / "hidden"
    hidden.mkdir()
    (hidden / "psycopg.py").write_text("raise ImportError('not here')")
    project.env["PYTHONPATH"] = str(hidden)
    answer = said(project, "queue", "status")
    assert answer.startswith("3")
    assert "acode[postgres]" in answer


def test_what_does_not_use_the_server_does_not_load_the_driver() -> None:
    program = "import sys, acode.cli.main, acode.store.sqlite; print('psycopg' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "False\n"
