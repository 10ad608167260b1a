"""How files of a repository are written: line endings, modes, what is ignored.

Read once from the user's settings when a tree is made. Git that works on a tree sees these and
nothing else, so that no setting which a task wrote can make it run something.
"""

import hashlib
import os
import re
import shutil
from functools import lru_cache
from typing import NamedTuple

import msgspec

from acode.errors import WorkspaceFailed
from acode.workspace.files import read_bytes, read_text
from acode.workspace.git import run
from acode.workspace.repository import Repository

_TAKEN = frozenset(
    f"core.{name}"
    for name in (
        *("autocrlf", "eol", "safecrlf", "filemode", "symlinks", "ignorecase"),
        *("precomposeunicode", "sharedrepository", "excludesfile", "attributesfile"),
        *("bigfilethreshold", "compression", "loosecompression"),
    )
) | {"extensions.objectformat"}
_SECTION = re.compile(r"\s*\[\s*([\w.-]+)")
_FOR_MISSING_OBJECTS = ("remote.", "url.", "http.", "credential.", "core.sshcommand", "extensions.")
_LFS = (
    ("filter.lfs.clean", "git-lfs clean -- %f"),
    ("filter.lfs.smudge", "git-lfs smudge --skip -- %f"),
    ("filter.lfs.process", "git-lfs filter-process --skip"),
    ("filter.lfs.required", "true"),
)
"""Our own words, not the user's. Large files stay pointers until a task asks for them."""


class Conventions(msgspec.Struct, frozen=True):
    """What the user's settings say about files."""

    settings: tuple[tuple[str, str], ...] = ()
    exclude: str = ""
    attributes: str = ""

    @property
    def id_bytes(self) -> int:
        """How long the names of objects are."""
        return 32 if ("extensions.objectformat", "sha256") in self.settings else 20

    def config(self) -> str:
        """As a configuration file of git."""
        version = "1" if any(name.startswith("extensions.") for name, _ in self.settings) else "0"
        pairs = (("core.repositoryformatversion", version), *self.settings)
        return "".join(_entry(name, value) for name, value in pairs)


class Made(msgspec.Struct, frozen=True):
    """How a tree was made: from which commit, how its files were written, what to say about it."""

    commit: str
    conventions: Conventions
    notes: tuple[str, ...] = ()


_MADE = msgspec.json.Decoder(Made)


def read_made(path: str) -> Made:
    """How a tree was made, as it was written down."""
    try:
        return _MADE.decode(read_bytes(path))
    except (OSError, msgspec.MsgspecError) as error:
        raise WorkspaceFailed(f"{path} is damaged: {error}") from error


def read_conventions(repository: Repository) -> Conventions:
    """The conventions as they are now."""
    variables = {"GIT_DIR": repository.git_dir, "GIT_COMMON_DIR": repository.common}
    listed = run(("-C", repository.common, "config", "--list", "-z"), variables)
    pairs = [item.partition("\n") for item in listed.decode(errors="replace").split("\0") if item]
    settings = [(name, value if equals else "true") for name, equals, value in pairs]
    partial = any(name.endswith(".promisor") for name, _ in settings)
    taken = [(name, _path(name, value)) for name, value in settings if _is_taken(name, partial)]
    if shutil.which("git-lfs"):
        taken += (*_LFS, ("lfs.storage", os.path.join(repository.common, "lfs")))
    info = os.path.join(repository.common, "info")
    return Conventions(
        tuple(taken),
        read_text(os.path.join(info, "exclude")),
        read_text(os.path.join(info, "attributes")),
    )


def signature(repository: Repository) -> str:
    """Changes whenever the conventions may have changed; costs a few looks at files."""
    common, home = repository.common, os.path.expanduser("~")
    settings = (
        f"{common}/config",
        f"{home}/.gitconfig",
        f"{os.environ.get('XDG_CONFIG_HOME', f'{home}/.config')}/git/config",
        "/etc/gitconfig",
    )
    info = (f"{common}/info/exclude", f"{common}/info/attributes")
    return _digest(common, tuple(map(_seen, settings)), tuple(map(_seen, info)))


class _Seen(NamedTuple):
    """A file and what tells its versions apart; git and editors replace files as a whole."""

    path: str
    version: tuple[int, ...] = ()


def _seen(path: str) -> _Seen:
    try:
        now = os.stat(path)
    except OSError:
        return _Seen(path)
    return _Seen(path, (now.st_dev, now.st_ino, now.st_size, now.st_mtime_ns, now.st_ctime_ns))


@lru_cache(maxsize=4)
def _digest(common: str, settings: tuple[_Seen, ...], info: tuple[_Seen, ...]) -> str:
    """Read only if one of them has changed, which is hardly ever."""
    about_files = (_about_files(read_text(file.path)) for file in settings)
    texts = (common, *about_files, *(read_text(file.path) for file in info))
    return hashlib.blake2b(os.fsencode("\0".join(texts)), digest_size=6).hexdigest()


def _about_files(text: str) -> str:
    """The sections that matter here; others change with every branch that is made or pushed."""
    kept, matters = [], False
    for line in text.splitlines():
        section = _SECTION.match(line)
        if section:
            matters = section[1].lower() in ("core", "extensions", "include", "includeif")
        if matters:
            kept.append(line)
    return "\n".join(kept)


def _is_taken(name: str, partial: bool) -> bool:
    if name in _TAKEN:
        return True
    # Objects that are not here yet have to be fetched, and that needs to know from where.
    return partial and name.startswith(_FOR_MISSING_OBJECTS) and name != "extensions.worktreeconfig"


def _path(name: str, value: str) -> str:
    return os.path.expanduser(value) if name.endswith("file") else value


def _entry(name: str, value: str) -> str:
    section, _, rest = name.partition(".")
    middle, _, key = rest.rpartition(".")
    quoted = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    inner = middle.replace("\\", "\\\\").replace('"', '\\"')
    title = f'{section} "{inner}"' if middle else section
    return f'[{title}]\n\t{key} = "{quoted}"\n'
