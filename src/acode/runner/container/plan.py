"""What a container is made of: a plan in our words, and the same in the engine's."""

from typing import Any, Literal

import msgspec

from acode.runner.container.network import published

MEGABYTE = 1024 * 1024
SECOND_NS = 1_000_000_000
MAX_RESTARTS = 3
LOG_OPTIONS = {"max-size": "1m", "max-file": "2"}


class Mount(msgspec.Struct, frozen=True):
    """A file or directory of this machine inside a container."""

    source: str
    target: str
    read_only: bool = False


class Ceiling(msgspec.Struct, frozen=True, kw_only=True):
    """What everything in one container may use together."""

    cpus: float = 1.0
    memory_mb: int = 512
    pids: int = 100
    open_files: int = 1024
    disk_mb: int = 1024
    counts_layer: bool = False
    """Whether the engine can hold the container's own layer to that, too."""
    user_processes: int | None = None
    """Of its user on this whole machine. Podman sets one that it may not set, unless we do."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Everything about one container."""

    name: str
    image: str
    control: str
    """The directory of pipes; the supervisor lies in it."""
    has_shell: bool = True
    """Whether the image has one to run the supervisor with; a keeper does without."""
    user: str
    labels: dict[str, str]
    env: dict[str, str] = {}
    mounts: tuple[Mount, ...] = ()
    masked: tuple[str, ...] = ()
    """Directories that are empty inside, whatever a mount above them would show."""
    ceiling: Ceiling = Ceiling()
    read_only_root: bool = False
    network: Literal["bridge", "host", "none"] = "bridge"
    ports: tuple[str, ...] = ()
    dns: tuple[str, ...] = ()
    extra_hosts: tuple[str, ...] = ()
    userns: str = ""
    health_seconds: float | None = 30.0
    stop_seconds: float = 10.0
    selinux: bool = False
    copies_up: bool = False
    """Whether the engine fills what is to be empty with what it hides, unless told not to."""


def body_of(plan: Plan) -> dict[str, Any]:
    """The plan as the engine wants it."""
    ports = [found for port in plan.ports if (found := published(port)) is not None]
    return {
        "Image": plan.image,
        "Entrypoint": _first_command(plan),
        "Cmd": [],
        "User": plan.user,
        "Env": [f"{key}={value}" for key, value in plan.env.items()],
        "Labels": plan.labels,
        "WorkingDir": "/",
        "StopTimeout": max(1, round(plan.stop_seconds)),
        "Healthcheck": _healthcheck(plan),
        "ExposedPorts": {inside: {} for inside, _ in ports},
        "HostConfig": _host_config(plan, dict(ports)),
    }


def _first_command(plan: Plan) -> list[str]:
    if plan.has_shell:
        return ["/bin/sh", f"{plan.control}/supervisor", plan.control]
    return [f"{plan.control}/keeper", f"{plan.control}/in", f"{plan.control}/reply"]


def _healthcheck(plan: Plan) -> dict[str, Any]:
    if plan.health_seconds is None:
        return {"Test": ["NONE"]}
    test = ["/bin/sh", f"{plan.control}/health"] if plan.has_shell else [f"{plan.control}/keeper"]
    return {
        "Test": ["CMD", *test],
        "Interval": round(plan.health_seconds * SECOND_NS),
        "Timeout": 10 * SECOND_NS,
        "Retries": 3,
    }


def _host_config(plan: Plan, ports: dict[str, list[dict[str, str]]]) -> dict[str, Any]:
    return {
        "Init": True,
        "Mounts": [_mount(mount) for mount in plan.mounts],
        "Tmpfs": _tmpfs(plan),
        "NetworkMode": plan.network,
        "PortBindings": {} if plan.network == "host" else ports,
        "Dns": list(plan.dns),
        "ExtraHosts": list(plan.extra_hosts),
        "UsernsMode": plan.userns,
        "RestartPolicy": {"Name": "on-failure", "MaximumRetryCount": MAX_RESTARTS},
        "LogConfig": {"Type": "json-file", "Config": LOG_OPTIONS},
        **_limits(plan.ceiling),
        **_hardening(plan),
    }


def _limits(ceiling: Ceiling) -> dict[str, Any]:
    memory = ceiling.memory_mb * MEGABYTE
    limits: dict[str, Any] = {
        "NanoCpus": round(ceiling.cpus * SECOND_NS),
        "Memory": memory,
        "MemorySwap": memory,  # both the same: no swap
        "PidsLimit": ceiling.pids,
        "OomKillDisable": False,
        "Ulimits": [
            {"Name": name, "Soft": most, "Hard": most}
            for name, most in (
                ("nofile", ceiling.open_files),
                ("core", 0),
                ("fsize", ceiling.disk_mb * MEGABYTE),
                ("nproc", ceiling.user_processes),
            )
            if most is not None
        ],
    }
    if ceiling.counts_layer:
        limits["StorageOpt"] = {"size": f"{ceiling.disk_mb}m"}
    return limits


def _hardening(plan: Plan) -> dict[str, Any]:
    options = ["no-new-privileges"]
    if plan.selinux:
        # Mounts at their host paths cannot be relabelled; their modes protect them.
        options.append("label=disable")
    return {
        "Privileged": False,
        "CapDrop": ["ALL"],
        "SecurityOpt": options,
        "ReadonlyRootfs": plan.read_only_root,
    }


def _tmpfs(plan: Plan) -> dict[str, str]:
    empty = ",notmpcopyup" if plan.copies_up else ""
    places = dict.fromkeys(plan.masked, f"mode=755,size=1m{empty}")
    if plan.read_only_root:
        size = min(plan.ceiling.memory_mb // 2, plan.ceiling.disk_mb)
        places |= dict.fromkeys(("/tmp", "/var/tmp", "/run"), f"mode=1777,size={size}m")  # noqa: S108 -- inside
    return places


def _mount(mount: Mount) -> dict[str, Any]:
    return {
        "Type": "bind",
        "Source": mount.source,
        "Target": mount.target,
        "ReadOnly": mount.read_only,
    }
