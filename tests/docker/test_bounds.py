"""Bounds of a container: how long it may take to end, to be fetched, and what it costs."""

import os

import psutil
import pytest
from msgspec.structs import replace

from acode.clock import Deadline, SystemClock
from acode.engine.berths import Berths
from acode.engine.fitting import Fitting, pulling_of
from acode.engine.roster import Roster
from acode.observe.events import Events
from acode.runner.container.discovery import Engine
from acode.runner.container.images import ImageUnavailable, ensure_image
from acode.runner.container.stats import Meter
from acode.settings import Settings
from acode.worker.config import WorkerConfig
from tests.docker.project import DockerProject
from tests.docker.test_images import Serve, serve

pytestmark = pytest.mark.needs("docker")

__all__ = ["serve"]
MEGABYTE = 1024 * 1024


@pytest.mark.req("027b-NFR-002")
def test_a_container_that_hears_nothing_is_killed_after_its_grace(project: DockerProject) -> None:
    """Ten seconds unless set otherwise, after which the engine does not ask any more."""
    project.configure(docker={"statsIntervalSeconds": 60})
    project.start(count=1)
    container = project.container()
    assert container["Config"]["StopTimeout"] == 10
    psutil.Process(container["State"]["Pid"]).children()[0].suspend()
    project.stop()
    assert not project.containers()
    assert exit_codes(project, container["Id"]) == ["137"]


def exit_codes(project: DockerProject, container: str) -> list[str]:
    """How a container ended each time, as its engine remembers."""
    until = str(SystemClock().now() // 1000 + 1)
    filters = {"container": [container], "event": ["die"]}
    api = project.engine.wait().api
    said = api.stream("GET", "/events", Deadline(30), since="0", until=until, filters=filters)
    return [event["Actor"]["Attributes"]["exitCode"] for event in said]


@pytest.mark.req("027b-NFR-003")
def test_a_fetch_is_given_up_after_five_minutes(serve: Serve, engine: Engine) -> None:
    usual = pulling_of(Settings().workers.docker)
    assert usual.seconds == 5 * 60
    image = serve(delay=30).image("slowest")
    with pytest.raises(ImageUnavailable, match=r"does not answer|longer than"):
        ensure_image(engine.api, image, replace(usual, seconds=0.5, tries=1))


@pytest.mark.req("027b-NFR-005")
def test_a_container_costs_little_memory_beside_its_task(project: DockerProject) -> None:
    project.start(count=1)
    container = project.container()
    used = Meter(project.engine.wait().api, container["Id"]).read()
    shim = psutil.Process(container["State"]["Pid"]).parent()
    assert shim is not None
    assert 0 < used.memory_bytes + shim.memory_full_info().pss < 50 * MEGABYTE


@pytest.mark.req("027b-FR-044")
async def test_containers_are_looked_at_every_five_seconds(project: DockerProject) -> None:
    config = WorkerConfig(
        id="w",
        project_root=str(project.root),
        agent_dir=str(project.agent),
        config_file="",
        worktrees="",
        heartbeat_ms=1000,
        on_daemon_exit="keep",
        log_max_bytes=1,
        log_max_files=1,
    )
    events = Events()
    fitting = Fitting(Settings(), config, keep=False)
    berths = Berths(fitting, os.environ, Roster(events), events)
    assert await berths.tick() == 5.0
    await berths.close()
