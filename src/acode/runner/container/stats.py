"""What a container uses. Its cgroup tells at once; the engine, where that cannot be read, slowly.

An engine takes up to a second to answer (it waits for its own next sample), and a good part of a
core for twenty containers. The files of the kernel cost microseconds.
"""

import os
from contextlib import suppress
from typing import Any

import msgspec

from acode.clock import ticks
from acode.runner.container.api import Api

HIGH_SHARE = 0.9
"""From this share of a limit on, somebody should hear of it."""
STANDING = ("T", "t", "Z", "X")
"""States of a process that does nothing any more."""
CGROUPS = "/sys/fs/cgroup"


class Used(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """One look at one container."""

    cpu_percent: float = 0.0
    memory_bytes: int = 0
    memory_limit_bytes: int = 0
    pids: int = 0
    pids_limit: int = 0
    network_received_bytes: int = 0
    network_sent_bytes: int = 0
    layer_bytes: int = 0
    """What its present attempt has written to the container's own layer."""

    def high(self) -> list[str]:
        """What is nearly used up, in words."""
        return [
            f"{used} of {limit} {what}"
            for used, limit, what in (
                (self.memory_bytes, self.memory_limit_bytes, "bytes of memory"),
                (self.pids, self.pids_limit, "processes"),
            )
            if limit and used >= HIGH_SHARE * limit
        ]


class Meter:
    """Looks at one container again and again; a share of the processor is a difference."""

    def __init__(self, api: Api, container: str) -> None:
        self._api = api
        self._container = container
        self._cpu: tuple[int, float] | None = None
        self._find()

    def _find(self) -> None:
        """Its first process; another one after the engine has started it again."""
        self._pid = first_pid(self._api, self._container)
        self._files = _Files.of(self._pid)

    def read(self) -> Used:
        """One look."""
        try:
            cpu, used = self._from_kernel(self._files) if self._files else self._from_engine()
        except (FileNotFoundError, ProcessLookupError, ValueError):
            self._find()
            cpu, used = self._from_engine()
        now = ticks()
        before, self._cpu = self._cpu, (cpu, now)
        if before is None or now <= before[1]:
            return used
        share = max(0.0, (cpu - before[0]) / 1e9 / (now - before[1]) * 100)
        return msgspec.structs.replace(used, cpu_percent=round(share, 1))

    def is_well(self) -> bool:
        """Whether whoever holds the container can move, as far as we can see.

        An engine may ask for that, too, but Podman does so only where systemd runs.
        """
        try:
            with open(f"/proc/{self._pid}/task/{self._pid}/children", encoding="ascii") as file:
                holder = file.read().split()[0]
            with open(f"/proc/{holder}/stat", encoding="utf-8", errors="replace") as file:
                return file.read().rpartition(")")[2].split()[0] not in STANDING
        except (OSError, IndexError):
            return True

    def _from_kernel(self, files: "_Files") -> tuple[int, Used]:
        received, sent = _traffic(self._pid)
        return files.cpu_nanoseconds(), Used(
            memory_bytes=files.memory_bytes(),
            memory_limit_bytes=_bounded(_number(files.memory_limit)),
            pids=_number(files.pids),
            pids_limit=_bounded(_number(files.pids_limit)),
            network_received_bytes=received,
            network_sent_bytes=sent,
        )

    def _from_engine(self) -> tuple[int, Used]:
        path = f"/containers/{self._container}/stats"
        return taken(self._api.get(path, stream=False, **{"one-shot": True}))


class _Files(msgspec.Struct, frozen=True):
    """Where the kernel keeps the accounts of a cgroup, in either version."""

    cpu: str
    memory: str
    memory_limit: str
    memory_detail: str
    pids: str
    pids_limit: str
    unified: bool

    @classmethod
    def of(cls, pid: int) -> "_Files | None":
        """Those of this process, as far as we may read them; None if not."""
        with suppress(OSError, KeyError):
            groups = _groups(pid)
            files = _version2(groups[""]) if groups.keys() == {""} else _version1(groups)
            if all(os.access(path, os.R_OK) for path in (files.cpu, files.memory, files.pids)):
                return files
        return None

    def cpu_nanoseconds(self) -> int:
        if self.unified:
            return _detail(self.cpu, b"usage_usec") * 1000
        return _number(self.cpu)

    def memory_bytes(self) -> int:
        """Without what the kernel only keeps because there is room for it."""
        key = b"inactive_file" if self.unified else b"total_inactive_file"
        return max(0, _number(self.memory) - _detail(self.memory_detail, key))


def first_pid(api: Api, container: str) -> int:
    """The first process of a container, as this machine counts."""
    return int(api.get(f"/containers/{container}/json")["State"]["Pid"])


class Counts(msgspec.Struct, frozen=True):
    """What has happened in a container so far, as far as it is known."""

    oom_kills: int = 0
    cpu_nanoseconds: int = 0
    peak_bytes: int = 0


def counts_of(pid: int) -> Counts:
    """What the kernel has counted for everything beside this process."""
    files = _Files.of(pid)
    if files is None:
        return Counts()
    memory = os.path.dirname(files.memory)
    events, peak = (
        ("memory.events", "memory.peak")
        if files.unified
        else ("memory.oom_control", "memory.max_usage_in_bytes")
    )
    try:
        kills = _detail(f"{memory}/{events}", b"oom_kill")
        return Counts(kills, files.cpu_nanoseconds(), _number(f"{memory}/{peak}"))
    except (OSError, ValueError):
        return Counts()


def _groups(pid: int) -> dict[str, str]:
    """The cgroup of a process under each controller; the empty name is version 2."""
    with open(f"/proc/{pid}/cgroup", encoding="utf-8") as file:
        lines = [line.rstrip("\n").split(":", 2) for line in file]
    return {name: path for _, names, path in lines for name in names.split(",")}


def _version2(path: str) -> _Files:
    top = CGROUPS + path
    return _Files(
        f"{top}/cpu.stat",
        f"{top}/memory.current",
        f"{top}/memory.max",
        f"{top}/memory.stat",
        f"{top}/pids.current",
        f"{top}/pids.max",
        True,
    )


def _version1(groups: dict[str, str]) -> _Files:
    cpu, memory, pids = (
        f"{CGROUPS}/{name}{groups[name]}" for name in ("cpuacct", "memory", "pids")
    )
    return _Files(
        f"{cpu}/cpuacct.usage",
        f"{memory}/memory.usage_in_bytes",
        f"{memory}/memory.limit_in_bytes",
        f"{memory}/memory.stat",
        f"{pids}/pids.current",
        f"{pids}/pids.max",
        False,
    )


def _number(path: str) -> int:
    with open(path, "rb") as file:
        text = file.read().strip()
    return 0 if text == b"max" else int(text)


def _detail(path: str, wanted: bytes) -> int:
    with open(path, "rb") as file:
        for line in file:
            key, _, value = line.partition(b" ")
            if key == wanted:
                return int(value)
    return 0


def _traffic(pid: int) -> tuple[int, int]:
    """Bytes that came and went over every interface but the loopback."""
    received = sent = 0
    with open(f"/proc/{pid}/net/dev", encoding="ascii") as file:
        for line in list(file)[2:]:
            name, _, numbers = line.partition(":")
            if name.strip() != "lo":
                fields = numbers.split()
                received, sent = received + int(fields[0]), sent + int(fields[8])
    return received, sent


def taken(said: dict[str, Any]) -> tuple[int, Used]:
    """What an answer of the engine means: nanoseconds of the processor, and the rest."""
    memory = said.get("memory_stats") or {}
    detail = memory.get("stats") or {}
    idle = detail.get("total_inactive_file", detail.get("inactive_file", 0))
    networks = (said.get("networks") or {}).values()
    return int(_at(said, "cpu_stats", "cpu_usage", "total_usage")), Used(
        memory_bytes=max(0, int(memory.get("usage", 0)) - int(idle or 0)),
        memory_limit_bytes=_bounded(int(memory.get("limit", 0))),
        pids=int(_at(said, "pids_stats", "current")),
        pids_limit=_bounded(int(_at(said, "pids_stats", "limit"))),
        network_received_bytes=sum(int(each.get("rx_bytes", 0)) for each in networks),
        network_sent_bytes=sum(int(each.get("tx_bytes", 0)) for each in networks),
    )


def _bounded(limit: int) -> int:
    """No limit at all is an astronomical number, in the kernel's files as in the engine's words."""
    return limit if limit < 1 << 60 else 0


def _at(said: dict[str, Any], *keys: str) -> Any:
    found: Any = said
    for key in keys:
        found = (found or {}).get(key)
    return found or 0
