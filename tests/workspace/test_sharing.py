"""Trees beside each other and one after the other: nobody sees anything of anybody else."""

import os
import random
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from tests.workspace.conftest import FILES, WAYS, Desk, Field
from tests.workspace.kit import Steward, git, picture

pytestmark = pytest.mark.needs("git")


@pytest.mark.req("027a-FR-031", "027a-FR-032")
def test_eight_at_once_edit_the_same_file(field: Field) -> None:
    project = field.begin()
    before = picture(project, without=(".agent", ".git"))

    def work(number: int) -> None:
        desk = Desk(field, task_id=f"task{number}", trees=str(trees / f"worker{number}"))
        desk.run(f"echo {number} >> src/one.txt; echo {number} > same; rm README.md")
        assert desk.run("cat same src/one.txt") == f"{number}\none\n{number}\n"
        desk.collect(f"by {number}")
        desk.close()

    trees = project / ".agent" / "worktrees"
    with ThreadPoolExecutor(8) as crowd:
        list(crowd.map(work, range(8)))
    for number in range(8):
        assert git(project, "show", f"acode/task{number}:src/one.txt") == f"one\n{number}"
        assert git(project, "show", f"acode/task{number}:same") == str(number)
    assert picture(project, without=(".agent", ".git")) == before
    assert not any((project / ".git" / "worktrees").iterdir())


def test_a_crowd_at_once_fails_for_nobody(field: Field) -> None:
    project = field.begin()
    steward = field.steward()
    order = field.order()
    crowd = 64 if field.way == WAYS["overlay-root"] else 24
    # A user who makes worktrees at the same time is not disturbed either.
    with ThreadPoolExecutor(1) as user:
        busy = user.submit(field.steward().ask, "shell", place=str(project), command=BUSY_USER)
        ended = steward.ask("crowd", order=order, patch=str(field.patch), size=crowd)
        done = busy.result()
    assert done["stderr"] == ""
    assert done["code"] == 0
    assert ended == [0] * crowd
    branches = git(project, "for-each-ref", "--format=%(refname:short)", "refs/heads/acode/")
    assert len(branches.split("\n")) == crowd
    assert {path.name for path in (project / ".agent" / "worktrees").iterdir()} <= {
        *(".bases", ".warm", ".trash"),
        order["worker_id"],
    }


# Git reads other entries without a lock, and one that is removed just then ends it. That is so
# whoever removes it, and very rare; at the second try it must be over.
BUSY_USER = """
set -e
twice() { "$@" 2> /dev/null || "$@"; }
for number in 1 2 3 4 5 6 7 8 9; do
    twice git worktree add -q --detach ../own$number
    twice git worktree remove ../own$number
    twice git worktree prune
done
"""


@pytest.mark.parametrize("field", ["warm", "overlay-root"], indirect=True)
def test_a_change_at_once_and_of_the_same_size_is_seen(field: Field) -> None:
    """Git tells changes by size and whole seconds; a task may begin within the same second."""
    project = field.begin({"file": "0000\n"})
    for number in range(1, 5):
        desk = Desk(field, task_id=f"task{number}")
        text = f"{number}" * 4
        desk.run(f"printf '{text}\\n' | dd of=file conv=notrunc status=none")
        assert desk.run("git status --porcelain") == " M file\n"
        assert desk.collect("text")["files"] == 1
        assert git(project, "show", f"acode/task{number}:file") == text
        desk.close()


MARK = f'{sys.executable} -c \'import os, sys; os.setxattr(sys.argv[1], "user.note", b"x")\''
# Ways to leave a message for whoever gets the tree next.
MESSAGES = [
    "echo {n} > untracked",
    "mkdir -p build/deep; echo {n} > build/deep/ignored",
    "echo {n} > x.ignored; chmod 400 x.ignored",
    "git init -q nested; echo {n} > nested/file",
    "echo {n} >> src/one.txt; git add -A; git commit -qm {n}",
    "chmod 777 src/two.txt",
    "chmod 700 deep/er",
    "touch -d @1000000000 README.md",
    "{mark} README.md",
    "{mark} src",
    "rm -rf deep; ln -s /tmp deep",
    "rm -rf src; echo {n} > src",
    "rm README.md; mkdir README.md; echo {n} > README.md/file",
    "mkdir empty{n}; mkdir -p deep/er/still/empty",
    "mkdir shut; echo {n} > shut/file; chmod 000 shut",
    "cp README.md copy; mv copy README.md",
    "git stash list; echo {n} > src/two.txt; git update-index --assume-unchanged src/two.txt",
    "printf 'src/*\\n' > .gitignore; echo {n} > src/hidden",
    "printf '* text eol=crlf\\n' > .gitattributes; rm src/two.txt; git checkout -q src/two.txt",
    "ln README.md /tmp/acode-link-{n}-$$; rm -f /tmp/acode-link-{n}-$$",
    "mkfifo pipe; mv binary moved; git rm -q --cached moved 2>/dev/null; true",
    "rm -rf .git; git init -q .; echo {n} > note",
    'git config core.bare false; git tag -f t{n}; echo {n} > "$(git rev-parse --git-dir)/note"',
    'printf {n} | dd of="$(git rev-parse --git-dir)/index" conv=notrunc status=none',
    "true",
]


HAND_OUTS = {"warm": 400, "overlay": 200, "plain": 200}
"""A thousand over all ways, of which overlays are two; most where trees are used again."""


def test_nothing_of_one_task_is_seen_by_the_next(field: Field) -> None:
    """The first look at each tree must be the same as at the very first."""
    field.begin()
    steward = field.steward()
    chance = random.Random(4)
    first: Any = None
    reused = set()
    for number in range(HAND_OUTS[field.way.strategy]):
        name = f"task{number}"
        opened = steward.ask("open", name=name, order=field.order(task_id=name))
        reused.add(os.stat(opened["path"]).st_ino)
        seen = steward.ask("look", name=name)
        assert len(seen) > len(FILES)
        first = first or seen
        assert seen == first, number
        for message in chance.sample(MESSAGES, chance.choice((1, 1, 1, 3))):
            steward.ask("run", name=name, command=message.format(n=number, mark=MARK))
        if number % 3:
            steward.ask("collect", name=name, patch=str(field.patch), message="text")
        steward.ask("close", name=name)
    if field.way.strategy == "warm":
        assert len(reused) < 300, "trees are not handed out again"


@pytest.mark.parametrize("field", ["warm"], indirect=True)
def test_a_ready_tree_is_brought_to_another_commit(field: Field) -> None:
    project = field.begin()
    desk = Desk(field)
    inode = os.stat(desk.path).st_ino
    desk.run("echo junk > junk")
    desk.close()
    (project / "src" / "one.txt").write_text("second\n")
    (project / "added").write_text("added\n")
    git(project, "rm", "-q", "README.md")
    git(project, "add", "-A", ":!.agent")
    git(project, "commit", "-qm", "second")
    other = Desk(field, task_id="other")
    assert os.stat(other.path).st_ino == inode
    assert other.run("cat src/one.txt added; git status --porcelain --ignored") == "second\nadded\n"
    assert not (other.path / "README.md").exists()
    assert not (other.path / "junk").exists()
    other.run("echo more >> added")
    assert other.collect("text")["files"] == 1
    other.close()
    assert git(project, "diff", "--name-only", "HEAD", "acode/other") == "added"


@pytest.mark.parametrize("field", ["warm"], indirect=True)
@pytest.mark.parametrize("damage", ["index", "made", "tree"])
def test_a_damaged_tree_is_replaced_by_a_new_one(field: Field, damage: str) -> None:
    project = field.begin()
    Desk(field).close()
    (ready,) = (project / ".agent" / "worktrees" / ".warm").iterdir()
    git(project, "commit", "-q", "--allow-empty", "-m", "second")
    if damage == "tree":
        (ready / "tree").rename(ready / "gone")
    else:
        (ready / damage).write_bytes(b"damaged")
    desk = Desk(field, task_id="other")
    assert desk.run("cat src/one.txt; git status --porcelain") == "one\n"
    assert desk.collect("text")["files"] == 0
    desk.close()


@pytest.mark.parametrize("field", ["warm"], indirect=True)
def test_no_more_trees_are_kept_than_were_asked_for(field: Field) -> None:
    project = field.begin()
    stewards = [field.steward() for _ in range(3)]
    for number, steward in enumerate(stewards):
        steward.ask("open", name="it", order=field.order(task_id=f"t{number}", warm=1))
    for steward in stewards:
        steward.ask("close", name="it")
    assert len(list((project / ".agent" / "worktrees" / ".warm").iterdir())) == 1


@pytest.mark.parametrize("field", ["warm"], indirect=True)
def test_a_tree_that_something_may_still_write_to_is_not_handed_out_again(field: Field) -> None:
    project = field.begin()
    Desk(field).close(reuse=False)
    assert not (project / ".agent" / "worktrees" / ".warm").exists()


@pytest.mark.parametrize("field", ["overlay-root"], indirect=True)
def test_one_checkout_serves_everybody(field: Field) -> None:
    project = field.begin()
    desks = [Desk(field, task_id=f"task{number}") for number in range(3)]
    bases = list((project / ".agent" / "worktrees" / ".bases").glob("[!.w]*/tree"))
    assert len(bases) == 1
    base = bases[0]
    before = picture(base, without=())
    for desk in desks:
        desk.run("rm -r src; echo changed > README.md; mv deep moved; chmod 600 binary")
        # Nobody else sees the mount.
        assert not (desk.path / "README.md").exists()
        desk.close()
    assert picture(base, without=()) == before
    assert {name for name in before if before[name][0] != "directory"} == set(FILES)


# Whatever a task may do to names, in any order.
CHANGES = [
    *(message for message in MESSAGES if "chmod 000" not in message),
    "mv src moved; mkdir src; echo {n} > src/new",
    "mv deep/er deep/renamed",
    "mv deep/er/still/file up; rm -r deep/er",
    "rm -rf deep; mkdir -p deep/er/still; echo {n} > deep/er/still/other",
    "rm -rf src; git checkout -q -- src",
    "rm src/one.txt; ln -s two.txt src/one.txt",
    "mv README.md src/one.txt; git checkout -q README.md",
    "rm -rf src; mkdir -p src/one.txt; echo {n} > src/one.txt/inner",
    "echo 'src/two.txt\n*.new' > .gitignore; echo {n} > a.new; echo {n} >> src/two.txt",
    "git mv src other; git reset -q --hard; echo {n} > src/x",
    "mkdir -p a/b/c; echo {n} > a/b/c/d; echo 'c/' > a/b/.gitignore",
    "mkfifo pipe{n} src/pipe{n}; rm binary; mkfifo binary",
]


@pytest.mark.parametrize("field", ["overlay-root", "overlay-somebody"], indirect=True)
def test_the_layer_tells_the_same_as_a_look_at_everything(field: Field) -> None:
    field.begin()
    steward = field.steward()
    chance = random.Random(7)
    ways = set()
    for number in range(60):
        name = f"task{number}"
        steward.ask("open", name=name, order=field.order(task_id=name))
        changes = chance.sample(CHANGES, chance.choice((1, 2, 5)))
        for change in changes:
            steward.ask("run", name=name, command=change.format(n=number, mark="true"))
        told, looked, way = steward.ask("trees", name=name)
        assert told == looked, changes
        ways.add(way)
        steward.ask("close", name=name)
    assert "told" in ways


def test_without_a_word_the_best_way_is_taken(field: Field) -> None:
    field.begin()
    assert Desk(field, strategy="auto").opened["strategy"] == "overlay"


@pytest.mark.parametrize("field", ["overlay-somebody"], indirect=True)
def test_where_nothing_can_be_mounted_ready_trees_are_used(field: Field) -> None:
    project = field.begin()
    desk = Desk(field)
    desk.close()
    field.end()
    folder = project / ".agent" / "worktrees" / ".bases"
    (said,) = folder.glob("works-*-True")
    said.rename(str(said).replace("-True", "-False"))
    other = Desk(field, task_id="other", strategy="auto")
    assert (other.opened["strategy"], other.opened["notes"]) == ("warm", [])
    third = Desk(field, task_id="third", strategy="overlay", warm=0)
    assert third.opened["strategy"] == "plain"
    assert third.opened["notes"] == ["overlay mounts do not work here: ready trees are used"]
    for each in (other, third):
        each.close()


def test_a_steward_is_told_in_words(plain_field: Field) -> None:
    plain_field.begin()
    steward: Steward = plain_field.steward()
    blocked = plain_field.project / ".agent"
    blocked.write_text("a file where a directory should be")
    with pytest.raises(Exception, match="the workspace cannot be made") as refused:
        steward.ask("open", name="it", order=plain_field.order())
    assert getattr(refused.value, "code", "") == "WORKSPACE-001"
