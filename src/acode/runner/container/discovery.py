"""Which engine there is: what the user named, else Docker, else Podman. Never waits for long."""

import os
from collections.abc import Mapping
from typing import Any

import msgspec

from acode.errors import DockerUnavailable
from acode.runner.container.api import NEWEST_API, OLDEST_API, PROBE_SECONDS, Api, EngineError


class Engine(msgspec.Struct, frozen=True, kw_only=True):
    """An engine that answered, and what kind it is."""

    socket: str
    name: str
    """`docker` or `podman`."""
    version: str
    api_version: str
    rootless: bool = False
    quotas: bool = False
    """Whether it can hold a container's own layer to a size."""

    @property
    def api(self) -> Api:
        """How to talk to it."""
        return Api(self.socket, self.api_version)


def places(host: str | None, environ: Mapping[str, str], uid: int) -> list[str]:
    """Where an engine may listen, best first. One that was named is the only one."""
    named = host or environ.get("DOCKER_HOST")
    if named:
        return [named]
    runtime = environ.get("XDG_RUNTIME_DIR") or f"/run/user/{uid}"
    return [
        "/var/run/docker.sock",
        f"{runtime}/docker.sock",
        f"{runtime}/podman/podman.sock",
        "/run/podman/podman.sock",
    ]


def find_engine(host: str | None, environ: Mapping[str, str]) -> Engine:
    """The first engine that answers; says of each place why it does not."""
    reasons = []
    for place in places(host, environ, os.getuid()):
        try:
            return probe(_path(place))
        except DockerUnavailable as error:
            reasons.append(str(error))
    raise DockerUnavailable(f"no container engine can be used: {'; '.join(reasons)}")


def _path(place: str) -> str:
    """The socket's path. What lies on another machine cannot mount our workspaces."""
    path = place.removeprefix("unix://")
    if "://" in path:
        raise DockerUnavailable(
            f"{place} is no unix socket",
            "name the socket of an engine on this machine: unix:///var/run/docker.sock",
        )
    return path


def probe(path: str) -> Engine:
    """Who listens there; within a few seconds, whatever it does."""
    if not os.path.exists(path):
        raise DockerUnavailable(f"{path} is not there")
    asked = Api(path)
    try:
        version = asked.get("/version", PROBE_SECONDS)
        info = asked.get("/info", PROBE_SECONDS)
    except EngineError as error:
        raise DockerUnavailable(str(error)) from error
    return _engine(path, version, info)


def _engine(path: str, version: dict[str, Any], info: dict[str, Any]) -> Engine:
    try:
        api = _numbers(version["ApiVersion"])
        oldest = _numbers(version.get("MinAPIVersion") or "1.24")
    except (KeyError, TypeError, ValueError) as error:
        raise DockerUnavailable(f"{path} does not speak the Engine API") from error
    if api < OLDEST_API or oldest > NEWEST_API:
        raise DockerUnavailable(
            f"the engine at {path} speaks version {version['ApiVersion']} of the Engine API",
            "Docker Engine 20.10 or newer, or Podman 4 or newer, is needed",
        )
    options = [str(option) for option in info.get("SecurityOptions") or ()]
    return Engine(
        socket=path,
        name="podman" if _is_podman(version) else "docker",
        version=str(version.get("Version", "")),
        api_version="{}.{}".format(*min(api, NEWEST_API)),
        rootless=any("rootless" in option for option in options),
        quotas=_has_quotas(info),
    )


def _numbers(version: str) -> tuple[int, int]:
    major, minor = version.split(".")[:2]
    return int(major), int(minor)


def _is_podman(version: dict[str, Any]) -> bool:
    components = version.get("Components") or ()
    return any("podman" in str(part.get("Name", "")).lower() for part in components)


def _has_quotas(info: dict[str, Any]) -> bool:
    """Layers have a size limit on btrfs, zfs, and on overlay over xfs that counts by project."""
    driver = info.get("Driver")
    backing = {str(key): str(value) for key, value in info.get("DriverStatus") or ()}
    return driver in ("btrfs", "zfs") or (
        driver == "overlay2" and backing.get("Backing Filesystem") == "xfs"
    )
