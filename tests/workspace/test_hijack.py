"""A task cannot make our git run its code, whatever it writes where git looks."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.workspace.conftest import Desk, Field
from tests.workspace.kit import TASK, git

pytestmark = pytest.mark.needs("git")
BRANCH = f"acode/{TASK}"

# Everything that git can be told to run, as settings of git.
TRAPS = """
trap=$1; file=$2
for key in core.fsmonitor core.pager core.editor core.sshCommand core.askPass diff.external \
    filter.evil.clean filter.evil.smudge filter.evil.process diff.evil.textconv diff.evil.command \
    merge.evil.driver gpg.program sequence.editor credential.helper core.alternateRefsCommand \
    pager.diff pager.diff-tree uploadpack.packObjectsHook interactive.diffFilter; do
    git config --file "$file" "$key" "$trap"
done
git config --file "$file" filter.evil.required true
git config --file "$file" commit.gpgSign true
git config --file "$file" core.hooksPath "$(dirname "$trap")/hooks"
git config --file "$file" core.attributesFile "$(dirname "$trap")/attributes"
"""


class Trap:
    """A program that must never run, and everything that would run it."""

    def __init__(self, field: Field) -> None:
        self.place = field.home / "trap"
        self.sprung = self.place / "sprung"
        (self.place / "hooks").mkdir(parents=True)
        self.place.chmod(0o777)
        script = f'#!/bin/sh\necho "$0 $*" >> {self.sprung}\nexit 1\n'
        hooks = "post-checkout post-index-change reference-transaction pre-commit post-commit"
        for name in ("run", *(f"hooks/{hook}" for hook in hooks.split())):
            (self.place / name).write_text(script)
            (self.place / name).chmod(0o755)
        (self.place / "attributes").write_text("* filter=evil diff=evil merge=evil\n")
        (self.place / "set").write_text(TRAPS)

    def into(self, file: str) -> str:
        """The words of a task that sets the trap in a file of settings."""
        return f"sh {self.place}/set {self.place}/run {file}; "

    def check(self) -> None:
        assert not self.sprung.exists(), self.sprung.read_text()


COMMON = '"$(git rev-parse --path-format=absolute --git-common-dir)"'
ENTRY = '"$(git rev-parse --path-format=absolute --git-dir)"'

TRICKS: dict[str, Callable[["Trap"], str]] = {
    "pointer": lambda trap: (
        f"git init -q {trap.place}/evil; {trap.into(f'{trap.place}/evil/.git/config')}"
        f"echo gitdir: {trap.place}/evil/.git > .git"
    ),
    "own repository": lambda trap: f"rm .git; git init -q .; {trap.into('.git/config')}",
    "commondir": lambda trap: (
        f"entry={ENTRY}; git init -q {trap.place}/evil; "
        f"{trap.into(f'{trap.place}/evil/.git/config')}"
        f"echo {trap.place}/evil/.git > $entry/commondir"
    ),
    "worktree settings": lambda trap: (
        f"git config extensions.worktreeConfig true; {trap.into(f'{ENTRY}/config.worktree')}"
    ),
    "shared settings": lambda trap: trap.into(f"{COMMON}/config"),
    "included settings": lambda trap: (
        f"{trap.into(f'{trap.place}/more')} git config include.path {trap.place}/more"
    ),
    "shared hooks": lambda trap: f"cp {trap.place}/hooks/* {COMMON}/hooks/",
    "shared attributes": lambda trap: (
        f"{trap.into(f'{COMMON}/config')} cp {trap.place}/attributes {COMMON}/info/attributes"
    ),
    "submodule": lambda trap: (
        "git init -q sub; git -C sub commit -q --allow-empty -m x; git add sub; git commit -qm x; "
        f"{trap.into('sub/.git/config')} echo x > sub/y"
    ),
    "settings of LFS": lambda trap: (
        f"for verb in clean smudge; do "
        f"git config --file .lfsconfig lfs.extension.evil.$verb {trap.place}/run; done; "
        f"git config --file .lfsconfig lfs.extension.evil.priority 0; {trap.into('.lfsconfig')}"
        "echo '*.bin filter=lfs' >> .gitattributes; echo large > a.bin"
    ),
    "links": lambda _: (
        f"entry={ENTRY}; rm $entry/HEAD $entry/index; ln -s /etc/passwd $entry/HEAD; "
        "ln -s /etc/passwd $entry/index; ln -s /etc $entry/logs"
    ),
    "no entry": lambda _: f"rm -rf {ENTRY}",
}


@pytest.mark.parametrize("trick", TRICKS)
def test_no_setting_of_a_task_runs_anything(field: Field, trick: str) -> None:
    project = field.begin()
    trap = Trap(field)
    field.give_away()
    desk = Desk(field)
    desk.run(
        "printf '* filter=evil diff=evil merge=evil\\n' > .gitattributes; echo more >> src/one.txt"
    )
    desk.run(f"set -e; {TRICKS[trick](trap)}")
    trap.sprung.unlink(missing_ok=True)  # the task's own git may have stepped into it
    kept = desk.collect("text")
    desk.close()
    trap.check()
    assert kept["branch"] == BRANCH
    assert git_show(project, "src/one.txt") == "one\nmore"
    # And whoever comes next begins with the commit, in spite of everything.
    other = Desk(field, task_id="other")
    trap.check()
    assert other.run("cat src/one.txt; test ! -e .gitattributes") == "one\n"
    other.close()
    trap.check()


@pytest.mark.parametrize(
    "trick", ["pointer", "own repository", "commondir", "worktree settings", "shared settings"]
)
def test_the_traps_are_real(plain_field: Field, trick: str) -> None:
    plain_field.begin()
    trap = Trap(plain_field)
    desk = Desk(plain_field)
    desk.run("printf '* filter=evil\\n' > .gitattributes; echo more >> src/one.txt")
    desk.run(f"set -e; {TRICKS[trick](trap)}")
    trap.sprung.unlink(missing_ok=True)
    subprocess.run(["git", "-C", desk.path, "add", "-A"], check=False, capture_output=True)
    assert trap.sprung.exists()
    desk.close()


def git_show(project: Path, name: str) -> str:
    """Read without the settings that the task has spoiled."""
    bare = ("-c", "core.fsmonitor=false", "-c", "core.hooksPath=/dev/null")
    return git(project, *bare, "cat-file", "blob", f"{BRANCH}:{name}")


def test_variables_of_whoever_starts_us_reach_no_git(
    plain_field: Field, monkeypatch: pytest.MonkeyPatch
) -> None:
    project = plain_field.begin()
    trap = Trap(plain_field)
    for name, value in {
        "GIT_DIR": "/nonexistent",
        "GIT_INDEX_FILE": "/nonexistent",
        "GIT_EXTERNAL_DIFF": f"{trap.place}/run",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.fsmonitor",
        "GIT_CONFIG_VALUE_0": f"{trap.place}/run",
        "GIT_AUTHOR_NAME": "nobody",
        "LANG": "de_DE.UTF-8",
    }.items():
        monkeypatch.setenv(name, value)
    desk = Desk(plain_field)
    desk.run("echo x > y")
    desk.collect("text")
    desk.close()
    trap.check()
    assert git(project, "log", "-1", "--format=%an", BRANCH) == "Somebody"


def test_a_tree_that_became_a_link_is_not_followed(plain_field: Field) -> None:
    plain_field.begin()
    victim = plain_field.home / "victim"
    victim.mkdir()
    (victim / "precious").write_text("precious\n")
    desk = Desk(plain_field)
    desk.run(f'cd ..; mv "$OLDPWD" {plain_field.home}/moved; ln -s {victim} "$OLDPWD"')
    with pytest.raises(Exception, match="no directory any more"):
        desk.collect("text")
    with pytest.raises(Exception, match="no directory any more"):
        desk.close()
    assert (victim / "precious").read_text() == "precious\n"


@pytest.mark.needs("root")
@pytest.mark.parametrize("field", ["plain", "warm", "overlay-root"], indirect=True)
def test_what_a_task_mounted_in_its_tree_is_not_deleted(field: Field) -> None:
    field.begin()
    victim = field.home / "victim"
    victim.mkdir()
    (victim / "precious").write_text("precious\n")
    desk = Desk(field)
    desk.run(f"mkdir in; mount --bind {victim} in; echo x > new; umount -l in; mkdir -p in")
    desk.run(f"mount --bind {victim} in")
    desk.close()
    assert (victim / "precious").read_text() == "precious\n"
    assert not desk.path.exists()


@pytest.mark.needs("root")
@pytest.mark.parametrize("field", ["overlay-root"], indirect=True)
def test_a_task_that_unmounts_its_tree_loses_nothing(field: Field) -> None:
    project = field.begin()
    desk = Desk(field)
    desk.run('echo more >> src/one.txt; cd /; umount -l "$OLDPWD"')
    desk.collect("text")
    desk.close()
    assert git(project, "diff", "--name-only", "HEAD", BRANCH) == "src/one.txt"
