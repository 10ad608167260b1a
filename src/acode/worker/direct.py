"""The short way: the worker spawns the command itself, with nothing to do before and after."""

import os
import signal

from acode.model.ending import Usage
from acode.model.task import WorkspaceKind
from acode.runner.artifacts import keep_staged
from acode.runner.children import Tree
from acode.runner.pipes import Pipes
from acode.runner.process import fork_and_exec, spawn
from acode.runner.refusal import not_startable
from acode.runner.sandbox import Confinement
from acode.runner.tree import signal_below
from acode.worker.bounds import Bounds
from acode.worker.config import WorkerConfig
from acode.worker.course import Listener
from acode.worker.messages import Assignment
from acode.worker.places import Places, Shelves, environment, final_artifacts, find_program
from acode.worker.reports import Kept, Refused


class Direct:
    """A command in a scratch directory or in the project itself."""

    def __init__(
        self,
        task: Assignment,
        config: WorkerConfig,
        shelves: Shelves,
        inherited: dict[str, str],
        strangers: set[int],
        listener: Listener,
        bounds: Bounds,
    ) -> None:
        self.pipes = self._open_pipes()
        self._task = task
        self._config = config
        self._shelves = shelves
        self._inherited = inherited
        self._strangers = strangers
        """Children of the worker that have nothing to do with this attempt."""
        self._listener = listener
        self._bounds = bounds
        self._places: Places | None = None
        self._tree: Tree | None = None
        self._program = ""

    def _open_pipes(self) -> Pipes:
        return Pipes()

    def start(self) -> None:
        """Prepare and spawn."""
        self._program = self._task.argv[0]
        try:
            self._tree = Tree(self._begin(*self._prepare()))
        except OSError as error:
            self._refuse(self._program, error)
        finally:
            os.chdir(self._config.run_dir)

    def _begin(self, places: Places, workspace: str) -> int:
        """Start the command; its pid."""
        task = self._task
        env = self._inherited | task.env
        env |= environment(task, self._config, places, workspace)
        confinement = self._bounds.confining.of(
            (*self._writable(places, workspace), *task.writable)
        )
        env = self._bounds.confining.prepare(env, confinement)
        self._program = find_program(self._program, env)
        directory = os.path.join(workspace, task.cwd) if task.cwd else workspace
        words = (self._program, *task.argv[1:])
        self._listener.on_begin()
        return self._spawn(words, env, directory, confinement)

    def _spawn(
        self,
        argv: tuple[str, ...],
        env: dict[str, str],
        directory: str,
        confinement: Confinement | None,
    ) -> int:
        needs_fork = confinement is not None and confinement.needs_fork
        if self._bounds.must_fork or needs_fork:
            steps = [*self._bounds.steps(), *([confinement.apply] if confinement else [])]
            return fork_and_exec(argv, env, directory, self.pipes, steps)
        os.chdir(directory)
        return self._bounds.spawn(confinement, lambda: spawn(argv, env, self.pipes))

    def _writable(self, places: Places, workspace: str) -> tuple[str, ...]:
        return (places.suite,) if places.has_workspace else (workspace, places.suite)

    def _prepare(self) -> tuple[Places, str]:
        """Fresh directories, and the one that the command works in."""
        task, elsewhere = self._task, self._task.workspace is WorkspaceKind.PROJECT
        places = self._shelves.hand_out(task.task_id, task.number, workspace=not elsewhere)
        self._places = places
        return places, self._config.project_root if elsewhere else places.workspace

    def _refuse(self, program: str, error: OSError) -> None:
        failure = not_startable(program, self._task.cwd, error)
        self._listener.on_refused(Refused(failure, None if failure else str(error)))

    def run_check(self, place: int) -> None:
        """There are none."""
        raise AssertionError(f"check {place} of a plain command")

    def collect(self, *, success: bool) -> None:  # noqa: ARG002 -- the same either way
        """Move what the command left on purpose to its place."""
        self._listener.on_kept(self._keep())

    def _keep(self) -> Kept:
        if self._places is None or not self._shelves.has_artifacts(self._places):
            return Kept()
        try:
            final = final_artifacts(self._task, self._config)
            return Kept(artifacts=keep_staged(self._places.artifacts, final))
        except OSError as error:
            self._listener.on_remark("X", f"artifacts cannot be kept: {error}")
            return Kept()

    def signal(self, number: signal.Signals) -> None:
        """Signal everything below the worker that belongs to this attempt."""
        signal_below(os.getpid(), number, self._strangers)

    def on_child(self) -> None:
        """Find out whether it was the command, or the last of what it left."""
        if self._tree is None or self._tree.is_gone:
            return
        if self._tree.reap(self._strangers):
            self._listener.on_over(self._tree.status or 0)
        elif self._tree.status is not None:
            self._listener.on_strays()

    def abandon(self) -> None:
        """Go on as if it were gone."""
        if self._tree is not None:
            self._tree.is_gone = True
            self._listener.on_over(self._tree.status or 0)

    def clean(self) -> None:
        """Remove the directories."""
        self.pipes.close()
        if self._places is not None:
            self._shelves.take_back(self._places)

    @property
    def usage(self) -> Usage:
        """What the command's tree has used."""
        return self._tree.usage if self._tree else Usage()
