"""The directories of an attempt, and what it leaves in them."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from acode.runner.artifacts import gather, keep_staged
from acode.runner.environment import inheritable
from acode.runner.suite import Suite, remove

ROOMS = ("work", "tmp")


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    return tmp_path / "shelf"


@pytest.fixture
def suite(shelf: Path) -> Suite:
    return Suite(str(shelf), "spare", ROOMS, remove)


def settle(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on every room counts as made long ago."""
    monkeypatch.setattr("acode.runner.suite.SETTLE_SECONDS", -1.0)


def test_rooms_that_were_not_used_are_handed_out_again(suite: Suite, shelf: Path) -> None:
    inodes = set()
    for attempt in ("a", "b", "c"):
        suite.hand_out(str(shelf / attempt))
        inodes.add((shelf / attempt / "work").stat().st_ino)
        assert sorted(path.name for path in (shelf / attempt).rglob("*")) == sorted(ROOMS)
        suite.take_back(str(shelf / attempt))
        assert not (shelf / attempt).exists()
    assert len(inodes) == 1


def leave_file(room: Path) -> None:
    (room / "file").touch()


def leave_tree(room: Path) -> None:
    (room / "deep" / "deeper").mkdir(parents=True)
    (room / "deep" / "file").touch()


def leave_link(room: Path) -> None:
    outside = room.parent.parent.parent / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    (room / "link").symlink_to(outside)


def leave_nothing_after_all(room: Path) -> None:
    (room / "file").touch()
    (room / "file").unlink()


def change_mode(room: Path) -> None:
    room.chmod(0o755)


def replace_by_link(room: Path) -> None:
    outside = room.parent.parent.parent / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    room.rename(outside / "moved")
    room.symlink_to(outside)


def put_link_in_its_place(room: Path) -> None:
    outside = room.parent.parent.parent / "outside"
    outside.mkdir()
    (outside / "kept").touch()
    room.rmdir()
    room.symlink_to(outside)  # most file systems give it the number that has just become free


def remove_it(room: Path) -> None:
    room.rmdir()


def leave_file_beside_it(room: Path) -> None:
    (room.parent / "file").touch()


def put_another_in_its_place(room: Path) -> None:
    room.rename(room.parent.parent / "moved")
    room.mkdir(mode=0o700)


def set_the_clock_back(room: Path) -> None:
    before = room.stat()
    (room / "file").touch()
    os.utime(room, ns=(before.st_atime_ns, before.st_mtime_ns))


TRACES = [
    leave_file,
    leave_tree,
    leave_link,
    change_mode,
    replace_by_link,
    put_link_in_its_place,
    remove_it,
    leave_file_beside_it,
    put_another_in_its_place,
    set_the_clock_back,
]


@pytest.mark.parametrize("settled", [False, True], ids=["new", "old"])
@pytest.mark.parametrize("trace", TRACES)
def test_no_attempt_finds_a_trace_of_another(
    suite: Suite,
    shelf: Path,
    trace: Callable[[Path], None],
    settled: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    suite.hand_out(str(shelf / "a"))
    suite.take_back(str(shelf / "a"))
    if settled:
        # The file system's clock is coarse: what follows at once may bear the same moment.
        wait_for_the_next_moment(shelf)
        settle(monkeypatch)
    suite.hand_out(str(shelf / "b"))
    trace(shelf / "b" / "work")
    suite.take_back(str(shelf / "b"))
    assert not os.path.lexists(shelf / "b")
    suite.hand_out(str(shelf / "c"))
    assert sorted(path.name for path in (shelf / "c").rglob("*")) == sorted(ROOMS)
    assert {(shelf / "c" / room).stat().st_mode & 0o777 for room in ROOMS} == {0o700}
    if (shelf.parent / "outside").exists():
        assert (shelf.parent / "outside" / "kept").exists()


def wait_for_the_next_moment(shelf: Path) -> None:
    (shelf / "begin").touch()
    begin = (shelf / "begin").stat()
    while (shelf / "begin").stat().st_ctime_ns == begin.st_ctime_ns:
        (shelf / "begin").touch()


def test_a_used_room_is_emptied_and_a_suite_that_is_not_what_it_was_goes(
    suite: Suite, shelf: Path
) -> None:
    suite.hand_out(str(shelf / "a"))
    made = {room: (shelf / "a" / room).stat().st_ino for room in ROOMS}
    leave_file(shelf / "a" / "work")
    suite.take_back(str(shelf / "a"))
    suite.hand_out(str(shelf / "b"))
    assert {room: (shelf / "b" / room).stat().st_ino for room in ROOMS} == made
    (shelf / "b").chmod(0o755)
    suite.take_back(str(shelf / "b"))
    assert not (shelf / "b").exists()
    suite.hand_out(str(shelf / "c"))
    assert (shelf / "c").stat().st_mode & 0o777 == 0o700


def test_a_room_that_was_left_as_it_was_is_good_again(suite: Suite, shelf: Path) -> None:
    suite.hand_out(str(shelf / "a"))
    leave_nothing_after_all(shelf / "a" / "work")
    assert suite.is_unused(str(shelf / "a"), "work")
    inode = (shelf / "a" / "work").stat().st_ino
    suite.take_back(str(shelf / "a"))
    suite.hand_out(str(shelf / "b"))
    assert (shelf / "b" / "work").stat().st_ino == inode


def test_a_spare_that_somebody_took_is_made_anew(suite: Suite, shelf: Path) -> None:
    suite.hand_out(str(shelf / "a"))
    suite.take_back(str(shelf / "a"))
    remove(str(shelf / ".spare"))
    suite.hand_out(str(shelf / "b"))
    assert sorted(path.name for path in (shelf / "b").iterdir()) == sorted(ROOMS)


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


def test_a_link_in_the_place_of_the_artifacts_is_not_followed(tmp_path: Path) -> None:
    elsewhere, staged = tmp_path / "elsewhere", tmp_path / "staged"
    elsewhere.mkdir()
    (elsewhere / "precious").touch()
    staged.symlink_to(elsewhere)
    assert keep_staged(str(staged), str(tmp_path / "final")) == ()
    assert (elsewhere / "precious").exists()


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("*.txt", {"a.txt"}),
        ("**/*.txt", {"a.txt", "dist/b.txt", "dist/deep/.c.txt"}),
        ("**", {"a.txt", "other", "dist/b.txt", "dist/deep/.c.txt"}),
        ("dist", {"dist/b.txt", "dist/deep/.c.txt"}),
        ("./dist/*", {"dist/b.txt", "dist/deep/.c.txt"}),
        ("d*/**/[a-c].txt", {"dist/b.txt"}),
        ("round/round/dist/b.txt", {"round/round/dist/b.txt"}),
        ("nothing/*", set()),
        ("../outside", set()),
        ("/etc/passwd", set()),
    ],
)
def test_patterns_find_files_and_never_go_round(
    tmp_path: Path, pattern: str, found: set[str]
) -> None:
    place = tmp_path / "place"
    (place / "dist" / "deep").mkdir(parents=True)
    for name in ("a.txt", "other", "dist/b.txt", "dist/deep/.c.txt", "../outside"):
        (place / name).touch()
    for name in ("round", "dist/round", "dist/deep/again"):
        (place / name).symlink_to(place)
    (place / "dangling.txt").symlink_to("nowhere")
    final = tmp_path / "final"
    assert set(gather(str(place), [pattern], str(final), 1000).names) == found
    assert all((final / name).is_file() for name in found)


def test_a_task_inherits_no_secrets_and_none_of_our_settings() -> None:
    environ = {"PATH": "/bin", "MY_TOKEN": "x", "ACODE_STORE__URL": "y", "PASSED_KEY": "z", "A": ""}
    assert inheritable(environ, deny=["a"], passed=["PASSED_*"]) == {
        "PATH": "/bin",
        "PASSED_KEY": "z",
    }
