"""The directories of an attempt, and what it leaves in them."""

import os
from pathlib import Path

import pytest

from acode.runner.artifacts import keep_staged
from acode.runner.environment import inheritable
from acode.runner.shelf import Shelf, remove


def test_an_empty_directory_is_handed_out_again(tmp_path: Path) -> None:
    shelf = Shelf(str(tmp_path / "shelf"), "spare")
    first, second = tmp_path / "shelf" / "a", tmp_path / "shelf" / "b"
    shelf.hand_out(str(first))
    inode = first.stat().st_ino
    shelf.take_back(str(first))
    assert not first.exists()
    shelf.hand_out(str(second))
    assert second.stat().st_ino == inode
    assert list(second.iterdir()) == []


@pytest.mark.parametrize("trace", ["file", "mode", "link"])
def test_a_directory_that_was_used_is_not_handed_out_again(tmp_path: Path, trace: str) -> None:
    shelf = Shelf(str(tmp_path / "shelf"), "spare")
    first, second = tmp_path / "shelf" / "a", tmp_path / "shelf" / "b"
    shelf.hand_out(str(first))
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    if trace == "file":
        (first / "file").touch()
    elif trace == "mode":
        first.chmod(0o755)
    else:
        first.rename(tmp_path / "moved")
        first.symlink_to(outside)
    shelf.take_back(str(first))
    assert not os.path.lexists(first)
    shelf.hand_out(str(second))
    assert second.stat().st_mode & 0o777 == 0o700
    assert list(second.iterdir()) == []
    assert (outside / "kept").exists()


def test_a_tree_is_removed_whatever_its_modes(tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "deep" / "deeper").mkdir(parents=True)
    (tree / "deep" / "deeper" / "file").touch()
    (tree / "deep" / "deeper").chmod(0)
    (tree / "deep").chmod(0o500)
    remove(str(tree))
    assert not tree.exists()


@pytest.mark.req("027a-FR-066")
def test_artifacts_are_moved_over_those_of_earlier_attempts(tmp_path: Path) -> None:
    staged, final = tmp_path / "staged", tmp_path / "final"
    (staged / "sub").mkdir(parents=True)
    (staged / "one").write_text("new")
    (staged / "sub" / "two").write_text("two")
    final.mkdir()
    (final / "one").write_text("old")
    (final / "zero").write_text("zero")
    assert keep_staged(str(staged), str(final)) == ("one", "sub/two")
    assert {path.name: path.read_text() for path in final.rglob("*") if path.is_file()} == {
        "zero": "zero",
        "one": "new",
        "two": "two",
    }


def test_a_task_inherits_no_secrets_and_none_of_our_settings() -> None:
    environ = {"PATH": "/bin", "MY_TOKEN": "x", "ACODE_STORE__URL": "y", "PASSED_KEY": "z", "A": ""}
    assert inheritable(environ, deny=["a"], passed=["PASSED_*"]) == {
        "PATH": "/bin",
        "PASSED_KEY": "z",
    }
