"""A project whose pool runs its tasks in containers of the tests' own engine."""

import os
from pathlib import Path
from typing import Any

from acode.runner.container.leaks import POOL, ours
from acode.runner.container.life import destroy, inspect
from tests.docker.engines import TestEngine
from tests.docker.images import BUSYBOX
from tests.pool.conftest import PoolProject


class DockerProject(PoolProject):
    """A project whose pool uses the tests' own engine."""

    def __init__(self, root: Path, engine: TestEngine) -> None:
        super().__init__(root)
        self.engine = engine
        self.env["DOCKER_HOST"] = engine.host
        self.configure()

    def configure(self, docker: dict[str, Any] | None = None, **sections: Any) -> None:
        workers = sections.pop("workers", {})
        own = {"image": BUSYBOX, "pullPolicy": "never", "statsIntervalSeconds": 0.2}
        workers = {"mode": "docker", **workers, "docker": {**own, **(docker or {})}}
        super().configure(workers=workers, **sections)

    def containers(self) -> list[dict[str, Any]]:
        """Those of this project, running or not."""
        run_dir = str(self.agent / "run")
        return [c for c in ours(self.engine.wait().api) if c["Labels"].get(POOL) == run_dir]

    def container(self) -> dict[str, Any]:
        """Everything about the only one."""
        (worker,) = self.workers()
        return inspect(self.engine.wait().api, worker["containerId"])

    def run_task(self, command: str, *flags: str) -> str:
        """What a task printed that must succeed."""
        task = self.add(command, *flags)
        done = self.wait(task)
        assert done.code == 0, (done, self.show(task))
        return self.output(task)

    def close(self) -> None:
        super().close()
        left = self.containers()
        for each in left:
            destroy(self.engine.wait().api, each["Id"])
        assert not left, "containers are left"
        control = self.agent / "run" / "containers"
        assert not control.exists() or not os.listdir(control)
