"""From settings to the plan of a container: its image, its mounts, its limits, its user."""

import os
import resource
import subprocess
from contextlib import suppress

import msgspec

from acode.errors import ConfigError
from acode.policy.images import default_image
from acode.runner.container.discovery import Engine
from acode.runner.container.images import Pulling
from acode.runner.container.leaks import labels_for
from acode.runner.container.life import Owner
from acode.runner.container.mounts import (
    Places,
    Secret,
    checked,
    checked_secrets,
    mounts_of,
    readable_by,
)
from acode.runner.container.network import is_address, is_host, published
from acode.runner.container.owner import owner_of, user_for
from acode.runner.container.plan import Ceiling, Mount, Plan
from acode.runner.container.seat import Wanted, give
from acode.settings.tree import Docker, Settings
from acode.worker.config import WorkerConfig
from acode.workspace.repository import find_repository

_IDENTITY_SECONDS = 5.0
_HOLD = ".acode"
"""No name of an entry: git passes over it."""


class Fitting:
    """Knows how the containers of one pool are made."""

    def __init__(self, settings: Settings, config: WorkerConfig, *, keep: bool) -> None:
        self._settings = settings
        self._config = config
        self.keep = keep
        self.image = image_of(settings, config.project_root)
        self._identity: dict[str, str] | None = None

    @property
    def docker(self) -> Docker:
        """What the user set."""
        return self._settings.workers.docker

    @property
    def run_dir(self) -> str:
        """What names the pool on the engine, too."""
        return self._config.run_dir

    @property
    def pulling(self) -> Pulling:
        """How images are fetched."""
        return pulling_of(self.docker)

    def ceiling(self, wanted: Wanted) -> Ceiling:
        """What a task may use: what it asks for, but not more than the pool grants."""
        granted, limits = self.docker.resources, self._settings.workers.limits
        return Ceiling(
            cpus=min(wanted.cpus or granted.cpus, granted.cpus),
            memory_mb=min(wanted.memory_mb or granted.memory_mb, granted.memory_mb),
            pids=granted.pids_limit,
            open_files=limits.max_open_files,
            disk_mb=limits.disk_mb,
        )

    def footing(self, worker_id: str) -> tuple[int, ...]:
        """What the mounts of a container are tied to: one that stands on other ground is old."""
        config = msgspec.structs.replace(self._config, id=worker_id)
        repository = find_repository(config.project_root)
        common = [_worktrees(repository.common)] if repository else []
        return tuple(_inode(path) for path in (config.project_root, config.trees, *common))

    def release(self) -> None:
        """Leave the repository as it was."""
        repository = find_repository(self._config.project_root)
        if repository is not None:
            with suppress(OSError):  # not there, or others have worktrees
                os.unlink(f"{_worktrees(repository.common)}/{_HOLD}")
                os.rmdir(_worktrees(repository.common))

    def control_of(self, worker_id: str) -> str:
        """Where the pipes of a worker's container are."""
        return f"{self._config.run_dir}/containers/{worker_id}"

    def plan(self, engine: Engine, worker_id: str, wanted: Wanted) -> tuple[Plan, Owner, str]:
        """The plan, whose files they are, and a directory to try that in."""
        config = msgspec.structs.replace(self._config, id=worker_id)
        user = user_for(engine, owner_of(config.project_root))
        home = config.home
        for directory in (config.trees, f"{config.trees}/scratch", home, config.live_checkpoints):
            os.makedirs(directory, exist_ok=True)
            give(directory, user.uid, user.gid)
        for directory, _ in config.inside:
            os.makedirs(directory, exist_ok=True)
            os.chmod(directory, 0o1777)  # noqa: S103 -- as everybody expects of /tmp
            give(directory, user.uid, user.gid)
        control = self.control_of(worker_id)
        os.makedirs(os.path.dirname(control), exist_ok=True)
        places = self._places(config, control, wanted)
        mounts, masked = mounts_of(places, *self._own(engine, user.uid, control))
        docker, ceiling = self.docker, self.ceiling(wanted)
        plan = Plan(
            name=f"acode-worker-{worker_id}",
            image=wanted.image or self.image,
            control=control,
            user=user.words,
            userns=user.userns,
            labels=labels_for(worker_id, config.run_dir, keep=self.keep),
            env={"ACODE_CONTAINER": control, **self._signature()},
            mounts=mounts,
            masked=masked,
            ceiling=_for_engine(ceiling, engine),
            read_only_root=docker.resources.read_only_root_fs,
            network="none" if self._settings.sandbox.network == "none" else docker.network,
            ports=docker.ports,
            dns=docker.dns,
            extra_hosts=docker.extra_hosts,
            health_seconds=self._settings.workers.health_check_interval_ms / 1000,
            stop_seconds=docker.stop_timeout_seconds,
            copies_up=engine.name == "podman",
            selinux=os.path.exists("/sys/fs/selinux/enforce"),
        )
        return plan, Owner(user.uid, user.gid), home

    def _places(self, config: WorkerConfig, control: str, wanted: Wanted) -> Places:
        repository = find_repository(config.project_root)
        if repository is not None:
            _hold(_worktrees(repository.common))
        return Places(
            project=config.project_root,
            agent=config.agent_dir,
            control=control,
            writable=(config.trees, config.home),
            temporary=() if self.docker.resources.read_only_root_fs else config.inside,
            read_only=(config.config_file,) if os.path.isfile(config.config_file) else (),
            git=repository.common if repository else None,
            project_writable=wanted.project_writable,
        )

    def _own(
        self, engine: Engine, uid: int, control: str
    ) -> tuple[tuple[Mount, ...], tuple[Secret, ...]]:
        root = self._config.project_root
        secrets = _secrets(self.docker, root)
        spare = f"{control}.secrets"
        return _mounts(self.docker, root, engine.socket), tuple(
            readable_by(secret, uid, spare) for secret in secrets
        )

    def _signature(self) -> dict[str, str]:
        """Who commits inside: the user, whose own settings stay outside."""
        if self._identity is None:
            name, _, address = self._config.author.partition(" <")
            root = self._config.project_root
            name = _git_setting(root, "user.name") or name
            address = _git_setting(root, "user.email") or address.removesuffix(">")
            self._identity = {
                f"GIT_{who}_{what}": value
                for who in ("AUTHOR", "COMMITTER")
                for what, value in (("NAME", name), ("EMAIL", address))
            }
        return self._identity


def _for_engine(ceiling: Ceiling, engine: Engine) -> Ceiling:
    return msgspec.structs.replace(
        ceiling,
        counts_layer=engine.quotas,
        user_processes=_most_processes() if engine.name == "podman" else None,
    )


def _most_processes() -> int:
    """More than so many there cannot be, so nobody needs a privilege to be held to it."""
    most = resource.getrlimit(resource.RLIMIT_NPROC)[1]
    with open("/proc/sys/kernel/pid_max", encoding="ascii") as file:
        highest = int(file.read())
    return highest if most == resource.RLIM_INFINITY else min(most, highest)


def _worktrees(common: str) -> str:
    return os.path.join(common, "worktrees")


def _hold(worktrees: str) -> None:
    """Keep the directory of all entries there: git removes an empty one, a mount would stay."""
    os.makedirs(worktrees, exist_ok=True)
    with open(f"{worktrees}/{_HOLD}", "wb"):
        pass


def _inode(path: str) -> int:
    try:
        return os.stat(path).st_ino
    except FileNotFoundError:
        return 0


def image_of(settings: Settings, root: str) -> str:
    """The image of the pool: as set, else by the project's files."""
    return settings.workers.docker.image or default_image(os.listdir(root))


def pulling_of(docker: Docker) -> Pulling:
    """How images are fetched."""
    return Pulling(
        policy=docker.pull_policy,
        seconds=docker.pull_timeout_seconds,
        tries=docker.max_pull_retries,
    )


def check(docker: Docker, root: str, engine_socket: str) -> None:
    """Refuse what no container could be made with."""
    _mounts(docker, root, engine_socket)
    _secrets(docker, root)
    _check_network(docker)


def _check_network(docker: Docker) -> None:
    for port in docker.ports:
        if published(port) is None:
            raise ConfigError(
                f"workers.docker.ports: {port} is no port",
                "write 8080:80, 127.0.0.1:8080:80 or 80, with /udp behind it where needed",
            )
    for server in docker.dns:
        if not is_address(server):
            raise ConfigError(
                f"workers.docker.dns: {server} is no address",
                "name servers by their addresses: 192.0.2.53",
            )
    for host in docker.extra_hosts:
        if not is_host(host):
            raise ConfigError(
                f"workers.docker.extraHosts: {host} is not NAME:ADDRESS",
                "write db:192.0.2.7, or db:host-gateway for this machine",
            )


def _mounts(docker: Docker, root: str, engine_socket: str) -> tuple[Mount, ...]:
    mounts = (Mount(each.source, each.target, each.read_only) for each in docker.mounts)
    return checked(mounts, root, engine_socket)


def _secrets(docker: Docker, root: str) -> tuple[Secret, ...]:
    return checked_secrets((Secret(each.name, each.file) for each in docker.secrets), root)


def _git_setting(root: str, name: str) -> str | None:
    try:
        done = subprocess.run(  # noqa: S603 -- no shell, our own words
            # Reading a setting runs nothing, so it does not matter whose repository it is.
            ["git", "-c", "safe.directory=*", "-C", root, "config", "--get", name],  # noqa: S607
            capture_output=True,
            timeout=_IDENTITY_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode(errors="replace").strip() or None
