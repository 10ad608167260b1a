"""Three machines, each with its own clone and pool, that share one queue."""

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from acode.model.task import Record
from acode.store.postgres import PostgresStore
from tests.cli.conftest import ACODE, Project, drive
from tests.hosts.network import Database, Network
from tests.pool.conftest import PATIENCE, PoolProject, eventually

NAMES = ("mars", "venus", "pluto")
LEASE_SECONDS = 4


GET = """
import http.client, sys, urllib.parse
url = urllib.parse.urlsplit(sys.argv[1])
wire = http.client.HTTPConnection(url.hostname, url.port, timeout=30)
wire.request("GET", url.path, headers={"authorization": f"Bearer {sys.argv[2]}"})
answer = wire.getresponse()
print(answer.status, answer.read().decode(), sep="\\n")
"""


class Machine(PoolProject):
    """A project on one machine of the network."""

    def __init__(self, root: Path, name: str, network: Network, url: str) -> None:
        super().__init__(root)
        self.name = name
        self.network = network
        self.cli = Remote(root, network.within(name))
        self.env = self.cli.env
        self.env |= {
            "ACODE_SANDBOX__LEVEL": "off",
            "ACODE_STORE__URL": url,
            "ACODE_WORKERS__LEASESECONDS": str(LEASE_SECONDS),
            "ACODE_API__HOST": "0.0.0.0",
        }

    def get(self, url: str, key: str) -> tuple[int, str]:
        """What an address answers to somebody on this machine."""
        words = [*self.network.within(self.name), sys.executable, "-c", GET, url, key]
        done = subprocess.run(words, capture_output=True, text=True, timeout=PATIENCE)
        code, _, said = done.stdout.partition("\n")
        return int(code), said

    def cut(self) -> None:
        self.network.cut(self.name)

    def heal(self) -> None:
        self.network.heal(self.name)

    def kill_all(self) -> None:
        """The power goes."""
        self.abandoned = True
        while found := [each for each in self.processes() if each.pid != os.getpid()]:
            for process in found:
                with suppress(psutil.Error):
                    process.kill()
            psutil.wait_procs(found, timeout=PATIENCE)

    def processes(self) -> list[psutil.Process]:
        """The daemon has the root as its directory, all others something below it."""
        return [each for each in super().processes() if _is_running(each)]


def _is_running(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


class Remote(Project):
    """The command line on another machine."""

    def __init__(self, root: Path, within: list[str]) -> None:
        super().__init__(root)
        self._within = within

    def start(self, *args: str, **options: Any) -> "subprocess.Popen[str]":
        options.setdefault("env", self.env)
        options.setdefault("cwd", self.root)
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        words = [*self._within, ACODE, *args]
        return subprocess.Popen(words, text=True, encoding="utf-8", **pipes, **options)


class Company:
    """All machines and what they share."""

    def __init__(self, network: Network, database: Database, name: str, root: Path) -> None:
        self.network = network
        self.database = database
        self.name = name
        database.database(name)
        url = database.url_for_hosts(name)
        self.machines = {each: Machine(root / each, each, network, url) for each in NAMES}
        self.mars, self.venus, self.pluto = self.machines.values()

    def start(self, *machines: Machine, count: int = 2) -> None:
        for machine in machines or self.machines.values():
            machine.start(count=count)

    def records(self, tasks: Iterable[str]) -> list[Record]:
        """Everything that the store knows of these tasks."""
        store = PostgresStore.open(self.database.url(self.name), grouped=False)
        try:
            return [drive(store.record(task)) for task in tasks]
        finally:
            drive(store.close())

    def unfinished(self) -> int:
        """How many tasks have not come to their end."""
        (found,) = self.database.execute(
            "SELECT count(*) FROM acode.tasks "
            "WHERE status NOT IN ('completed', 'failed', 'cancelled')",
            self.name,
        )
        return int(found[0])

    def record(self, task: str) -> Record:
        return self.records([task])[0]

    def place(self, task: str) -> Machine:
        """The machine that runs a task, once one does."""
        found = eventually(lambda: self.record(task).attempts)
        return self.machines[(found[-1].host_id or "")[:-27]]

    def others(self, machine: Machine) -> list[Machine]:
        return [each for each in self.machines.values() if each is not machine]

    def close(self) -> None:
        self.database.ensure()
        for machine in self.machines.values():
            machine.heal()
        with ExitStack() as stack:  # one that is left in disorder keeps no other from ending
            for machine in self.machines.values():
                if machine.abandoned or machine.has_daemon():
                    stack.callback(machine.close)
        self.database.execute(f"DROP DATABASE {self.name} WITH (FORCE)")


@pytest.fixture(scope="session")
def network() -> Iterator[Network]:
    made = Network(NAMES)
    yield made
    made.remove()


@pytest.fixture(scope="session")
def database(network: Network) -> Iterator[Database]:
    server = Database(network)
    server.start()
    yield server
    server.remove()


_made: list[str] = []


@pytest.fixture
def company(network: Network, database: Database, tmp_path: Path) -> Iterator[Company]:
    _made.append(f"queue_{len(_made)}")
    made = Company(network, database, _made[-1], tmp_path)
    yield made
    made.close()
