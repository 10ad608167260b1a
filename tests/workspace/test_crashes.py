"""Killed at every step: nothing is lost, nothing is left, nobody else is harmed."""

import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.workspace.conftest import FILES, WAYS, Field
from tests.workspace.kit import Steward, git, picture

pytestmark = pytest.mark.needs("git")
KILLED = -9


class Scene:
    """A repository, a steward, and what must be true between two lives."""

    def __init__(self, field: Field) -> None:
        self.field = field
        self.project = field.begin()
        self.trees = self.project / ".agent" / "worktrees"
        self.steward: Steward = field.steward()
        self.before = picture(self.project, without=(".agent", ".git"))

    def live(self, task: str, **how: Any) -> tuple[int, list[str]]:
        order = self.field.order(task_id=task)
        code, said = self.steward.ask("live", order=order, patch=str(self.field.patch), **how)
        return code, said

    def sweep(self, **how: Any) -> Any:
        trees = self.field.order()["trees"]
        return self.steward.ask("sweep", project=str(self.project), trees=trees, **how)

    def kept(self, task: str) -> str:
        """What was kept of a task, wherever it is."""
        refs = git(self.project, "for-each-ref", "--format=%(refname)").split("\n")
        mine = [ref for ref in refs if ref.endswith(f"/{task}")]
        return git(self.project, "show", f"{mine[0]}:work") if mine else ""

    def check_nothing_is_left(self) -> None:
        assert {path.name for path in self.trees.iterdir()} <= {".bases", ".warm", ".trash"}
        assert not any((self.trees / ".trash").glob("*"))
        assert not any((self.project / ".git" / "worktrees").glob("*"))
        ours = {path.name for path in (self.project / ".git" / "acode").glob("*")}
        assert all(name.startswith("slot-") for name in ours), ours
        assert picture(self.project, without=(".agent", ".git")) == self.before

    def check_shared_trees(self) -> None:
        """What the next tasks get is exactly the commit."""
        for shelf in (self.trees / ".bases", self.trees / ".warm"):
            for tree in shelf.glob("[!.]*/tree"):
                assert {
                    path.relative_to(tree).as_posix(): path.read_bytes()
                    for path in tree.rglob("*")
                    if path.is_file()
                } == {
                    name: content if isinstance(content, bytes) else content.encode()
                    for name, content in FILES.items()
                }


@pytest.mark.req("027a-FR-070", "027a-NFR-007")
def test_a_kill_at_any_step_loses_no_work_and_leaves_nothing(field: Field) -> None:
    scene = Scene(field)
    # Each end is tried with a tree that everybody sees and with one that nobody else sees.
    end = "collect" if field.way in (WAYS["warm"], WAYS["overlay-root"]) else "close"
    for step in range(1, 300):
        task = f"task{step}"
        # A tree is ready for whoever comes, as it mostly is.
        if field.way.strategy == "warm" or step == 1:
            assert scene.live(f"before{step}") == (0, ["worked"])
        code, said = scene.live(task, die=step, end=end)
        code_of_sweep, (swept,) = scene.sweep()
        assert (code_of_sweep, swept["problems"]) == (0, [])
        if "worked" in said:
            assert scene.kept(task) == task, (step, swept)
        scene.check_nothing_is_left()
        scene.check_shared_trees()
        if code == 0:
            assert step > 15
            return
        assert code == KILLED
    pytest.fail("it never came to an end")


@pytest.mark.parametrize("field", ["plain", "overlay-somebody"], indirect=True)
def test_a_sweep_that_is_killed_is_made_good_by_the_next(field: Field) -> None:
    scene = Scene(field)
    worked = _steps_until_worked(scene)
    for step in range(1, 300):
        task = f"task{step}"
        code, said = scene.live(task, die=worked, end="close")
        assert (code, said) == (KILLED, ["worked"])
        code, _ = scene.sweep(die=step)
        code_of_next, (swept,) = scene.sweep()
        assert (code_of_next, swept["problems"]) == (0, [])
        assert scene.kept(task) == task, step
        scene.check_nothing_is_left()
        if code == 0:
            assert step > 5
            return
    pytest.fail("it never came to an end")


def _steps_until_worked(scene: Scene) -> int:
    """The first step after the task has worked."""
    for step in range(1, 300):
        code, said = scene.live(f"probe{step}", die=step, end="close")
        scene.sweep()
        if said:
            assert code == KILLED
            return step + 1
    pytest.fail("it never worked")


def test_what_lives_is_left_alone(field: Field) -> None:
    project = field.begin()
    steward, other = field.steward(), field.steward()
    order = field.order()
    path = steward.ask("open", name="it", order=order)["path"]
    steward.ask("run", name="it", command="echo x > y")
    code, (swept,) = other.ask("sweep", project=str(project), trees=order["trees"], idle=0)
    assert (code, swept) == (0, {"removed": 0, "saved": [], "problems": []})
    git(project, "worktree", "prune", "--expire=now")
    git(project, "gc", "--quiet", "--prune=now")
    assert steward.ask("run", name="it", command="git status --porcelain")["stdout"] == "?? y\n"
    assert steward.ask("collect", name="it", patch=str(field.patch), message="text")["files"] == 1
    steward.ask("close", name="it")
    assert not Path(path).exists()


def test_shared_checkouts_go_when_nobody_has_used_them_for_long(field: Field) -> None:
    scene = Scene(field)
    assert scene.live("first") == (0, ["worked"])
    scene.sweep()
    shelves = {"plain": 0, "warm": 0, "overlay": 1}
    assert len(list((scene.trees / ".bases").glob("[!.]*/tree"))) == shelves[field.way.strategy]
    scene.sweep(idle=0)
    assert list((scene.trees / ".bases").glob("[!w]*")) == []


def test_an_entry_whose_tree_was_removed_by_hand_goes(plain_field: Field) -> None:
    scene = Scene(plain_field)
    steps = _steps_until_worked(scene)
    scene.live("lost", die=steps, end="close")
    subdirectory = Path(plain_field.order()["trees"])
    git(scene.project, "worktree", "list")
    shutil.rmtree(subdirectory)
    assert git(scene.project, "worktree", "list").count("\n") == 1
    scene.sweep()
    assert git(scene.project, "worktree", "list").count("\n") == 0
