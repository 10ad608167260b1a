"""The remote repository: fetching a commit that is missing here, pushing a branch of results.

The user's own settings of git say how to get there and who they are. Hooks stay off, nobody is
asked for anything, and nothing takes for ever.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager

from acode.errors import InvalidTask, WorkspaceFailed
from acode.workspace.git import GitFailed, GitTooSlow, attempt
from acode.workspace.repository import Repository, is_commit_id

ASK_SECONDS = 30.0
FETCH_SECONDS = 600.0
PUSH_SECONDS = 120.0

_NEVER_ASK = ("-c", "core.askPass=", "-c", "credential.interactive=false")


class RemoteUnreachable(WorkspaceFailed):
    """The remote repository does not answer, or does not let us in."""


def remote_of(repository: Repository, wanted: str | None = None) -> str | None:
    """The remote that is meant: the one named, else `origin`, else the only one."""
    _, output, _ = _ask(repository, "remote")
    names = output.decode(errors="replace").split("\n")[:-1]
    if wanted is not None:
        return wanted if wanted in names else None
    return "origin" if "origin" in names else names[0] if len(names) == 1 else None


def base_commit(repository: Repository, word: str, remote: str | None = None) -> str:
    """The commit that a user's word means, fetched if it is not here. Raises InvalidTask."""
    commit = repository.commit_of(word)
    if commit is not None:
        return commit
    source = remote_of(repository, remote)
    if source is None:
        raise InvalidTask(
            f"{word!r} is no commit of {repository.top}",
            hint="name a branch, a tag or a commit that is there; fetch it first if it is not",
        )
    commit = fetch_commit(repository, word, source)
    if commit is None:
        raise InvalidTask(
            f"{word!r} is no commit of {repository.top}, and its remote {source} has none either",
            hint=f"name a branch, a tag or a commit that is there, or push it to {source} first",
        )
    return commit


def fetch_commit(repository: Repository, word: str, remote: str) -> str | None:
    """The commit that a word means at the remote, and fetch it; None if there is none."""
    with _one_at_a_time(repository):
        if (found := repository.commit_of(word)) is not None:
            return found  # somebody else has fetched it meanwhile
        commit = word if is_commit_id(word) else _looked_up(repository, word, remote)
        if commit is None:
            return None
        return repository.commit_of(commit) or _fetched(repository, commit, remote)


def push_branch(repository: Repository, branch: str, remote: str) -> None:
    """Let the remote have a branch of ours. Raises in words for the user."""
    ref = f"refs/heads/{branch}"
    # Only a stale attempt of the same task can have left another commit there.
    words = ("push", "--quiet", "--porcelain", "--no-verify", "--force", remote, f"{ref}:{ref}")
    code, output, complaint = _ask(repository, *words, seconds=PUSH_SECONDS)
    if code != 0:
        raise GitFailed(f"git push {remote}: {_words(output + complaint, code)}")


def _looked_up(repository: Repository, word: str, remote: str) -> str | None:
    """What a name means at the remote: a branch, or a tag."""
    name = word.removeprefix(f"{remote}/").removeprefix("refs/heads/").removeprefix("refs/tags/")
    refs = (f"refs/heads/{name}", f"refs/tags/{name}^{{}}", f"refs/tags/{name}")
    code, output, complaint = _ask(repository, "ls-remote", "--quiet", remote, *refs)
    if code != 0:
        raise _unreachable(remote, complaint, code)
    lines = (line.split("\t") for line in output.decode(errors="replace").splitlines())
    found = {ref: commit for commit, ref in lines}
    return next((found[ref] for ref in refs if ref in found), None)


def _fetched(repository: Repository, commit: str, remote: str) -> str | None:
    words = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance")
    limits = ("--no-recurse-submodules", remote, commit)
    code, _, complaint = _ask(repository, *words, *limits, seconds=FETCH_SECONDS)
    if code != 0 and not _knows_no_such(complaint):
        raise _unreachable(remote, complaint, code)
    return repository.commit_of(commit)


def _knows_no_such(complaint: bytes) -> bool:
    """Whether the remote answered that it has no such commit, or gives it to nobody."""
    answers = (b"not our ref", b"unadvertised object", b"couldn't find remote ref")
    return any(answer in complaint for answer in answers)


def _unreachable(remote: str, complaint: bytes, code: int) -> RemoteUnreachable:
    return RemoteUnreachable(
        f"the remote {remote} cannot be asked: {_words(complaint, code)}",
        hint=f"try git fetch {remote} as the user that the pool runs as",
    )


def _words(complaint: bytes, code: int) -> str:
    lines = [line for line in complaint.decode(errors="replace").splitlines() if line.strip()]
    return " ".join(lines)[-500:] or f"exit code {code}"


def _ask(
    repository: Repository, *words: str, seconds: float = ASK_SECONDS
) -> tuple[int, bytes, bytes]:
    own = {"GIT_DIR": repository.common, "GIT_COMMON_DIR": repository.common}
    place = ("-C", repository.common, "-c", "core.bare=true")
    try:
        return attempt((*place, *_NEVER_ASK, *words), own, seconds=seconds)
    except GitTooSlow as error:
        raise RemoteUnreachable(f"git {words[0]}: {error}") from error


@contextmanager
def _one_at_a_time(repository: Repository) -> Iterator[None]:
    """Many attempts may miss the same commit; one of them fetches it."""
    place = os.path.join(repository.common, "acode")
    os.makedirs(place, exist_ok=True)
    with open(os.path.join(place, "fetch.lock"), "ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
