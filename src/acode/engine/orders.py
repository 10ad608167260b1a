"""From a lease to what a worker is told."""

import os
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import cache

from acode.engine.tenure import Tenure
from acode.model.agent import AgentRules
from acode.model.limits import AttemptLimits
from acode.model.task import Lease, Mode, TaskLimits, TaskSpec, WorkspaceKind
from acode.policy.commands import SHELL, argv_of
from acode.policy.limits import granted
from acode.runner import function
from acode.runner.container.seat import Wanted
from acode.runner.environment import chosen
from acode.settings import Settings
from acode.settings.derived import task_ceilings, usual_limits
from acode.settings.tree import Agent
from acode.worker.messages import Assignment, Check

_UNSAID = TaskLimits()


class Orders:
    """Writes assignments by the settings of the pool."""

    def __init__(
        self,
        settings: Settings,
        project_root: str,
        environ: Mapping[str, str],
        tenure: Tenure,
    ) -> None:
        self._settings = settings
        self._tenure = tenure
        self._root = project_root
        self._agents = {name: agent.command for name, agent in settings.agents.items()}
        # Secrets that an agent may see travel with its own tasks only.
        self._passed = {
            name: chosen(environ, agent.pass_) for name, agent in settings.agents.items()
        }
        self._has_environment = any(name in environ for name in ("VIRTUAL_ENV", "CONDA_PREFIX"))
        self._checks = _checks(settings)
        self._repositories = _possible_repositories(project_root)
        agents = settings.agents.items()
        self._rules = {name: _rules(agent) for name, agent in agents}
        self._verified = {
            name: (_check("verify", agent.verify),) for name, agent in agents if agent.verify
        }
        self._usual = usual_limits(settings)
        self._ceilings = task_ceilings(settings)

    def assignment(self, lease: Lease) -> Assignment:
        """Everything the worker needs to know."""
        spec = lease.task.spec
        return Assignment(
            task_id=lease.task.id,
            token=lease.token,
            number=lease.number,
            argv=self._argv(lease),
            env=self._settings.environment.set | self._passed.get(spec.type, {}) | spec.env,
            timeout_seconds=spec.timeout_seconds or self._settings.tasks.timeout_seconds,
            kill_timeout_seconds=self._settings.workers.process.kill_timeout_seconds,
            limits=self.limits(spec),
            cwd=spec.cwd,
            workspace=spec.workspace or self._default_workspace(),
            base=spec.base,
            base_commit=spec.base_commit,
            checks=self._checks + self._verified.get(spec.type, ()),
            artifacts=(*self._settings.tasks.artifacts, *spec.artifacts),
            title=_title(spec),
            agent=self._rules.get(spec.type),
            writable=self._writable(spec.type),
            is_function=spec.type == "python",
            wanted=self._wanted(spec),
            passed=tuple(self._passed.get(spec.type, ())),
            tenure=self._tenure.told,
        )

    def _wanted(self, spec: TaskSpec) -> Wanted | None:
        """The container that a task is to run in; None if it is to run as a process."""
        if (spec.mode or self._settings.workers.mode) is Mode.PROCESS:
            return None
        image, share = spec.metadata.get("image"), spec.limits.cpu_percent
        return Wanted(
            image=str(image) if image else None,
            memory_mb=spec.limits.memory_mb,
            cpus=None if share is None else share / 100,
            project_writable=spec.workspace is WorkspaceKind.PROJECT,
        )

    def _writable(self, kind: str) -> tuple[str, ...]:
        """The agent's own directories. What is not there could not be opened to it alone."""
        agent = self._settings.agents.get(kind)
        if agent is None or not agent.write_paths:
            return ()
        paths = [os.path.join(self._root, os.path.expanduser(each)) for each in agent.write_paths]
        for path in paths:
            with suppress(OSError):  # the agent itself will say what it cannot do
                os.makedirs(path, mode=0o700, exist_ok=True)
        return tuple(paths)

    def _python(self) -> str:
        """The project's own Python, that of the user's shell, or the one that acode runs with."""
        for folder in (".venv", "venv"):
            python = os.path.join(self._root, folder, "bin", "python")
            if os.access(python, os.X_OK):
                return python
        return "python3" if self._has_environment else sys.executable

    def limits(self, spec: TaskSpec) -> AttemptLimits:
        """What an attempt of this task is held to."""
        if spec.limits == _UNSAID:
            return self._usual
        return granted(spec.limits, self._usual, self._ceilings)

    def _argv(self, lease: Lease) -> tuple[str, ...]:
        spec = lease.task.spec
        if spec.type == "python":
            python = "python3" if spec.mode is Mode.DOCKER else self._python()
            words = (lease.token, self._root, spec.command, *spec.args)
            return (python, "-c", _function_runner(), *words)
        return argv_of(spec, agents=self._agents, project_root=self._root)

    def _default_workspace(self) -> WorkspaceKind | None:
        """A worktree, as far as can be told by a glance; the worker looks closer."""
        # Each time: a project may become a repository, or be none any more, while the pool runs.
        for path in self._repositories:
            if os.access(path, os.F_OK):
                return None
        return WorkspaceKind.SCRATCH


def _possible_repositories(directory: str) -> list[str]:
    """Where the .git that a directory belongs to can be, the nearest first."""
    paths = [os.path.join(directory, ".git")]
    while (above := os.path.dirname(directory)) != directory:
        paths.append(os.path.join(above, ".git"))
        directory = above
    return paths


def _checks(settings: Settings) -> tuple[Check, ...]:
    tasks = settings.tasks
    lines = {"buildCommand": tasks.build_command, "testCommand": tasks.test_command}
    return tuple(_check(name, line) for name, line in lines.items() if line)


def _check(name: str, line: str) -> Check:
    return Check(name, (SHELL, "-c", line))


def _rules(agent: Agent) -> AgentRules:
    return AgentRules(
        format=agent.format,
        idle_timeout_seconds=agent.idle_timeout_seconds,
        result_grace_seconds=agent.result_grace_seconds,
    )


@cache
def _function_runner() -> str:
    with open(function.__file__, encoding="utf-8") as file:
        return file.read()


def _title(spec: TaskSpec) -> str:
    return spec.title or " ".join((spec.command, *spec.args))
