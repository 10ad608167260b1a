"""What becomes of a tree's changes: a patch, a commit on a branch, a saved ref."""

import os
from collections.abc import Iterator

import msgspec

from acode.errors import WorkspaceFailed
from acode.workspace.base import Collected, CommitText
from acode.workspace.git import GitFailed, run
from acode.workspace.repository import Repository, find_repository, is_commit_id
from acode.workspace.snapshot import Snapshot

SAVED = "refs/acode/saved/"
BRANCHES = "refs/heads/acode/"


class Work(msgspec.Struct, frozen=True):
    """What was done in a tree, and on top of what."""

    task_id: str
    base: str
    head: str
    """The last commit that the task made itself, or the base."""
    snapshot: Snapshot


def changed_files(repository: Repository, work: Work) -> int:
    """How many files differ from the base."""
    words = ("diff-tree", "-r", "-z", "--name-only", "--no-renames", work.base, work.snapshot.tree)
    return repository.run(*words).count("\0")


def write_patch(repository: Repository, work: Work, path: str) -> None:
    """Everything that differs from the base, binary files too."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    draft = f"{path}.new"
    with open(draft, "wb") as file:
        run(
            (
                *("-C", repository.common, "-c", "core.bare=true", "diff-tree", "-p", "-M"),
                *("--binary", "--full-index", "--no-color", "--no-ext-diff", "--no-textconv"),
                *("--src-prefix=a/", "--dst-prefix=b/", work.base, work.snapshot.tree),
            ),
            repository.variables,
            stdout=file.fileno(),
        )
    os.replace(draft, path)


def commit(repository: Repository, work: Work, text: CommitText) -> str:
    """A commit of the tree on top of what the task committed itself."""
    if work.head != work.base and _tree_of(repository, work.head) == work.snapshot.tree:
        return work.head
    identity = [f"{key}={value}" for key, value in _identity(text).items()]
    settings = [word for setting in identity for word in ("-c", setting)]
    arguments = (*settings, "commit-tree", work.snapshot.tree, "-p", work.head)
    return repository.run(*arguments, stdin=text.message.encode())


def _identity(text: CommitText) -> dict[str, str]:
    name, email = (_one_line(part) or "acode" for part in (text.author, text.email))
    return {
        **{f"{who}.name": name for who in ("user", "author", "committer")},
        **{f"{who}.email": email for who in ("user", "author", "committer")},
    }


def _one_line(text: str) -> str:
    return "".join(letter for letter in text if letter.isprintable() and letter not in "<>").strip()


def put_on_branch(repository: Repository, task_id: str, commit_id: str) -> str:
    """Let a branch of the task's name point at a commit; the branch's short name."""
    used = set(_checked_out(repository))
    for name in (task_id, *(f"{task_id}-{number}" for number in range(2, 100))):
        # Moving a branch that somebody has checked out would make their checkout look changed.
        if f"{BRANCHES}{name}" in used:
            continue
        try:
            repository.run("update-ref", f"{BRANCHES}{name}", commit_id)
        except GitFailed as error:
            raise _in_the_way(repository, error) from error
        return f"acode/{name}"
    raise WorkspaceFailed(f"every branch for task {task_id} is checked out somewhere")


def _in_the_way(repository: Repository, error: GitFailed) -> WorkspaceFailed:
    if repository.commit_of("refs/heads/acode") is not None:
        return WorkspaceFailed(
            "the branch `acode` leaves no room for branches `acode/…`",
            hint="rename it: git branch -m acode another-name",
        )
    return error


def _checked_out(repository: Repository) -> Iterator[str]:
    """The branches that some worktree has checked out."""
    others = os.path.join(repository.common, "worktrees")
    names = os.listdir(others) if os.path.isdir(others) else []
    for place in (repository.common, *(os.path.join(others, name) for name in names)):
        line = head_line(place)
        if line.startswith("ref: "):
            yield line.removeprefix("ref: ")


def head_line(git_dir: str) -> str:
    """What a HEAD says. It may be a task's: whatever it is, nothing is followed or waited for."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
    try:
        descriptor = os.open(os.path.join(git_dir, "HEAD"), flags)
    except OSError:
        return ""
    try:
        return os.fsdecode(os.read(descriptor, 4096)).strip()
    except OSError:
        return ""
    finally:
        os.close(descriptor)


def head_of(repository: Repository, entry: str, base: str) -> str:
    """The task's last commit, if it goes on from the base; else the base."""
    line = head_line(entry)
    if line.startswith("ref: refs/heads/"):
        line = repository.commit_of(line.removeprefix("ref: ")) or ""
    if line == base or not is_commit_id(line):
        return base
    return line if repository.succeeds("merge-base", "--is-ancestor", base, line) else base


def _tree_of(repository: Repository, commit_id: str) -> str:
    return repository.run("rev-parse", "--verify", f"{commit_id}^{{tree}}")


def has_changes(repository: Repository, work: Work) -> bool:
    """Whether there is anything to keep: other files, or commits."""
    return work.head != work.base or _tree_of(repository, work.base) != work.snapshot.tree


def save(repository: Repository, work: Work, text: CommitText) -> Collected:
    """Keep work that goes to no branch."""
    commit_id = commit(repository, work, text)
    repository.run("update-ref", f"{SAVED}{work.task_id}", commit_id)
    return Collected(saved=f"{SAVED}{work.task_id}", commit=commit_id)


def publish(repository: Repository, work: Work, text: CommitText) -> Collected:
    """Keep work on a branch for the user."""
    commit_id = commit(repository, work, text)
    return Collected(branch=put_on_branch(repository, work.task_id, commit_id), commit=commit_id)


def restore(project_root: str, task_id: str) -> str:
    """Bring the saved work of a task back; the name of the branch."""
    repository = find_repository(project_root)
    saved = repository.commit_of(f"{SAVED}{task_id}") if repository else None
    if repository is None or saved is None:
        raise WorkspaceFailed(
            f"no work of task {task_id} was saved",
            hint="work is saved when an attempt changed files and did not succeed",
        )
    if repository.commit_of(f"{BRANCHES}{task_id}") in (None, saved):
        return put_on_branch(repository, task_id, saved)
    return put_on_branch(repository, f"{task_id}-saved", saved)


def forget_saved(project_root: str, task_id: str) -> None:
    """Drop the saved work of a task; git removes it for good when it collects garbage."""
    repository = find_repository(project_root)
    if repository is not None:
        repository.run("update-ref", "-d", f"{SAVED}{task_id}")
