"""A throwaway project with a real pool, and a teardown that lets nothing of it slip away."""

import json
import os
import shlex
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest

from acode.clock import Deadline
from acode.engine.lock import holder
from tests.cli.conftest import Done, Project

T = TypeVar("T")

PATIENCE = 60.0
"""Far beyond what anything takes; a busy machine is not a bug."""


def eventually(condition: Callable[[], T], seconds: float = PATIENCE) -> T:
    """Wait until something holds, and give it back."""
    deadline = Deadline(seconds)
    while not (found := condition()):
        assert deadline.rest(0.02), "it never came true"
    return found


class PoolProject:
    """A project directory, its pool, and everything that can be done to both."""

    def __init__(self, root: Path) -> None:
        root.mkdir(parents=True, exist_ok=True)
        (root / ".agent").mkdir()
        self.root = root
        self.agent = root / ".agent"
        self.cli = Project(root)
        self.env = self.cli.env
        # Most tests look at what tasks leave beside their workspace, or let them kill their worker.
        self.env["ACODE_SANDBOX__LEVEL"] = "off"
        self.abandoned = False
        """A daemon was killed and no other has cleaned up after it."""
        self.keeps_workspaces = False
        self.fuse = root.with_name("fuse")

    # The command line.

    def run(self, *words: str, **options: Any) -> Done:
        return self.cli.run(*words, **options)

    def ask(self, *words: str) -> Any:
        """The JSON answer of a command that must succeed."""
        return self.cli.ask(*words)

    def popen(self, *words: str, **options: Any) -> "subprocess.Popen[str]":
        """A command that goes on while the test does."""
        return self.cli.start(*words, **options)

    def configure(self, **sections: Any) -> None:
        """Write config.yml anew."""
        (self.agent / "config.yml").write_text(json.dumps(sections), encoding="utf-8")

    # Tasks.

    def add(self, command: str, *flags: str) -> str:
        """The id of a new task for the shell."""
        return self.cli.add(*flags, "--", command)

    def add_all(self, specs: list[dict[str, Any]]) -> list[str]:
        """The ids of a batch."""
        done = self.run("task", "add", "-", "--json", text=json.dumps({"tasks": specs}))
        assert done.code == 0, done
        added = done.json if len(specs) > 1 else [done.json]
        return [task["id"] for task in added]

    def show(self, task: str) -> Any:
        return self.ask("task", "show", task)

    def status(self, task: str) -> Any:
        return self.show(task)["status"]

    def wait(self, *tasks: str) -> Done:
        return self.run("task", "wait", *tasks, "--timeout", str(PATIENCE))

    def output(self, task: str) -> str:
        """What a task printed."""
        done = self.run("task", "logs", task, "--format", "json")
        lines = [json.loads(line) for line in done.out.splitlines()]
        return "\n".join(line["message"] for line in lines if line["stream"] == "stdout")

    def hold(self, name: str, *flags: str, stubborn: bool = False) -> str:
        """A task that has begun and goes on until `let_go`; a stubborn one ignores SIGTERM."""
        started, go = self.root / f"{name}.started", self.root / f"{name}.go"
        deaf = "trap '' TERM; " if stubborn else ""
        task = self.add(
            f"{deaf}touch {shlex.quote(str(started))}; "
            f"while [ ! -e {shlex.quote(str(go))} ]; do sleep 0.02; done",
            *flags,
        )
        eventually(started.exists)
        return task

    def let_go(self, name: str) -> None:
        (self.root / f"{name}.go").touch()

    # The pool.

    def start(self, *flags: str, count: int | None = 2) -> Done:
        """Start the pool; it must succeed."""
        counted = () if count is None else ("--count", str(count))
        done = self.run("worker", "start", *counted, *flags)
        assert done.code == 0, done
        self.abandoned = False
        return done

    def stop(self, *flags: str) -> Done:
        """Stop the pool; it must succeed."""
        done = self.run("worker", "stop", *flags)
        assert done.code == 0, done
        return done

    def pool(self) -> Any:
        """`worker status --json`."""
        return self.ask("worker", "status")

    def workers(self) -> list[Any]:
        """`worker list --json`."""
        return list(self.ask("worker", "list"))

    def worker_pids(self) -> list[int]:
        return [worker["pid"] for worker in self.workers()]

    @property
    def daemon(self) -> psutil.Process:
        """The running daemon."""
        found = holder(str(self.agent / "run" / "daemon.lock"))
        assert found is not None, "no daemon runs"
        return psutil.Process(found.pid)

    def kill_hard(self) -> None:
        """End the daemon by SIGKILL. Its workers go on."""
        daemon = self.daemon
        zygotes = [child for child in daemon.children() if is_zygote(child)]
        self.abandoned = True
        os.kill(daemon.pid, signal.SIGKILL)
        psutil.wait_procs([daemon, *zygotes], timeout=PATIENCE)

    @property
    def zygote(self) -> psutil.Process:
        """The process that workers are forked from."""
        (found,) = [child for child in self.daemon.children() if is_zygote(child)]
        return found

    def has_daemon(self) -> bool:
        return holder(str(self.agent / "run" / "daemon.lock")) is not None

    # Faults.

    def prepare_fault(self, step: str, action: str = "kill", *, call: int = 1) -> None:
        """The next daemon, or one of its processes, is struck at this step once it is armed."""
        self.env["PYTHONPATH"] = str(Path(__file__).parent / "faults")
        self.env["FAULT"] = f"{step}:{call}:{action}"
        self.env["FAULT_FUSE"] = str(self.fuse)

    def arm(self) -> None:
        self.fuse.touch()

    def is_struck(self) -> bool:
        return not self.fuse.exists()

    def daemon_log(self) -> str:
        return (self.agent / "logs" / "daemon.log").read_text(encoding="utf-8")

    # What is left.

    def processes(self) -> list[psutil.Process]:
        """Every process that works for this project, in whatever session."""
        return [process for process in psutil.process_iter() if self._is_ours(process)]

    def _is_ours(self, process: psutil.Process) -> bool:
        root = str(self.root.resolve())
        try:
            if process.pid == os.getpid() or process.status() == psutil.STATUS_ZOMBIE:
                return False
            environ = process.environ().get("ACODE_WORKTREE_PATH", "")
            return any(f"{place}/".startswith(f"{root}/") for place in (process.cwd(), environ))
        except (psutil.Error, OSError):  # or its directory is too deep for a path
            return False

    def zombies(self) -> list[psutil.Process]:
        """Processes of this pool that have ended and that nobody has taken notice of."""
        below = self.daemon.children(recursive=True) if self.has_daemon() else []
        return [process for process in below if _is_zombie(process)]

    def leftovers(self) -> list[str]:
        """Sockets and temporary files that a stopped pool must not leave."""
        run = self.agent / "run"
        folders = [run / name for name in ("workers", "spool", "tmp", "cgroups")]
        if not self.keeps_workspaces:
            folders.append(self.agent / "worktrees")
        left = [path for folder in folders if folder.is_dir() for path in folder.iterdir()]
        # What workspaces share stays for the next ones; of no single one anything may.
        shared = self.agent / "worktrees"
        kept = {shared / ".bases", shared / ".warm"}
        if not any((shared / ".trash").glob("*")):
            kept.add(shared / ".trash")
        return [str(path) for path in (*run.glob("*.sock"), *left) if path not in kept]

    def close(self) -> None:
        """Stop what runs, clean up after what was killed, and fail if anything is left."""
        (self.agent / "config.yml").unlink(missing_ok=True)
        ended = self.run("worker", "stop", "--force")
        if self.abandoned:
            self.run("queue", "pause")
            self.start(count=1)
            ended = self.run("worker", "stop", "--force")
        _, alive = psutil.wait_procs(self.processes(), timeout=5)
        commands = [process.as_dict(["pid", "cmdline", "cwd"]) for process in alive]
        for process in alive:
            process.kill()
        assert ended.code == 0, ended
        assert not commands, f"processes are left: {commands}"
        assert not self.leftovers()


def is_gone(process: psutil.Process) -> bool:
    """Whether it has ended; that nobody has taken notice yet does not matter."""
    return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE


def _is_zombie(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False


def is_zygote(process: psutil.Process) -> bool:
    """Workers have the same command line, but they work elsewhere."""
    return "acode.worker.zygote" in process.cmdline() and not process.cwd().endswith("/run")


@pytest.fixture
def pool_project(tmp_path: Path) -> Iterator[PoolProject]:
    """An empty project; its pool is started by the test and ended here."""
    project = PoolProject(tmp_path / "project")
    yield project
    project.close()
