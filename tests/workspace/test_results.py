"""What is kept of what a task did. Held by every strategy."""

from pathlib import Path

import pytest

from tests.workspace.conftest import FILES, Desk, Field
from tests.workspace.kit import TASK, git, make_repository, picture

pytestmark = pytest.mark.needs("git")
BRANCH = f"acode/{TASK}"


def tree_at(project: Path, commit: str) -> dict[str, str]:
    names = git(project, "ls-tree", "-r", "-z", "--name-only", commit).split("\0")
    return {name: git(project, "cat-file", "blob", f"{commit}:{name}") for name in names if name}


def applied(field: Field) -> dict[str, bytes]:
    """The files after applying the patch to a fresh clone."""
    clone = field.home / "clone"
    git(field.home, "clone", "-q", str(field.project), str(clone))
    git(clone, "apply", "--index", str(field.patch))
    return {
        path.relative_to(clone).as_posix(): path.read_bytes()
        for path in clone.rglob("*")
        if path.is_file() and ".git" not in path.relative_to(clone).parts
    }


@pytest.mark.req("027a-FR-033", "027a-FR-034")
def test_a_tree_holds_the_base_and_goes_when_it_is_closed(field: Field) -> None:
    project = field.begin()
    desk = Desk(field)
    assert desk.opened["strategy"] == field.way.strategy
    assert desk.opened["base"] == git(project, "rev-parse", "HEAD")
    assert desk.run("cat src/one.txt; git status --porcelain; git rev-parse HEAD").split() == [
        "one",
        desk.opened["base"],
    ]
    assert desk.collect("nothing done") == {
        "files": 0,
        "branch": None,
        "patch": None,
        "saved": None,
        "commit": None,
        "left_out": [],
    }
    desk.close()
    desk.close()
    assert not desk.path.exists()
    assert git(project, "worktree", "list").count("\n") == 0
    assert git(project, "for-each-ref", "refs/acode", "refs/heads/acode") == ""


def test_changes_become_a_commit_on_a_branch_and_a_patch(field: Field) -> None:
    project = field.begin()
    desk = Desk(field)
    desk.run("echo more >> src/one.txt; rm src/two.txt; printf '\\0\\1' > new; chmod +x README.md")
    desk.run("mkdir build; echo x > build/out; echo y > a.ignored")
    kept = desk.collect("Title\n\nbody")
    desk.close()
    assert kept["branch"] == BRANCH
    assert kept["files"] == 4
    assert git(project, "log", "-1", "--format=%an <%ae>%n%s%n%P", BRANCH).split("\n") == [
        "Somebody <somebody@example.org>",
        "Title",
        desk.opened["base"],
    ]
    assert git(project, "diff", "--name-status", "HEAD", BRANCH).split("\n") == [
        "M\tREADME.md",
        "A\tnew",
        "M\tsrc/one.txt",
        "D\tsrc/two.txt",
    ]
    files = applied(field)
    assert files["new"] == b"\0\1"
    assert files["src/one.txt"] == b"one\nmore\n"
    assert "src/two.txt" not in files
    assert git(project, "for-each-ref", "refs/acode") == ""


def test_work_of_a_failed_attempt_is_saved_and_can_be_restored(field: Field) -> None:
    project = field.begin()
    desk = Desk(field)
    desk.run("echo more >> src/one.txt")
    kept = desk.collect()
    desk.close()
    assert kept["branch"] is None
    assert kept["saved"] == f"refs/acode/saved/{TASK}"
    assert applied(field)["src/one.txt"] == b"one\nmore\n"
    assert git(project, "branch", "--list", "acode/*") == ""
    assert desk.steward.ask("restore", project=str(project), task=TASK) == BRANCH
    assert git(project, "show", f"{BRANCH}:src/one.txt") == "one\nmore"


def test_work_that_nobody_collected_is_saved_before_the_tree_goes(field: Field) -> None:
    project = field.begin()
    desk = Desk(field)
    desk.run("echo unsaved > note")
    desk.close()
    assert not desk.path.exists()
    assert git(project, "show", f"refs/acode/saved/{TASK}:note") == "unsaved"


def test_the_users_checkout_stays_as_it_is_to_the_byte(field: Field) -> None:
    project = field.begin()
    (project / "src" / "one.txt").write_text("dirty\n")
    (project / "staged").write_text("staged\n")
    git(project, "add", "staged")
    (project / "src" / "two.txt").write_text("stashed\n")
    git(project, "stash", "push", "-q", "src/two.txt")
    (project / "untracked").write_text("untracked\n")
    hook = project / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    for name in ("post-checkout", "pre-commit", "reference-transaction", "post-index-change"):
        hook.with_name(name).write_text(f"#!/bin/sh\ntouch {field.home}/hook-ran\n")
        hook.with_name(name).chmod(0o755)
    field.give_away()
    before = picture(project)
    desk = Desk(field)
    desk.run("echo more >> src/one.txt; touch new")
    desk.collect("text")
    desk.close()
    after = picture(project)
    # New objects and our own branch are all that may be different.
    ours = (
        ".git/worktrees",
        *(f".git/{name}heads/acode" for name in ("refs/", "logs/refs/")),
        ".git/objects/",
        ".git/acode",
    )
    assert {name: after[name] for name in after if not name.startswith(ours)} == {
        name: before[name] for name in before if not name.startswith(ours)
    }
    assert not (field.home / "hook-ran").exists()


def test_a_task_that_commits_keeps_its_commits(field: Field) -> None:
    project = field.begin()
    desk = Desk(field)
    desk.run("echo a > a; git add a; git commit -qm 'by the task'; echo b > b")
    desk.collect("the rest")
    desk.close()
    assert git(project, "log", "--format=%s", f"HEAD..{BRANCH}").split("\n") == [
        "the rest",
        "by the task",
    ]
    assert {"a", "b"} <= set(tree_at(project, BRANCH))


def test_a_task_that_committed_everything_is_taken_at_its_word(field: Field) -> None:
    project = field.begin()
    desk = Desk(field)
    desk.run("git switch -qc own; echo a > a; git add a; git commit -qm 'by the task'")
    kept = desk.collect("not used")
    desk.close()
    assert git(project, "log", "--format=%s", f"HEAD..{BRANCH}") == "by the task"
    assert kept["commit"] == git(project, "rev-parse", "own")


def test_a_task_that_goes_to_foreign_history_still_begins_at_its_base(field: Field) -> None:
    project = field.begin()
    desk = Desk(field)
    desk.run("git checkout -q --orphan other; git commit -qm orphan; echo a > a")
    desk.collect("text")
    desk.close()
    assert git(project, "log", "--format=%s", BRANCH).split("\n") == ["text", "first"]


def test_a_task_may_delete_everything(field: Field) -> None:
    project = field.begin()
    desk = Desk(field)
    desk.run("rm -rf ./* .git .gitignore")
    kept = desk.collect("all gone")
    desk.close()
    assert kept["files"] == len(FILES)
    assert tree_at(project, BRANCH) == {}
    assert applied(field) == {}


def test_a_task_may_hide_nothing_in_its_index(field: Field) -> None:
    project = field.begin()
    desk = Desk(field)
    desk.run("git update-index --assume-unchanged src/one.txt; echo x > src/one.txt")
    desk.run("git update-index --skip-worktree src/two.txt; rm src/two.txt")
    desk.run('touch "$(git rev-parse --git-dir)/index.lock"')
    desk.collect("text")
    desk.close()
    assert git(project, "diff", "--name-only", "HEAD", BRANCH) == "src/one.txt\nsrc/two.txt"


def test_nested_repositories_are_kept_as_plain_files(field: Field) -> None:
    project = field.begin()
    desk = Desk(field)
    desk.run("git init -q empty; echo 1 > empty/file; git init -q full; echo 2 > full/file")
    desk.run("cd full && git add . && git commit -qm inner && git init -q in && echo 3 > in/file")
    desk.collect("text")
    desk.close()
    kept = tree_at(project, BRANCH)
    assert [kept[name] for name in ("empty/file", "full/file", "full/in/file")] == ["1", "2", "3"]


def test_links_are_kept_as_links_and_never_followed(field: Field) -> None:
    project = field.begin()
    secret = field.home / "secret"
    secret.mkdir()
    (secret / "one.txt").write_text("secret\n")
    secret.chmod(0o755)
    desk = Desk(field)
    desk.run(f"rm -r src; ln -s {secret} src; ln -s /etc/passwd out; ln -s nowhere dangling")
    desk.collect("text")
    desk.close()
    listed = git(project, "ls-tree", "-r", BRANCH)
    assert [
        line.split()[0] for line in listed.split("\n") if line.split("\t")[1] in ("src", "out")
    ] == [
        "120000",
        "120000",
    ]
    assert "src/one.txt" not in tree_at(project, BRANCH)
    assert (secret / "one.txt").read_text() == "secret\n"


def test_read_only_and_shut_trees_are_kept_and_removed(field: Field) -> None:
    project = field.begin()
    desk = Desk(field)
    desk.run(
        "mkdir -p shut/in; echo a > shut/in/file; echo b > shut/unreadable; echo c >> src/one.txt"
    )
    desk.run("chmod 000 shut/unreadable shut/in; chmod 500 shut; chmod 000 src; chmod 500 .")
    desk.collect("text")
    desk.close()
    kept = tree_at(project, BRANCH)
    assert [kept[name] for name in ("shut/in/file", "shut/unreadable")] == ["a", "b"]
    assert kept["src/one.txt"] == "one\nc"
    assert not desk.path.exists()
    assert list((project / ".agent" / "worktrees" / ".trash").iterdir()) == []


def test_files_that_are_too_large_or_no_files_are_left_out_and_named(field: Field) -> None:
    project = field.begin()
    desk = Desk(field, max_file_bytes=1_000_000)
    desk.run(
        "truncate -s 2M large; truncate -s 10G huge; mkfifo pipe; rm README.md; mkfifo README.md"
    )
    desk.run("truncate -s 900K small")
    kept = desk.collect("text")
    desk.close()
    assert kept["left_out"] == ["README.md", "huge", "large"]
    assert len(tree_at(project, BRANCH)["small"]) == 900 * 1024


def test_one_file_that_git_refuses_costs_no_other(field: Field) -> None:
    project = field.begin()
    desk = Desk(field)
    desk.run(
        "echo '*.wide working-tree-encoding=UTF-16' > .gitattributes; echo x > a.wide; echo y > b"
    )
    kept = desk.collect("text")
    desk.close()
    assert kept["left_out"] == ["a.wide"]
    assert tree_at(project, BRANCH)["b"] == "y"


@pytest.mark.parametrize(
    "name",
    ["with spaces", "ünï→𝄞", "x" * 160, "comma,colon:back\\slash'quote\"", "new\nline"],
    ids=["spaces", "unicode", "long", "marks", "newline"],
)
def test_paths_of_every_kind(field: Field, name: str) -> None:
    field.project = field.home / name / name
    project = field.begin({f"{name}/{name}": "content\n"})
    desk = Desk(
        field, project_root=str(project), trees=str(project / ".agent" / "worktrees" / name)
    )
    desk.run("cat */* && echo changed >> */* && cp -r * copy")
    kept = desk.collect("text")
    desk.close()
    assert kept["files"] == 2
    assert tree_at(project, BRANCH)[f"copy/{name}"] == "content\nchanged"
    assert not desk.path.exists()


def test_a_project_below_the_top_level_works_in_the_same_place(field: Field) -> None:
    project = field.begin()
    (project / "new" / "part").mkdir(parents=True)
    field.give_away()
    desk = Desk(field, project_root=str(project / "deep" / "er"))
    assert desk.run("ls; echo x > here") == "still\n"
    desk.collect("text")
    desk.close()
    assert tree_at(project, BRANCH)["deep/er/here"] == "x"
    other = Desk(field, project_root=str(project / "new" / "part"), task_id="other")
    assert other.run("ls") == ""
    other.close()


def test_a_base_may_be_named_in_any_words(field: Field) -> None:
    project = field.begin()
    first = git(project, "rev-parse", "HEAD")
    git(project, "tag", "-am", "text", "v1")
    (project / "README.md").write_text("second\n")
    git(project, "commit", "-qam", "second")
    git(project, "pack-refs", "--all")
    field.give_away()
    for number, word in enumerate(("v1", "HEAD~1", first, first[:9], "main^")):
        desk = Desk(field, base=word, task_id=f"task{number}")
        assert desk.opened["base"] == first
        assert desk.run("cat README.md") == "hello\n"
        desk.close()
    desk = Desk(field)
    assert desk.run("cat README.md") == "second\n"
    desk.close()


def test_line_endings_are_written_as_the_user_has_set_them(field: Field) -> None:
    project = make_repository(field.project, {"text": "one\ntwo\n"})
    git(project, "config", "core.autocrlf", "true")
    field.give_away()
    desk = Desk(field)
    assert desk.run("cat text") == "one\r\ntwo\r\n"
    desk.run("printf 'three\\r\\n' >> text; printf 'new\\r\\n' > new")
    desk.collect("text")
    desk.close()
    assert tree_at(project, BRANCH) == {"text": "one\ntwo\nthree", "new": "new"}


def test_a_steward_that_has_worked_before_sees_new_settings(field: Field) -> None:
    project = make_repository(field.project, {"text": "one\n"})
    steward = field.steward()
    for number, setting in enumerate(("false", "true", "false")):
        git(project, "config", "core.autocrlf", setting)
        field.give_away()
        desk = Desk(field, steward=steward, task_id=f"task{number}")
        assert desk.run("cat text") == ("one\r\n" if setting == "true" else "one\n")
        desk.close()


def test_a_branch_that_somebody_looks_at_is_not_moved(field: Field) -> None:
    project = field.begin()
    for expected in (BRANCH, f"{BRANCH}-2"):
        desk = Desk(field)
        desk.run("date +%N > now")
        assert desk.collect("text")["branch"] == expected
        desk.close()
        git(project, "checkout", "-q", BRANCH)
        field.give_away()
    assert git(project, "status", "--porcelain", "--", ":!.agent") == ""
