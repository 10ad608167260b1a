"""Machines in a network of their own: one namespace for each, all plugged into one switch."""

import os
import subprocess
from collections.abc import Sequence
from itertools import count

from tests.postgres.server import Server

SWITCH = "10.77.0.1"
"""Where the database answers."""
_numbers = count()


def _ip(*words: str) -> None:
    done = subprocess.run(["ip", *words], capture_output=True, text=True)
    assert done.returncode == 0, (words, done.stderr)


class Network:
    """A switch with a database beside it, and machines that can be unplugged."""

    def __init__(self, names: Sequence[str]) -> None:
        self._prefix = f"ac{os.getpid()}-{next(_numbers)}"
        self.switch = f"{self._prefix}-db"
        self._made: list[str] = []
        self._add(self.switch)
        _ip("-n", self.switch, "link", "add", "switch", "type", "bridge")
        _ip("-n", self.switch, "addr", "add", f"{SWITCH}/24", "dev", "switch")
        _ip("-n", self.switch, "link", "set", "switch", "up")
        for number, name in enumerate(names, 2):
            self._plug_in(name, f"10.77.0.{number}")

    def _add(self, namespace: str) -> None:
        _ip("netns", "add", namespace)
        self._made.append(namespace)
        _ip("-n", namespace, "link", "set", "lo", "up")

    def _plug_in(self, name: str, address: str) -> None:
        place = self.namespace(name)
        self._add(place)
        there = ("peer", "name", f"to-{name}", "netns", self.switch)
        _ip("-n", place, "link", "add", "eth0", "type", "veth", *there)
        _ip("-n", self.switch, "link", "set", f"to-{name}", "master", "switch", "up")
        _ip("-n", place, "addr", "add", f"{address}/24", "dev", "eth0")
        _ip("-n", place, "link", "set", "eth0", "up")

    def namespace(self, name: str) -> str:
        return f"{self._prefix}-{name}"

    def within(self, name: str) -> list[str]:
        """What a command is begun with to run on that machine, which has its own name, too."""
        rename = f'echo {name} > /proc/sys/kernel/hostname; exec "$@"'
        enter = ["nsenter", f"--net=/run/netns/{self.namespace(name)}"]
        return [*enter, "unshare", "--uts", "sh", "-c", rename, "sh"]

    def cut(self, name: str) -> None:
        """Unplug a machine at the switch: nobody tells it, its packets are just gone."""
        _ip("-n", self.switch, "link", "set", f"to-{name}", "down")

    def heal(self, name: str) -> None:
        """Plug it in again."""
        _ip("-n", self.switch, "link", "set", f"to-{name}", "up")

    def remove(self) -> None:
        for namespace in reversed(self._made):
            _ip("netns", "del", namespace)


class Database(Server):
    """A server at the switch; the test itself comes in by its socket file."""

    def __init__(self, network: Network, port: int = 5432) -> None:
        super().__init__(listen="*", port=port)
        self._network = network
        enter = ["nsenter", f"--net=/run/netns/{network.switch}"]
        nobody = ["setpriv", "--reuid=nobody", "--regid=nogroup", "--clear-groups"]
        self.within = [*enter, *nobody]

    def ensure(self) -> None:
        """Let it run, whatever a test has done to it."""
        if self._process is None:
            self.start()

    def url(self, database: str = "postgres", user: str = "postgres") -> str:
        return f"postgresql://{user}@/{database}?host={self.directory}&port={self.port}"

    def url_for_hosts(self, database: str) -> str:
        """Where the machines find it; they look for its stand-by if it does not answer."""
        servers = f"host={SWITCH},{SWITCH}&port={self.port},{self.port + 1}"
        return f"postgresql://postgres@/{database}?{servers}&target_session_attrs=read-write"

    def stand_by(self) -> "Database":
        """A copy that has everything before we say that it is written."""
        with (self.data / "pg_hba.conf").open("a") as file:
            file.write("local replication all trust\n")
        self.execute("SELECT pg_reload_conf()")
        other = Database(self._network, self.port + 1)
        words = ("-D", str(other.data), "-R", "-h", str(self.directory), "-p", str(self.port))
        self._run("pg_basebackup", *words, "-U", "postgres", "-c", "fast")
        other.start()
        self.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        self.execute("SELECT pg_reload_conf()")
        return other
