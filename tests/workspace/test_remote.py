"""Commits that are not in the clone come from its remote, or are refused in clear words."""

import subprocess
from pathlib import Path

import pytest

from tests.workspace.conftest import Desk, Field
from tests.workspace.kit import Refused, git, write


class Remote:
    """A bare repository, the clone that a pool works in, and that of somebody else."""

    def __init__(self, field: Field) -> None:
        field.begin()
        self.field = field
        self.clone = field.project
        self.bare = field.home / "remote.git"
        git(field.home, "clone", "-q", "--bare", str(self.clone), str(self.bare))
        git(self.clone, "remote", "add", "origin", str(self.bare))
        self.other = field.home / "other"
        git(field.home, "clone", "-q", str(self.bare), str(self.other))

    def commit(self, *pushed_as: str) -> str:
        """A commit of somebody else, pushed under these names."""
        write(self.other, {"new": "from elsewhere\n"})
        git(self.other, "add", "-A")
        git(self.other, "commit", "-qm", "elsewhere")
        for name in pushed_as:
            git(self.other, "push", "-q", "origin", f"HEAD:{name}")
        return git(self.other, "rev-parse", "HEAD")


@pytest.fixture
def remote(plain_field: Field) -> Remote:
    return Remote(plain_field)


def has(repository: Path, commit: str) -> bool:
    words = ["git", "-C", str(repository), "cat-file", "-e", commit]
    return subprocess.run(words, check=False, capture_output=True).returncode == 0


@pytest.mark.parametrize("word", ["commit", "branch", "remote's branch", "tag"])
def test_a_base_that_is_missing_is_fetched(remote: Remote, word: str) -> None:
    commit = remote.commit("refs/heads/feature/x", "refs/tags/v1")
    assert not has(remote.clone, commit)
    words = {"branch": "feature/x", "remote's branch": "origin/feature/x", "tag": "v1"}
    desk = Desk(remote.field, base=words.get(word, commit))
    assert desk.opened["base"] == commit
    assert desk.run("cat new") == "from elsewhere\n"
    assert git(remote.clone, "branch", "-a") == "* main", "nothing of the user's is touched"
    desk.close()


def test_an_annotated_tag_means_its_commit(remote: Remote) -> None:
    commit = remote.commit("main")
    git(remote.other, "tag", "-a", "-m", "release", "v2")
    git(remote.other, "push", "-q", "origin", "v2")
    assert Desk(remote.field, base="v2").opened["base"] == commit


def test_the_commit_of_the_submission_beats_the_name(remote: Remote) -> None:
    commit = remote.commit("main")
    desk = Desk(remote.field, base="main", commit=commit)
    assert desk.opened["base"] == commit
    assert git(remote.clone, "rev-parse", "main") != commit


def test_what_the_remote_does_not_have_is_refused(remote: Remote) -> None:
    commit = remote.commit()  # not pushed
    for word in (commit, "nobody-has-this"):
        with pytest.raises(Refused, match="its remote origin has none either") as refused:
            Desk(remote.field, base=word)
        assert refused.value.code == "INVALID_TASK"
        assert "push it to origin" in refused.value.hint


def test_a_remote_that_is_away_is_no_fault_of_the_task(remote: Remote) -> None:
    commit = remote.commit("main")
    remote.bare.rename(remote.bare.with_name("away.git"))
    with pytest.raises(Refused, match="the remote origin cannot be asked") as refused:
        Desk(remote.field, base=commit)
    assert refused.value.code != "INVALID_TASK"


def test_without_a_remote_nothing_is_asked(plain_field: Field) -> None:
    plain_field.begin()
    with pytest.raises(Refused, match="is no commit of") as refused:
        Desk(plain_field, base="nobody-has-this")
    assert refused.value.code == "INVALID_TASK"
