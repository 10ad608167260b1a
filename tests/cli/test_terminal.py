"""On a terminal: tables, colours, spinners and questions."""

import os
import pty
import re
import select
import signal
import subprocess
from collections.abc import Callable

import pytest

from tests.cli.conftest import ACODE, Project

COLOUR = re.compile(r"\x1b\[[0-9;]*m")


class Terminal:
    """A command that believes that somebody is looking."""

    def __init__(self, project: Project, *args: str) -> None:
        self._ours, theirs = pty.openpty()
        self.text = ""
        self.process = subprocess.Popen(
            [ACODE, *args],
            cwd=project.root,
            env={**project.env, "TERM": "xterm-256color", "COLUMNS": "120"},
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)

    def write(self, text: str) -> None:
        os.write(self._ours, text.encode())

    def read_until(self, found: Callable[[str], bool]) -> str:
        while not found(self.text) and self._read():
            pass
        assert found(self.text), self.text
        return self.text

    def finish(self) -> str:
        while self._read():
            pass
        self.process.wait(30)
        os.close(self._ours)
        return self.text

    def _read(self) -> bool:
        if not select.select([self._ours], [], [], 30)[0]:
            raise TimeoutError(self.text)
        try:
            chunk = os.read(self._ours, 65536)
        except OSError:  # the other side is closed
            return False
        self.text += chunk.decode()
        return bool(chunk)


def shown(project: Project, *args: str) -> str:
    return Terminal(project, *args).finish()


def test_a_table_has_colours(project: Project) -> None:
    task = project.add("--title", "Build", "--", "true")
    text = shown(project, "task", "list")
    assert COLOUR.search(text)
    assert task in text
    assert "Build" in text


@pytest.mark.parametrize("how", ["flag", "variable"])
def test_colours_can_be_refused(project: Project, how: str) -> None:
    project.add("--", "true")
    if how == "variable":
        project.env["NO_COLOR"] = "1"
    text = shown(project, "task", "list", *(["--no-color"] if how == "flag" else []))
    assert not re.search(r"\x1b\[[0-9;]*3[0-7]", text)


def test_ids_are_whole_even_where_the_terminal_is_narrow(project: Project) -> None:
    task = project.add("--title", "x" * 200, "--workstream", "documentation", "--", "true")
    lines = COLOUR.sub("", shown(project, "task", "list")).splitlines()
    assert task in lines[1]
    assert len(lines) == 2
    assert "…" in lines[1]
    assert "pending" in lines[1]


def test_markup_and_control_characters_are_only_text(project: Project) -> None:
    project.add("--title", "[bold]x[/bold] :smile: \x1b[2Jy", "--", "true")
    text = shown(project, "task", "list")
    assert "[bold]x[/bold] :smile: \ufffd[2Jy" in text
    assert "\x1b[2J" not in text


def test_json_is_indented_for_people(project: Project) -> None:
    project.add("--", "true")
    assert '\r\n    "id": ' in shown(project, "task", "list", "--json")


def test_waiting_shows_how_far_it_is(project: Project) -> None:
    task = project.add("--", "true")
    terminal = Terminal(project, "task", "wait", task)
    terminal.read_until(lambda text: "0 of 1 task finished" in text)
    project.complete()
    assert f"{task} completed" in terminal.finish()
    assert terminal.process.returncode == 0


def test_a_watched_list_follows_the_tasks(project: Project) -> None:
    task = project.add("--", "true")
    terminal = Terminal(project, "task", "list", "--watch")
    terminal.read_until(lambda text: task in text)
    project.run("task", "cancel", task)
    terminal.read_until(lambda text: "cancelled" in text)
    terminal.process.send_signal(signal.SIGINT)
    terminal.finish()
    assert terminal.process.returncode == 130


@pytest.mark.parametrize(("answer", "left"), [("y\n", 0), ("\n", 1), ("\x04", 1)])
def test_dropping_all_asks_first(project: Project, answer: str, left: int) -> None:
    project.add("--", "true")
    project.fail()
    terminal = Terminal(project, "dlq", "drop", "--all")
    terminal.read_until(lambda text: "[y/N]" in text)
    terminal.write(answer)
    terminal.finish()
    assert len(project.ask("dlq", "list")) == left
    assert terminal.process.returncode == (1 if left else 0)
