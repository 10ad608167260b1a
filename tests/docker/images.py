"""Small images made from what this machine has; nothing is fetched from anywhere."""

import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterable
from functools import cache
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlencode

from acode.runner.container.api import Api, _Connection
from acode.runner.container.images import has_image

BUSYBOX = "localhost/acode-test/busybox:latest"
GIT = "localhost/acode-test/git:latest"
APP = "localhost/acode-test/app:latest"
"""One program, and nothing else: no shell, no libraries."""
VOLUME = "localhost/acode-test/volume:latest"
"""One that wants a volume of its own."""
ALL = (BUSYBOX, GIT, APP, VOLUME)

_APPLETS = [
    "sh", "cat", "echo", "env", "false", "head", "id", "kill", "ls", "mkdir", "mkfifo", "nc",
    "ps", "rm", "setsid", "sleep", "tail", "tee", "test", "touch", "true", "tr", "wc", "wget",
    "yes", "dd", "date", "stat", "hostname", "nproc", "chmod", "sync", "grep", "printf", "seq",
    "ulimit", "ping",
]  # fmt: skip
_PROGRAMS = [
    "dash", "bash", "git", "cat", "echo", "env", "id", "ls", "mkdir", "rm", "setsid", "sleep",
    "true", "touch", "head", "date", "yes",
]  # fmt: skip


def ensure(api: Api, *names: str) -> None:
    """Import those that the engine does not have yet."""
    for name in names:
        if not has_image(api, name):
            import_image(api, name, archive(name))


def import_image(api: Api, name: str, archived: bytes) -> None:
    repository, _, tag = name.partition(":")
    changes = ["ENV PATH=/bin:/usr/bin", *(["VOLUME /data"] if name == VOLUME else [])]
    query = {"fromSrc": "-", "repo": repository, "tag": tag, "changes": changes}
    connection: HTTPConnection = _Connection(api.path, 120)
    connection.request("POST", f"/images/create?{urlencode(query, doseq=True)}", archived)
    answer = connection.getresponse()
    said = answer.read()
    connection.close()
    assert answer.status == 200, said
    assert b'"error"' not in said, said


@cache
def archive(name: str) -> bytes:
    """The files of an image."""
    return {BUSYBOX: _busybox, VOLUME: _busybox, GIT: _git, APP: _app}[name]()


def _busybox() -> bytes:
    with _Archive() as made:
        made.file("/bin/busybox", _located("busybox"))
        for applet in _APPLETS:
            made.link(f"/bin/{applet}", "busybox")
    return made.bytes


def _app() -> bytes:
    source = Path(__file__).with_name("app.c")
    with TemporaryDirectory() as directory:
        program = f"{directory}/app"
        subprocess.run(["gcc", "-static", "-Os", "-s", "-o", program, source], check=True)
        with _Archive() as made:
            made.file("/bin/app", program)
    return made.bytes


def _git() -> bytes:
    """A small Debian: programs of this machine with the libraries that they load."""
    programs = [_located(name) for name in _PROGRAMS]
    core = subprocess.run(["git", "--exec-path"], capture_output=True, check=True, text=True)
    with _Archive() as made:
        for library in sorted(_libraries(programs)):
            made.file(library, library)
        for program in programs:
            made.file(f"/usr/bin/{os.path.basename(program)}", program)
        made.link("/bin", "usr/bin")
        made.link("/usr/bin/sh", "dash")
        made.link(f"{core.stdout.strip()}/git", "/usr/bin/git")
    return made.bytes


def _located(name: str) -> str:
    found = shutil.which(name)
    assert found, f"{name} is not there"
    return os.path.realpath(found)


def _libraries(programs: Iterable[str]) -> set[str]:
    said = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False).stdout
    return {word for word in said.split() if word.startswith("/") and not word.endswith(":")}


class _Archive:
    """A tar archive in the making."""

    def __init__(self) -> None:
        self._buffer = io.BytesIO()
        self._tar = tarfile.open(fileobj=self._buffer, mode="w")  # noqa: SIM115 -- closed with the archive
        self.bytes = b""
        self._made = {"/"}

    def __enter__(self) -> "_Archive":
        self.directory("./", 0o755)
        self.directory("/tmp", 0o1777)
        self.directory("/open", 0o1777)  # everybody may write to this, and it is no mount
        self.directory("/etc", 0o755)
        return self

    def __exit__(self, *_: object) -> None:
        self._tar.close()
        self.bytes = self._buffer.getvalue()

    def directory(self, path: str, mode: int) -> None:
        self._made.add(path)
        entry = tarfile.TarInfo(path.lstrip("/"))
        entry.type, entry.mode = tarfile.DIRTYPE, mode
        self._tar.addfile(entry)

    def _parents(self, path: str) -> None:
        """What is not named gets whatever rights the engine likes."""
        above = os.path.dirname(path)
        if above not in self._made:
            self._parents(above)
            self.directory(above, 0o755)

    def file(self, path: str, source: str) -> None:
        self._parents(path)
        content = Path(source).read_bytes()
        entry = tarfile.TarInfo(path.lstrip("/"))
        entry.size, entry.mode = len(content), 0o755
        self._tar.addfile(entry, io.BytesIO(content))

    def link(self, path: str, target: str) -> None:
        self._parents(path)
        self._made.add(path)
        entry = tarfile.TarInfo(path.lstrip("/"))
        entry.type, entry.linkname = tarfile.SYMTYPE, target
        self._tar.addfile(entry)
