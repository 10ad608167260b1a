"""One attempt, from its directories to its ending."""

import os
import shutil
import signal
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from acode.clock import Clock, ticks
from acode.model.ending import (
    Cancelled,
    Ending,
    Exited,
    NotStarted,
    Released,
    Signalled,
    TimedOut,
    Usage,
)
from acode.model.failure import Failure
from acode.observe.log import OutputLog
from acode.runner.artifacts import keep_artifacts
from acode.runner.process import LocalProcess, Phase, read_available
from acode.runner.refusal import not_startable
from acode.runner.shelf import Shelf
from acode.worker.loop import Loop
from acode.worker.messages import Assignment, Ended, Why, WorkerConfig

STRAY_GRACE_SECONDS = 0.5
"""How long what a command left behind may take to end itself."""
HOPELESS_SECONDS = 10.0
"""After that long in vain, a process is stuck in the kernel and nobody can end it."""


class Places(NamedTuple):
    """The directories of one attempt."""

    workspace: str
    temporary: str
    artifacts: str


class Shelves:
    """Where the directories of a worker's attempts come from."""

    def __init__(self, config: WorkerConfig) -> None:
        self._config = config
        self._home = os.path.join(config.run_dir, "tmp", config.id)
        self._trees = f"{config.worktrees}/{config.id}"
        # What a worker of this name left when it was killed.
        self.clear()
        self._workspaces = Shelf(self._trees, "spare")
        self._temporaries = Shelf(self._home, "tmp")
        self._artifacts = Shelf(self._home, "artifacts")

    def hand_out(self, task_id: str, number: int) -> Places:
        """Fresh, empty directories."""
        workspace = f"{self._trees}/{task_id}"
        places = Places(
            # A kept workspace of an earlier attempt stays as it is.
            f"{workspace}-{number}" if os.path.lexists(workspace) else workspace,
            os.path.join(self._home, f"tmp-{task_id}-{number}"),
            f"{self._home}/artifacts-{task_id}-{number}",
        )
        self._workspaces.hand_out(places.workspace)
        self._temporaries.hand_out(places.temporary)
        self._artifacts.hand_out(places.artifacts)
        return places

    def take_back(self, places: Places) -> None:
        """Remove them with everything in them, but for a workspace that is to be kept."""
        if not self._config.keep_workspaces:
            self._workspaces.take_back(places.workspace)
        self._temporaries.take_back(places.temporary)
        self._artifacts.take_back(places.artifacts)

    def clear(self) -> None:
        """Remove everything of this worker, but for workspaces that are to be kept."""
        shutil.rmtree(self._home, ignore_errors=True)
        if not self._config.keep_workspaces:
            shutil.rmtree(self._trees, ignore_errors=True)
            return
        with suppress(OSError):  # not there, or not empty
            os.rmdir(self._trees)


class Attempt:
    """A command that runs, and what is to become of it."""

    def __init__(
        self,
        assignment: Assignment,
        config: WorkerConfig,
        shelves: Shelves,
        output: OutputLog,
        clock: Clock,
    ) -> None:
        self.assignment = assignment
        self.ended: Ended | None = None
        self._config = config
        self._shelves = shelves
        self._output = output
        self._clock = clock
        self._places: Places | None = None
        self._process: LocalProcess | None = None
        self._stopped_as: Ending | None = None
        self._timeout_at = ticks() + assignment.timeout_seconds
        self._kill_at: float | None = None
        self._hopeless_at: float | None = None

    def start(self, loop: Loop, inherited: dict[str, str]) -> None:
        """Prepare and spawn; a command that cannot be started ends at once."""
        task = self.assignment
        self._output.begin(task.task_id, task.number)
        program = task.argv[0]
        try:
            self._places = self._shelves.hand_out(task.task_id, task.number)
            env = inherited | task.env | self._environment(self._places)
            if "/" not in program:
                program = shutil.which(program, path=env.get("PATH")) or program
            os.chdir(os.path.join(self._places.workspace, task.cwd or "."))
            self._process = LocalProcess((program, *task.argv[1:]), env)
        except OSError as error:
            self._refuse(not_startable(program, task.cwd, error), error)
            return
        finally:
            os.chdir(self._config.run_dir)
        for tag, descriptor in _pipes(self._process):
            loop.watch(descriptor, partial(self._read, tag, descriptor))

    def _refuse(self, failure: Failure | None, error: OSError) -> None:
        if failure is not None:
            self._end(NotStarted(failure))
        else:
            # A machine that is short of something is not the task's fault.
            self._end(Released("the machine could not start it"), setback=str(error))

    def _environment(self, places: Places) -> dict[str, str]:
        task = self.assignment
        return {
            "ACODE_TASK_ID": task.task_id,
            "ACODE_WORKER_ID": self._config.id,
            "ACODE_WORKTREE_PATH": places.workspace,
            "ACODE_CONFIG_PATH": self._config.config_file,
            "ACODE_ATTEMPT": str(task.number),
            "ACODE_ATTEMPT_TOKEN": task.token,
            "ACODE_ARTIFACTS_DIR": places.artifacts,
            "ACODE_CHECKPOINT": self._checkpoint,
            "TMPDIR": places.temporary,
            "PWD": places.workspace,
        }

    @property
    def _checkpoint(self) -> str:
        """A file that is handed to the next attempt, until one succeeds."""
        return f"{self._config.run_dir}/checkpoints/{self.assignment.task_id}"

    def _read(self, tag: str, descriptor: int) -> bool:
        """Write down what has come; says whether there was anything."""
        data = read_available(descriptor)
        if data:
            self._output.write(tag, data, self._clock.now())
        return bool(data)

    @property
    def deadline(self) -> float | None:
        """When this attempt needs attention although nothing happens."""
        waits = [t for t in (self._kill_at, self._hopeless_at) if t is not None]
        if self._process is not None and self._stopped_as is None:
            waits.append(self._timeout_at)
        return min(waits, default=None)

    def on_time(self, loop: Loop) -> None:
        """Do what is due."""
        now = ticks()
        if self._hopeless_at is not None and now >= self._hopeless_at:
            self._system("X", "something of this attempt cannot be killed; giving it up")
            self._finish(loop)
        elif self._kill_at is not None and now >= self._kill_at:
            self._kill()
        elif self._stopped_as is None and now >= self._timeout_at:
            self._system("W", f"timed out after {self.assignment.timeout_seconds:g} s")
            self._stop(TimedOut(self.assignment.timeout_seconds), force=False)

    def abort(self, why: Why, *, force: bool) -> None:
        """End the command because somebody wants so."""
        ending = Cancelled() if why is Why.CANCEL else Released("interrupted")
        self._system("W", "cancelled" if why is Why.CANCEL else "interrupted; it will run again")
        self._stop(ending, force=force)

    def _stop(self, ending: Ending, *, force: bool) -> None:
        if self._process is None:
            return
        # The first reason stands; a second one can only make it faster.
        self._stopped_as = self._stopped_as or ending
        if force:
            self._kill()
        elif self._kill_at is None and self._hopeless_at is None:
            self._system("I", "sent SIGTERM")
            self._process.signal(signal.SIGTERM)
            # A stopped process hears nothing but SIGKILL and SIGCONT.
            self._process.signal(signal.SIGCONT)
            self._kill_at = ticks() + self.assignment.kill_timeout_seconds

    def _kill(self) -> None:
        if self._process is not None:
            self._system("W", "sent SIGKILL")
            self._process.signal(signal.SIGKILL)
            self._kill_at = None
            self._hopeless_at = self._hopeless_at or ticks() + HOPELESS_SECONDS

    def on_child(self, loop: Loop) -> None:
        """Some child has ended."""
        if self._process is None:
            return
        was, phase = self._process.phase, self._process.reap()
        if phase is Phase.GONE:
            self._finish(loop)
        elif phase is Phase.CLEARING and (was is Phase.RUNNING or self._kill_at is None):
            self._clear_strays()

    def _clear_strays(self) -> None:
        """The command is gone: what it left behind goes too, gently if it hurries."""
        if self._process is None:
            return
        if self._hopeless_at is not None:
            self._process.signal(signal.SIGKILL)
        else:
            self._system("W", "ending what the command left running")
            self._process.signal(signal.SIGTERM)
            self._kill_at = ticks() + STRAY_GRACE_SECONDS

    def _finish(self, loop: Loop) -> None:
        process = self._process
        if process is None:
            return
        for tag, descriptor in _pipes(process):
            loop.forget(descriptor)
            while self._read(tag, descriptor):
                pass
        process.close()
        self._end(self._stopped_as or _ending_of(process.status))

    def _end(self, ending: Ending, setback: str | None = None) -> None:
        task = self.assignment
        if ending == Exited(0):
            with suppress(FileNotFoundError):
                os.unlink(self._checkpoint)
        self.ended = Ended(
            task_id=task.task_id,
            token=task.token,
            number=task.number,
            ending=ending,
            ended_at=self._clock.now(),
            usage=self._process.usage if self._process else Usage(),
            artifacts=self._keep_artifacts(),
            setback=setback,
        )

    def _keep_artifacts(self) -> tuple[str, ...]:
        if self._places is None:
            return ()
        try:
            if not os.listdir(self._places.artifacts):
                return ()
            return keep_artifacts(self._places.artifacts, self._final_artifacts())
        except OSError as error:
            self._system("X", f"artifacts cannot be kept: {error}")
            return ()

    def _final_artifacts(self) -> str:
        return f"{self._config.agent_dir}/artifacts/{self.assignment.task_id}"

    def clean(self) -> None:
        """Remove what the attempt no longer needs."""
        self._output.end()
        if self._places is not None:
            self._shelves.take_back(self._places)

    def _system(self, tag: str, message: str) -> None:
        self._output.write(tag, message.encode() + b"\n", self._clock.now())


def _pipes(process: LocalProcess) -> tuple[tuple[str, int], tuple[str, int]]:
    return ("O", process.stdout), ("E", process.stderr)


def _ending_of(status: int | None) -> Ending:
    code = 0 if status is None else os.waitstatus_to_exitcode(status)
    return Exited(code) if code >= 0 else Signalled(-code)
