"""What a task is kept from: a confinement is made for an attempt and applied before its command.

Whoever applies it has given up rights for good, and so has everything it starts. That is why it
happens in a child between fork and exec, or in a thread that only lives to spawn (`Airlock`).
"""

import os
from functools import lru_cache
from typing import Final, Literal

import msgspec

from acode.runner import landlock, namespaces, seccomp
from acode.runner.landlock import ALL_WRITES, DEVICE, READ, WRITE, Ruleset
from acode.runner.syscalls import forbid_new_privileges, keep_capabilities

Level = Literal["off", "write", "strict"]
Network = Literal["inherit", "none"]

_DEVICES: Final = ("null", "zero", "full", "random", "urandom", "tty", "ptmx", "pts", "net/tun")
SHARED_MEMORY: Final = "/dev/shm"  # noqa: S108 -- semaphores and shared memory live there
_SYSTEM: Final = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt", "/proc", "/nix/store",
    "/gnu/store", "/snap", "/sys/devices/system", "/sys/fs/cgroup", "/sys/kernel/mm",
    "/run/systemd/resolve", "/run/resolvconf", "/run/current-system", "/var/lib/dpkg",
    "/var/cache/fontconfig", "/home/linuxbrew/.linuxbrew",
)  # fmt: skip
_SECRET_SETTINGS: Final = frozenset(
    {"shadow", "shadow-", "gshadow", "gshadow-", "sudoers", "sudoers.d", "ssh", "ssl/private",
     "krb5.keytab", "wireguard", "security", "NetworkManager", "docker", "kubernetes"}
)  # fmt: skip
_ROOTS_CAPABILITIES: Final = sum(1 << bit for bit in (0, 1, 3, 4, 5, 6, 7, 8, 10, 13, 18, 29, 31))
"""What container engines leave to root, without making devices: files, users, low ports."""


class Confinement(msgspec.Struct, frozen=True, kw_only=True):
    """What one command may still do. Equal ones are enforced by the same rules."""

    level: Level
    network: Network = "inherit"
    writable: tuple[str, ...] = ()
    readable: tuple[str, ...] = ()
    """Under `strict`: what may be read beside the system and what is writable."""
    shared_memory: bool = True
    """Whether all of it may be used; nothing in it could be kept from a task then."""
    sealed: tuple[str, ...] = ()
    """Below what is writable, and yet not to be written to."""

    @property
    def needs_fork(self) -> bool:
        """Whether a thread cannot apply it: namespaces of users are for whole processes."""
        return bool(self.sealed) or (
            self.network == "none" and not namespaces.may_make() and namespaces.users_may()
        )

    def apply(self) -> None:
        """Give up everything that is not allowed. Runs after a fork and before the exec."""
        kept = kept_capabilities(self.level)
        keeps_ports = True
        if self.sealed or self.network == "none":
            keeps_ports = not namespaces.separate(
                network=self.network == "none", sealed=self.sealed, open_=self.writable
            )
        rules = self.rules(close_ports=keeps_ports)
        forgo(self.level)
        give_up(rules, kept)
        if rules is not None:
            rules.close()

    def rules(self, *, close_ports: bool) -> Ruleset | None:
        """The rules for files, and for ports if nothing else can close them; None without them."""
        if landlock.abi() < 1:
            return None
        reads = READ if self.level == "strict" else 0
        ports = close_ports and self.network == "none"
        rules = Ruleset(ALL_WRITES | reads, ports=ports)
        for path in self.writable:
            rules.allow(path, WRITE | READ)
        for name in _DEVICES:
            rules.allow(f"/dev/{name}", DEVICE | READ)
        if self.shared_memory:
            rules.allow(SHARED_MEMORY, WRITE | READ)
        if reads:
            for path in (*_SYSTEM, *_settings(), *self.readable):
                rules.allow(path, READ)
        return rules


def kept_capabilities(level: Level) -> int:
    """What root keeps; everybody else has nothing anyway."""
    is_root = level == "write" and os.geteuid() == 0
    return _ROOTS_CAPABILITIES & namespaces.capabilities() if is_root else 0


def forgo(level: Level) -> None:
    """Give up what no command has, wherever it works; whoever starts one can do without, too.

    A thread that has done so is no more within reach of commands than before.
    """
    forbid_new_privileges()
    if seccomp.works():
        seccomp.filter_calls(sockets=level != "strict")


def give_up(rules: Ruleset | None, kept: int) -> None:
    """Enforce the rules of one command on this thread; call `forgo` before."""
    keep_capabilities(kept)
    if rules is not None:
        rules.enforce()


def _settings() -> list[str]:
    """What may be read of /etc: root owns secrets there that others cannot read anyway."""
    if os.geteuid() != 0:
        return ["/etc"]
    try:
        names = os.listdir("/etc")
    except OSError:
        return []
    return [f"/etc/{name}" for name in names if name not in _SECRET_SETTINGS]


def lies_within(path: str, directory: str) -> bool:
    """Whether a place is a directory or lies below it, whatever links lead there."""
    real = os.path.realpath(directory).rstrip("/")
    return f"{os.path.realpath(path)}/".startswith(f"{real}/")


def project_readable(root: str, agent_dir: str) -> tuple[str, ...]:
    """What may be read of the project: all of it but acode's own files."""
    try:
        names = sorted(os.listdir(root))
    except OSError:
        return ()
    paths = (os.path.join(root, name) for name in names)
    return tuple(path for path in paths if path != agent_dir)


@lru_cache(maxsize=8)
def readable_search_path(search_path: str, confinement: Confinement) -> str:
    """The directories of PATH that a command may look into."""
    allowed = [os.path.realpath(path) for path in (*_SYSTEM, *confinement.readable)]
    allowed += map(os.path.realpath, confinement.writable)
    return ":".join(
        path
        for path in search_path.split(":")
        if any(f"{os.path.realpath(path)}/".startswith(f"{each}/") for each in allowed)
    )
