"""What is known about one workspace, written down before any of it is made."""

import os

import msgspec

from acode.workspace.base import Order
from acode.workspace.conventions import read_made
from acode.workspace.entry import Entry
from acode.workspace.files import read_bytes, read_text, write_bytes
from acode.workspace.removal import discard
from acode.workspace.repository import Repository
from acode.workspace.treegit import TreeGit

FOLDER = ".state"
DRAFT = ".new-"


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that somebody needs to save and remove a workspace that they did not make."""

    order: Order
    strategy: str
    place: str
    repository: Repository
    entry: str
    base: str
    key: str
    """Names the commit and the conventions together: trees of one key are alike."""


class State:
    """The directory of one workspace's record, beside the tree and out of the task's reach."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.directory = directory_of(record.order.trees, os.path.basename(record.place))
        self.entry = Entry(
            common=record.repository.common,
            name=record.entry,
            worker_id=record.order.worker_id,
            owner=record.order.owner,
        )

    @property
    def base_dir(self) -> str:
        """What all workers share."""
        return os.path.dirname(self.record.order.trees)

    @property
    def tree(self) -> str:
        """The tree itself."""
        return self.record.place

    @property
    def kit(self) -> str:
        """What a workspace begins with, often made ahead and moved here whole."""
        return self.path("kit")

    @property
    def index(self) -> str:
        """The index as it was when the tree was handed out; the task has a copy."""
        return self.path("kit/index")

    @property
    def made(self) -> str:
        """How the tree was made."""
        return self.path("kit/made")

    @property
    def spare(self) -> str:
        """An entry that was begun ahead, if there was one: the task gets it."""
        return self.path("kit/entry")

    @property
    def upper(self) -> str:
        """The layer of an overlay that holds the changes."""
        return self.path("kit/upper")

    @property
    def work(self) -> str:
        """The room that the kernel needs beside that layer."""
        return self.path("kit/work")

    @property
    def copied(self) -> str:
        """What was brought along from the user's checkout, and is no change of the task's."""
        return self.path("copied")

    @property
    def holds_work(self) -> bool:
        """Whether the tree was handed out, and what it holds is not kept elsewhere yet."""
        return os.path.exists(self.path("opened")) and not os.path.exists(self.path("kept"))

    def mark_opened(self) -> None:
        """The tree is whole; from now on it may hold work."""
        write_bytes(self.path("opened"), b"")

    def mark_kept(self) -> None:
        """Nothing in the tree is needed any more; from now on it may be half gone."""
        write_bytes(self.path("kept"), b"")

    def path(self, name: str) -> str:
        """A file of ours about this workspace."""
        return f"{self.directory}/{name}"

    def git(self) -> TreeGit:
        """Git for the tree, made anew, with the conventions that it was made with."""
        git = TreeGit(self.path("git"), self.objects, self.tree)
        conventions = read_made(self.made).conventions
        git.prepare(conventions, also_ignored=read_text(self.copied))
        return git

    @property
    def objects(self) -> str:
        """Where the repository keeps its objects."""
        return f"{self.record.repository.common}/objects"

    def write(self) -> None:
        """Write the record down; from now on a crash leaves something that can be found."""
        # Its name says whose it is, because it may hold no record yet.
        name = f"{DRAFT}{self.entry.reason}:{self.entry.name}"
        draft = directory_of(self.record.order.trees, name)
        try:
            os.mkdir(draft)
        except FileNotFoundError:
            os.makedirs(draft)
        write_bytes(f"{draft}/record", msgspec.json.encode(self.record))
        os.rename(draft, self.directory)

    def remove(self) -> None:
        """Nothing is left to be done for this workspace: the record goes, at one stroke."""
        discard(self.directory, self.base_dir)


def directory_of(trees: str, name: str) -> str:
    """Where the record of a workspace is."""
    return f"{trees}/{FOLDER}/{name}"


def read_state(directory: str) -> State | None:
    """The state that a directory holds; None if it was never written."""
    try:
        return State(
            msgspec.json.decode(read_bytes(os.path.join(directory, "record")), type=Record)
        )
    except (FileNotFoundError, msgspec.MsgspecError):
        return None
