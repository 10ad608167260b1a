"""Commands that are refused before they are stored."""

from pathlib import Path

import pytest

from tests.cli.conftest import Project


@pytest.mark.req("forge-29")
@pytest.mark.parametrize(
    ("words", "would"),
    [
        (("rm -fr --no-preserve-root /",), "delete /"),
        (("sudo rm -rf /*",), "delete /"),
        (("rm", "-rf", "/"), "delete /"),
        (("bomb() { bomb | bomb & }; bomb",), "fork without end"),
        (("dd if=/dev/zero of=/dev/sda",), "write over /dev/sda"),
        (("bash", "-lc", "mkfs.ext4 /dev/sda1"), "format a disk"),
        (("cat x > /dev/sda",), "write over /dev/sda"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else None,
)
def test_a_blocked_command_is_refused(project: Project, words: tuple[str, ...], would: str) -> None:
    done = project.run("task", "add", "--", *words)
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("acode: BLOCKED_COMMAND: COMMAND: found ")
    assert would in done.err
    assert "hint: nothing was added" in done.err
    assert not project.database.exists()


def test_a_command_that_only_looks_like_it_is_not(project: Project) -> None:
    assert project.run("task", "add", "--", "rm -rf ./build").code == 0
    assert project.run("task", "add", "--", "echo", "rm -rf /").code == 0


def test_a_prompt_is_no_command(project: Project) -> None:
    assert project.add("--type", "claude-code", "--", "explain rm -rf / and :(){ :|:& };:")


def test_every_blocked_command_of_a_file_is_listed_with_its_place(
    project: Project, tmp_path: Path
) -> None:
    file = tmp_path / "tasks.yml"
    file.write_text(
        "tasks:\n"
        "- command: make\n"
        "- command: rm -rf /\n"
        "- command: make\n"
        "  priority: urgent\n"
        "- {command: dd, args: [of=/dev/sda]}\n"
    )
    done = project.run("task", "add", str(file))
    assert (done.code, done.out) == (1, "")
    assert done.err.startswith("acode: BLOCKED_COMMAND: ")
    assert (
        f'{file}:3: tasks[1].command: found "rm -rf /", expected no command that would' in done.err
    )
    assert f"{file}:5: tasks[2].priority: " in done.err
    assert f'{file}:6: tasks[3].command: found "dd of=/dev/sda"' in done.err
    assert not project.database.exists()


def test_patterns_of_the_configuration_are_added(project: Project) -> None:
    project.env["ACODE_SANDBOX__BLOCKEDCOMMANDS"] = '["terraform destroy", "curl"]'
    for command in ("cd x && terraform destroy -auto-approve", "sh -c 'curl x'", "rm -rf /"):
        assert "BLOCKED_COMMAND" in project.run("task", "add", "--", command).err
    assert project.run("task", "add", "--", "terraform plan; echo curl").code == 0
