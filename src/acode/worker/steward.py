"""The steward of an attempt: makes its workspace, runs its commands there, keeps what they left.

A child of the worker and the subreaper of everything below it. It does one thing at a time and
may take as long as it needs, because the worker goes on with its loop meanwhile. When it has
tidied up it can do the next attempt, if nothing of the last one is left: no process, no mount.
"""

import os
import signal
import socket
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Literal, NoReturn

from acode.errors import AcodeError, InvalidTask, WorkspaceFailed
from acode.model.failure import Category, Failure, FailureCode
from acode.model.task import Push, WorkspaceKind
from acode.runner.artifacts import gather, keep_staged
from acode.runner.children import Tree
from acode.runner.container.seat import Seat
from acode.runner.identity import myself
from acode.runner.pipes import HandedPipes, Pipes
from acode.runner.process import fork_and_exec
from acode.runner.refusal import not_startable
from acode.runner.tree import become_subreaper, die_with_parent
from acode.worker.bounds import Bounds
from acode.worker.config import WorkerConfig
from acode.worker.confining import Confining
from acode.worker.places import Places, checkpoint, environment, final_artifacts, find_program
from acode.worker.reports import (
    Begin,
    Collect,
    Free,
    Gone,
    Kept,
    Leftovers,
    OrderReader,
    Prepared,
    Refused,
    Remark,
    Report,
    Run,
    Started,
    tell,
)
from acode.workspace.base import CommitText, Order, Workspace
from acode.workspace.delivery import Parcel, deliver
from acode.workspace.mounts import mount_table
from acode.workspace.opening import open_workspace
from acode.workspace.removal import remove


class Interrupted(Exception):
    """The worker does not want this workspace any more."""


def be_steward(
    config: WorkerConfig, inherited: dict[str, str], bounds: Bounds, wire: socket.socket
) -> NoReturn:
    """Runs in the child of the worker and never returns."""
    code = 1
    try:
        _settle_in(wire)
        _serve(config, inherited, bounds, wire)
        code = 0
    except OSError:
        pass  # the worker is gone, and so is whoever could be told
    finally:
        os._exit(code)


def _settle_in(wire: socket.socket) -> None:
    parent = os.getppid()
    die_with_parent(signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)
    become_subreaper()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    _expect_interruption()
    # The worker's sockets and logs are its own.
    kept = {0, 1, 2, wire.fileno()}
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in kept:
            with suppress(OSError):  # the one that read the list
                os.close(int(name))


def _serve(
    config: WorkerConfig, inherited: dict[str, str], bounds: Bounds, wire: socket.socket
) -> None:
    """One attempt after the other, as long as each leaves nothing behind."""
    mounts = mount_table()
    orders = OrderReader(wire)
    while isinstance(begin := orders.next(), Begin):
        pipes = HandedPipes(*orders.ends)
        bounds.limits = begin.limits
        if not begin.is_grouped:
            bounds.group = None
        steward = Steward(begin, config, inherited, pipes, wire, orders, bounds.steps())
        if not steward.run() or _has_children() or mount_table() != mounts:
            return
        pipes.close()
        orders.ends.clear()
        _expect_interruption()
        tell(wire, Free())


def _has_children() -> bool:
    try:
        os.waitpid(-1, os.WNOHANG)
    except ChildProcessError:
        return False
    return True


def _expect_interruption() -> None:
    """From here on we may be asked to end, which is heeded once there is something to end."""
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM,))
    signal.signal(signal.SIGTERM, _interrupt)


def _interrupt(_number: int, _frame: object) -> None:
    raise Interrupted


class Steward:
    """One attempt from its workspace to what is left of it."""

    def __init__(
        self,
        begin: Begin,
        config: WorkerConfig,
        inherited: dict[str, str],
        pipes: Pipes,
        wire: socket.socket,
        orders: OrderReader,
        steps: Sequence[Callable[[], None]],
    ) -> None:
        self._task = begin.task
        self._places = Places(begin.suite)
        self._config = config
        self._inherited = inherited
        self._pipes = pipes
        self._wire = wire
        self._orders = orders
        self._steps = steps
        """What a child does before it becomes a command."""

    def run(self) -> bool:
        """Everything, in order; whether it went so well that we are as we were before."""
        workspace = self._prepare()
        if workspace is not None:
            self._obey(workspace)
            workspace.close()
        remove(self._places.suite)
        return workspace is not None

    def _tell(self, report: Report) -> None:
        tell(self._wire, report)

    def _prepare(self) -> Workspace | None:
        workspace: Workspace | None = None
        try:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM,))
            workspace = open_workspace(self._order())
            self._hand_over(workspace)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        except Interrupted:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            self._tell(Refused(None))
            if workspace is not None:
                workspace.close()
        except InvalidTask as error:
            self._tell(Refused(_refused(FailureCode.INVALID_TASK, Category.PERMANENT, error)))
        except WorkspaceFailed as error:
            self._tell(Refused(_refused(FailureCode.IPC_FAILURE, Category.TRANSIENT, error)))
        except (AcodeError, OSError) as error:  # a machine that is short of something
            self._tell(Refused(None, f"no workspace: {error}"))
        else:
            for note in workspace.notes:
                self._tell(Remark("W", note))
            self._tell(Prepared())
            return workspace
        return None

    def _hand_over(self, workspace: Workspace) -> None:
        """What the container's user, who is not always ours, is to work with."""
        seat = self._task.seat
        if seat is None or os.geteuid() != 0:
            return
        from acode.worker.inside import hand_over_places, hand_over_worktree

        hand_over_places(seat, self._places, checkpoint(self._task, self._config))
        if self._task.workspace is not WorkspaceKind.PROJECT:
            hand_over_worktree(seat, workspace.path)

    def _order(self) -> Order:
        task, config = self._task, self._config
        return Order(
            task_id=task.task_id,
            number=task.number,
            worker_id=config.id,
            kind=task.workspace.value if task.workspace else "auto",
            project_root=config.project_root,
            trees=config.trees,
            base=task.base,
            commit=task.base_commit,
            remote=config.push,
            strategy=self._strategy(),
            warm=config.warm,
            copy_ignored=config.copy_ignored,
            keep=config.keep_workspaces,
            owner=myself(),
        )

    def _strategy(self) -> Literal["auto", "overlay", "warm", "plain"]:
        """What is mounted for us alone is not seen from inside a container.

        A ready tree is used again only if it is ours: as root we give it away.
        """
        if self._task.seat is not None and self._config.strategy in ("auto", "overlay"):
            return "warm" if os.geteuid() else "plain"
        return self._config.strategy

    def _obey(self, workspace: Workspace) -> None:
        while True:
            match self._orders.next():
                case Run(None):
                    self._execute(self._task.argv, self._task.cwd, workspace)
                case Run(place) if place is not None:
                    self._execute(self._task.checks[place].argv, None, workspace)
                case Collect(success):
                    self._tell(self._collect(workspace, success=success))
                    return
                case _:
                    return  # the worker is gone, or wants nothing more

    def _execute(self, argv: Sequence[str], cwd: str | None, workspace: Workspace) -> None:
        if self._task.seat is not None:
            self._execute_inside(self._task.seat, argv, cwd, workspace)
            return
        env = self._inherited | self._task.env
        env |= environment(self._task, self._config, self._places, workspace.path)
        confining = Confining(self._config)
        confinement = confining.of((*workspace.writable, self._places.suite, *self._task.writable))
        env = confining.prepare(env, confinement)
        steps = [*self._steps, *([confinement.apply] if confinement else [])]
        program = find_program(argv[0], env)
        directory = os.path.join(workspace.path, cwd or ".")
        try:
            pid = fork_and_exec((program, *argv[1:]), env, directory, self._pipes, steps)
        except OSError as error:
            failure = not_startable(program, cwd, error)
            self._tell(Refused(failure, None if failure else str(error)))
            return
        self._tell(Started())
        self._wait_for(Tree(pid))

    def _execute_inside(
        self, seat: Seat, argv: Sequence[str], cwd: str | None, workspace: Workspace
    ) -> None:
        from acode.worker.inside import Inside, environment_inside

        own = environment(self._task, self._config, self._places, workspace.path)
        inside = Inside(seat)
        directory = os.path.join(workspace.path, cwd or ".")
        env = environment_inside(self._task.env, own)
        tree = Tree(inside.start(argv, env, directory, self._pipes))
        while not tree.is_gone:
            tree.reap(wait=True)
        for report in inside.reports(argv, cwd, tree.status or 0):
            self._tell(report)

    def _wait_for(self, tree: Tree) -> None:
        told = False
        while not tree.is_gone:
            tree.reap(wait=True)
            if tree.status is not None and not tree.is_gone and not told:
                told = True
                self._tell(Leftovers())
        self._tell(Gone(tree.status or 0, tree.usage))

    def _collect(self, workspace: Workspace, *, success: bool) -> Kept:
        final = final_artifacts(self._task, self._config)
        try:
            artifacts = self._keep_files(workspace, final)
            found = workspace.collect(
                patch_file=f"{final}/changes.patch", commit=self._text() if success else None
            )
        except (AcodeError, OSError) as error:
            return Kept(problem=str(error))
        for name in found.left_out:
            self._tell(Remark("W", f"{name} is not part of the result: it cannot be kept"))
        push = self._push(found.branch) if found.branch and self._config.push else None
        return Kept(artifacts=artifacts, branch=found.branch, patch=found.patch, push=push)

    def _push(self, branch: str) -> Push:
        """Before the task counts as done: whoever comes next may begin where this branch ends."""
        task, config = self._task, self._config
        remote = config.push or ""
        parcel = Parcel(task_id=task.task_id, number=task.number, branch=branch, remote=remote)
        push = deliver(parcel, config.project_root, config.undelivered)
        if push.problem is None:
            self._tell(Remark("I", f"{branch} is pushed to {remote}"))
        else:
            self._tell(Remark("W", f"{branch} is not pushed, which is tried again: {push.problem}"))
        return push

    def _keep_files(self, workspace: Workspace, final: str) -> tuple[str, ...]:
        most = self._config.max_artifact_mb * 1024 * 1024
        found = gather(workspace.path, self._task.artifacts, final, most)
        for problem in found.problems:
            self._tell(Remark("W", problem))
        return tuple(sorted({*found.names, *keep_staged(self._places.artifacts, final)}))

    def _text(self) -> CommitText:
        subject = self._task.title.strip().partition("\n")[0][:72] or self._task.task_id
        author, _, address = self._config.author.partition(" <")
        message = f"{subject}\n\nTask: {self._task.task_id}\n"
        return CommitText(message, author, address.removesuffix(">"))


def _refused(code: FailureCode, category: Category, error: AcodeError) -> Failure:
    return Failure(code, category, str(error), error.hint, final=category is Category.PERMANENT)
