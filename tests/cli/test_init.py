"""`acode init`."""

from pathlib import Path

import pytest

from tests.cli.conftest import Project, problem_of


@pytest.fixture
def empty(tmp_path: Path) -> Project:
    """A directory in which acode was never used."""
    return Project(tmp_path)


def test_settings_are_written_with_every_key(empty: Project) -> None:
    done = empty.run("init")
    config = empty.root / ".agent" / "config.yml"
    assert (done.code, done.err) == (0, "")
    assert str(config) in done.out
    assert "timeoutSeconds: 3600" in config.read_text()
    assert (empty.root / ".agent" / ".gitignore").read_text() == "*\n"


def test_what_was_written_is_accepted_and_changes_nothing(empty: Project) -> None:
    empty.run("init")
    task = empty.add("--", "true")
    assert empty.ask("task", "show", task)["timeoutSeconds"] == 3600


def test_a_second_time_is_fine_while_nothing_was_changed(empty: Project) -> None:
    assert empty.ask("init")["written"] is True
    assert empty.ask("init")["written"] is False


def test_settings_that_were_changed_are_never_overwritten(empty: Project) -> None:
    empty.run("init")
    config = empty.root / ".agent" / "config.yml"
    config.write_text("tasks: {retryLimit: 1}\n")
    problem_of(empty.run("init"), 1, "FILE-001")
    assert config.read_text() == "tasks: {retryLimit: 1}\n"


def test_broken_settings_are_not_overwritten_either(empty: Project) -> None:
    config = empty.root / ".agent" / "config.yml"
    config.parent.mkdir()
    config.write_bytes(b"\xff: [")
    problem_of(empty.run("init"), 1, "FILE-001")


def test_another_file_can_be_named(empty: Project) -> None:
    assert empty.run("init", "--config", "mine.yml").code == 0
    assert (empty.root / "mine.yml").exists()
