"""What is opened for which order, and what is refused."""

import os
from pathlib import Path

import pytest

from tests.workspace.conftest import FILES, Desk, Field
from tests.workspace.kit import TASK, Refused, git, make_repository, picture, write

POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 6\n"
pytestmark = pytest.mark.needs("git")


def test_without_a_repository_there_is_a_scratch_directory(plain_field: Field) -> None:
    plain_field.project.mkdir()
    desk = Desk(plain_field, kind="auto")
    assert desk.opened["strategy"] == "scratch"
    assert desk.opened["notes"] == [
        f"{plain_field.project} is in no git repository: a scratch directory is used"
    ]
    desk.run("echo x > y")
    assert desk.collect("text")["files"] == 0
    desk.close()
    desk.close()
    assert not desk.path.exists()


def test_without_a_commit_there_is_a_scratch_directory(plain_field: Field) -> None:
    plain_field.project.mkdir()
    git(plain_field.project, "init", "-q")
    desk = Desk(plain_field, kind="auto")
    assert desk.opened["strategy"] == "scratch"
    assert "has no commit yet" in desk.opened["notes"][0]
    desk.close()


@pytest.mark.parametrize("commits", [False, True])
def test_a_worktree_that_cannot_be_made_is_refused(plain_field: Field, commits: bool) -> None:
    if commits:
        plain_field.begin()
    else:
        plain_field.project.mkdir()
    with pytest.raises(
        Refused, match="no commit of" if commits else "no git repository"
    ) as refused:
        Desk(plain_field, base="no-such-thing" if commits else None)
    assert refused.value.code == "INVALID_TASK"
    assert refused.value.hint
    assert not (plain_field.project / ".agent").exists()


@pytest.mark.parametrize("word", ["--help", "-h", "HEAD:README.md", "", "main..main", "no such"])
def test_a_base_that_is_no_commit_is_refused(plain_field: Field, word: str) -> None:
    plain_field.begin()
    with pytest.raises(Refused, match="is no commit of") as refused:
        Desk(plain_field, base=word)
    assert refused.value.code == "INVALID_TASK"


def test_the_project_itself_is_left_as_the_task_leaves_it(plain_field: Field) -> None:
    project = plain_field.begin()
    desk = Desk(plain_field, kind="project")
    assert desk.path == project
    desk.run("echo x > made")
    assert desk.collect("text")["branch"] is None
    desk.close()
    assert (project / "made").read_text() == "x\n"


@pytest.mark.req("027a-FR-035", "027a-FR-036")
@pytest.mark.parametrize("kind", ["worktree", "scratch"])
def test_a_tree_that_is_to_be_kept_stays_where_everybody_sees_it(field: Field, kind: str) -> None:
    project = field.begin()
    desk = Desk(field, keep=True, kind=kind)
    desk.run("echo x > made")
    desk.collect("text")
    desk.close()
    assert (desk.path / "made").read_text() == "x\n"
    if kind == "worktree":
        assert git(desk.path, "status", "--porcelain") == "?? made"
    again = Desk(field, keep=True, kind=kind, number=2)
    assert again.path == desk.path.with_name(f"{TASK}-2")
    again.close()
    field.end()
    # It is the user's now, with all the usual ways to get rid of it.
    if kind == "worktree":
        git(project, "worktree", "remove", "--force", str(desk.path))
        assert not desk.path.exists()


def test_ignored_files_come_along(field: Field) -> None:
    field.begin()
    write(
        field.project,
        {
            ".env": "secret\n",
            ".gitignore": "*.ignored\nnode_modules\n.env\n",
            "node_modules/a/b.js": "b\n",
            "packages/x/node_modules/c.js": "c\n",
            "other.ignored": "not asked for\n",
            "src/one.txt": "changed by the user, not committed\n",
            "not-ignored": "brought along nevertheless\n",
        },
    )
    (field.project / "node_modules" / "link").symlink_to("a")
    (field.project / "node_modules" / "a" / "b.js").chmod(0o755)
    field.give_away()
    patterns = [".env", "**/node_modules", "missing", "src", "not-ignored", "../*", "/etc/passwd"]
    patterns += [".git", ".agent", ".", "*/../.."]
    desk = Desk(field, copy_ignored=patterns)
    assert desk.run("cat .env node_modules/link/b.js packages/x/node_modules/c.js src/one.txt") == (
        "secret\nb\nc\none\n"
    )
    assert desk.run("readlink node_modules/link; test -x node_modules/a/b.js") == "a\n"
    expected = ".env .git .gitignore README.md binary deep node_modules not-ignored packages src"
    assert set(desk.run("ls -A").split()) == set(expected.split())
    # They are the user's, not the task's: none of them is a change.
    assert desk.collect("text")["files"] == 0
    desk.close()
    assert (field.project / "node_modules" / "a" / "b.js").exists()


def test_a_file_in_the_repository_names_what_comes_along(field: Field) -> None:
    field.begin()
    include = "# what agents need\n*.ignored\n!not.ignored\nbuild/keep/\nREADME.md\nfresh\n"
    write(
        field.project,
        {
            ".worktreeinclude": include,
            "a.ignored": "a\n",
            "src/b.ignored": "b\n",
            "not.ignored": "no\n",
            "build/keep/out": "out\n",
            "build/drop": "no\n",
            "fresh": "neither committed nor ignored\n",
        },
    )
    field.give_away()
    desk = Desk(field)
    assert desk.run("cat a.ignored src/b.ignored build/keep/out") == "a\nb\nout\n"
    assert desk.run("ls -d not.ignored build/drop fresh 2>/dev/null || true") == ""
    assert desk.collect("text")["files"] == 0
    desk.close()


def test_nothing_comes_along_through_a_link(plain_field: Field) -> None:
    project = plain_field.begin()
    outside = plain_field.home / "outside"
    write(outside, {"secret": "s\n"})
    (project / "way").symlink_to(outside)
    desk = Desk(plain_field, copy_ignored=["way/secret", "way"])
    assert desk.run("readlink way") == f"{outside}\n"
    desk.close()
    assert (outside / "secret").exists()


def test_submodules_and_filters_are_told_of(field: Field) -> None:
    inner = make_repository(field.home / "inner", {"file": "inner\n"})
    project = make_repository(field.project, {"a.bin": POINTER, "b": "b\n"})
    write(project, {".gitattributes": "*.bin filter=lfs diff=lfs\nb filter=git-crypt\n"})
    git(project, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner), "sub")
    git(project, "add", "-A")
    git(project, "commit", "-qm", "second")
    field.give_away()
    desk = Desk(field)
    assert desk.opened["notes"] == [
        "submodules are not checked out: sub",
        "large files (LFS) are pointers until the task runs git lfs pull",
        "filters are not run on files: git-crypt",
    ]
    assert desk.run("cat a.bin; ls sub") == POINTER
    assert desk.collect("text")["files"] == 0
    desk.run(
        "GIT_CONFIG_COUNT=2 GIT_CONFIG_KEY_0=protocol.file.allow GIT_CONFIG_VALUE_0=always "
        "GIT_CONFIG_KEY_1=safe.directory GIT_CONFIG_VALUE_1='*' "
        "git submodule update --init -q && cd sub && echo x > y && git add y && git commit -qm y"
    )
    desk.run("echo 'not in a commit' > sub/z")
    kept = desk.collect("text")
    desk.close()
    assert kept["files"] == 1
    assert git(project, "diff", "--name-only", "HEAD", kept["branch"]) == "sub"
    assert not desk.path.exists()


@pytest.mark.needs("git-lfs")
def test_large_files_become_pointers_again(field: Field) -> None:
    project = make_repository(field.project, {".gitattributes": "*.bin filter=lfs -text\n"})
    for verb in ("clean -- %f", "smudge -- %f"):
        git(project, "config", f"filter.lfs.{verb.split()[0]}", f"git-lfs {verb}")
    write(project, {"a.bin": "large\n", "b.bin": "other\n"})
    git(project, "add", "-A")
    git(project, "commit", "-qm", "second")
    field.give_away()
    desk = Desk(field)
    assert desk.run("cat a.bin").startswith("version https://git-lfs.github.com/spec/v1\n")
    desk.run("git lfs pull && cat a.bin b.bin && echo changed > b.bin && echo new > c.bin")
    kept = desk.collect("text")
    desk.close()
    # What was only fetched is no change, and what was changed is a pointer to something kept.
    assert git(project, "diff", "--name-only", "HEAD", kept["branch"]) == "b.bin\nc.bin"
    pointer = git(project, "cat-file", "blob", f"{kept['branch']}:b.bin")
    digest = pointer.split("oid sha256:")[1].split()[0]
    assert list((project / ".git" / "lfs" / "objects").rglob(digest))


@pytest.mark.parametrize("form", ["sha256", "linked", "partial", "shallow", "separate"])
def test_repositories_of_every_form(field: Field, form: str) -> None:
    origin = field.home / "origin"
    if form == "sha256":
        origin.mkdir()
        git(origin, "init", "-q", "--object-format=sha256", "-b", "main")
        write(origin, FILES)
        git(origin, "add", "-A")
        git(origin, "commit", "-qm", "first")
    else:
        make_repository(origin, FILES)
        git(origin, "commit", "-q", "--allow-empty", "-m", "second")
    project = str(field.project)
    if form == "linked":
        git(origin, "worktree", "add", "-q", "--detach", project, "HEAD~1")
    elif form == "partial":
        git(origin, "config", "uploadpack.allowfilter", "true")
        git(origin, "config", "uploadpack.allowanysha1inwant", "true")
        url = f"file://{origin}"
        git(field.home, "clone", "-qn", "--filter=blob:none", url, project)
    elif form == "shallow":
        git(field.home, "clone", "-q", "--depth=1", f"file://{origin}", project)
    elif form == "separate":
        other = str(field.home / "elsewhere.git")
        git(field.home, "clone", "-q", "--separate-git-dir", other, str(origin), project)
    else:
        git(field.home, "clone", "-q", str(origin), project)
    field.give_away()
    before = picture(field.project, without=(".agent", ".git"))
    desk = Desk(field)
    assert desk.run("cat README.md; git log -1 --format=%H").split() == [
        "hello",
        git(field.project, "rev-parse", "HEAD"),
    ]
    desk.run("echo x > new; git add new; git commit -qm own; rm README.md")
    kept = desk.collect("text")
    desk.close()
    assert kept["files"] == 2
    assert git(field.project, "log", "-2", "--format=%s", kept["branch"]) == "text\nown"
    assert picture(field.project, without=(".agent", ".git")) == before


def test_what_a_confined_task_may_write_holds_neither_hooks_nor_settings(field: Field) -> None:
    project = field.begin()
    desk = Desk(field)
    common = project / ".git"
    tree, entry, *shared = (Path(path) for path in desk.opened["writable"])
    assert tree == desk.path
    assert entry.parent == common / "worktrees"
    assert [path.name for path in shared] == ["objects", "refs", "logs", "lfs"]
    assert {path.parent for path in shared} == {common}
    # Large files have a place of their own, if there are any.
    assert all(path.is_dir() for path in (tree, entry, *shared[:-1]))
    assert os.path.samefile(desk.run("git rev-parse --git-dir").strip(), entry)
    desk.close()


@pytest.mark.needs("root")
@pytest.mark.parametrize("field", ["plain", "warm", "overlay-root"], indirect=True)
def test_a_full_disk_is_named_and_nothing_is_left_on_it(field: Field) -> None:
    project = field.begin({"large": os.urandom(2_000_000)})
    small = field.home / "small"
    small.mkdir()
    steward = field.steward(within=("unshare", "--mount"))
    mounted = steward.ask("shell", place="/", command=f"mount -t tmpfs -o size=1m none {small}")
    assert mounted["code"] == 0, mounted
    with pytest.raises(Refused, match="no room") as refused:
        steward.ask("open", name="it", order=field.order(trees=f"{small}/trees/worker"))
    assert refused.value.code == "QUEUE-003"
    left = steward.ask("shell", place="/", command=f"find {small} -name large -o -name record")
    assert left["stdout"] == ""
    assert git(project, "worktree", "list").count("\n") == 0


def test_where_refs_are_in_tables_git_makes_the_entry(field: Field) -> None:
    """This git knows no such tables; their directory alone tells us to leave it to git."""
    project = field.begin()
    (project / ".git" / "reftable").mkdir()
    field.give_away()
    desk = Desk(field)
    assert desk.run("git status --porcelain; cat README.md") == "hello\n"
    assert "locked" in git(project, "worktree", "list", "--porcelain")
    desk.run("echo x > y; git add y; git commit -qm own")
    kept = desk.collect("text")
    desk.close()
    assert git(project, "log", "-1", "--format=%s", kept["branch"]) == "own"
    assert git(project, "worktree", "list").count("\n") == 0
