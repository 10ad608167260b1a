"""An engine for one test run, in namespaces of its own; it ends with the run, however that ends.

python -m tests.docker.guardian NAME DIRECTORY PID, inside `unshare --mount --net`.
"""

import os
import select
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

from acode.clock import Deadline
from acode.runner.tree import become_subreaper, reap_children, signal_below

STOP_SECONDS = 15.0
CGROUPS = Path("/sys/fs/cgroup")


def docker_command(directory: Path) -> list[str]:
    """Debian's dockerd with everything in one directory. Its cgroups have a parent to remove."""
    return [
        "dockerd",
        f"--host=unix://{directory}/engine.sock",
        f"--data-root={directory}/data",
        f"--exec-root={directory}/exec",
        f"--pidfile={directory}/pid",
        f"--cgroup-parent={cgroup_of(directory)}",
        "--log-level=warn",
    ]


def podman_command(directory: Path) -> list[str]:
    """Debian's Podman, which speaks the same API at its socket."""
    return [
        "podman",
        f"--root={directory}/data",
        f"--runroot={directory}/exec",
        "--runtime=runc",
        "--cgroup-manager=cgroupfs",
        "--events-backend=file",
        "system",
        "service",
        "--time=0",
        f"unix://{directory}/engine.sock",
    ]


COMMANDS = {"docker": docker_command, "podman": podman_command, "btrfs": docker_command}

CONTAINERS_CONF = """
[containers]
default_ulimits = ["nofile=1024:4096", "nproc=1024:4096"]
[network]
network_backend = "netavark"
"""


def cgroup_of(directory: Path) -> str:
    return f"acode-{directory.name}"


def mount_btrfs(directory: Path) -> None:
    """A disk whose file system counts what each layer holds, seen by the engine alone."""
    disk = directory / "disk"
    with disk.open("wb") as file:
        file.truncate(1 << 30)
    subprocess.run(["mkfs.btrfs", "-q", disk], check=True, stdout=subprocess.DEVNULL)
    (directory / "data").mkdir()
    subprocess.run(["mount", "-o", "loop", disk, directory / "data"], check=True)


def environment(directory: Path) -> dict[str, str]:
    conf = directory / "containers.conf"
    conf.write_text(CONTAINERS_CONF, encoding="ascii")
    return {**os.environ, "CONTAINERS_CONF": str(conf), "TMPDIR": str(directory)}


class Guardian:
    """Starts the engine, restarts it on SIGUSR1, ends it on SIGTERM or with its run."""

    def __init__(self, name: str, directory: Path, watched: int) -> None:
        self._command = COMMANDS[name](directory)
        self._directory = directory
        self._watched = os.pidfd_open(watched)
        self._engine: subprocess.Popen[bytes] | None = None
        self._wakeup, notes = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(notes)
        for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT):
            signal.signal(number, lambda *_: None)

    def run(self) -> None:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        self._start()
        poll = select.poll()
        poll.register(self._watched, select.POLLIN)
        poll.register(self._wakeup, select.POLLIN)
        while all(descriptor == self._wakeup for descriptor, _ in poll.poll()):
            if set(os.read(self._wakeup, 64)) != {signal.SIGUSR1}:
                break
            self._stop()
            self._start()
        self._stop()
        self._tidy()

    def _start(self) -> None:
        with (self._directory / "log").open("ab") as log:
            self._engine = subprocess.Popen(
                self._command,
                cwd=self._directory,  # its monitors leave files there
                env=environment(self._directory),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        (self._directory / "engine.pid").write_text(str(self._engine.pid), encoding="ascii")

    def _stop(self) -> None:
        assert self._engine is not None
        self._engine.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._engine.wait(STOP_SECONDS)
        self._engine.kill()
        self._engine.wait()
        with suppress(FileNotFoundError):
            (self._directory / "engine.sock").unlink()

    def _tidy(self) -> None:
        """What the engine left running, mounted or made."""
        deadline = Deadline(STOP_SECONDS)
        while signal_below(os.getpid(), signal.SIGKILL) and deadline.rest(0.05):
            reap_children()
        for line in reversed(Path("/proc/self/mounts").read_text().splitlines()):
            place = line.split()[1]
            if place.startswith(f"{self._directory}/"):
                subprocess.run(["umount", "-l", place], check=False, stderr=subprocess.DEVNULL)
        for controller in CGROUPS.glob(f"**/{cgroup_of(self._directory)}"):
            for path in sorted((p for p in controller.rglob("*") if p.is_dir()), reverse=True):
                path.rmdir()
            controller.rmdir()
        shutil.rmtree(self._directory, ignore_errors=True)


def main(name: str, directory: str, watched: str) -> None:
    if os.fork():
        os._exit(0)  # nobody's child: the run's own processes are counted at its end
    os.setsid()
    become_subreaper()
    if name == "btrfs":
        mount_btrfs(Path(directory))
    (Path(directory) / "guardian.pid").write_text(str(os.getpid()), encoding="ascii")
    Guardian(name, Path(directory), int(watched)).run()


if __name__ == "__main__":
    main(*sys.argv[1:])
