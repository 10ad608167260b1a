"""Images are fetched from a registry: when, how often, and what is said when it does not work."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from acode.runner.container.api import EngineError
from acode.runner.container.discovery import Engine
from acode.runner.container.images import (
    ImageUnavailable,
    Progress,
    Pulling,
    ensure_image,
    has_image,
)
from tests.cli.test_terminal import Terminal
from tests.docker.engines import ROOT, TestEngine
from tests.docker.project import DockerProject

pytestmark = pytest.mark.needs("docker")

PORT = 5000 + os.getpid() % 20000


class Registry:
    """A registry that serves one image under any name."""

    def __init__(self, engine: TestEngine, failures: int, delay: float, gate: str) -> None:
        words = (
            sys.executable,
            "-m",
            "tests.docker.registry",
            str(PORT),
            str(failures),
            str(delay),
            gate,
        )
        self._process = subprocess.Popen(
            engine.inside(*words), cwd=ROOT, stdout=subprocess.PIPE, text=True
        )
        self._said = ""
        assert self._process.stdout is not None
        assert self._process.stdout.readline() == "ready\n"

    def image(self, name: str) -> str:
        return f"127.0.0.1:{PORT}/{name}-{os.getpid()}:1"

    def close(self) -> int:
        """How many manifests were asked for with their names."""
        if self._process.returncode is None:
            self._process.terminate()
            self._said = self._process.communicate()[0]
        return self._said.count("manifest")


Serve = Callable[..., Registry]


@pytest.fixture
def serve(docker: TestEngine) -> Iterator[Serve]:
    made: list[Registry] = []

    def start(failures: int = 0, delay: float = 0, gate: str = "") -> Registry:
        made.append(Registry(docker, failures, delay, gate))
        return made[-1]

    yield start
    for registry in made:
        registry.close()


@pytest.mark.req("027b-FR-008", "027b-AC-003")
def test_a_missing_image_is_fetched_with_progress(serve: Serve, engine: Engine) -> None:
    image = serve().image("fetched")
    told: list[Progress] = []
    assert not has_image(engine.api, image)
    ensure_image(engine.api, image, Pulling(), told.append)
    assert has_image(engine.api, image)
    assert told[0] == Progress(image, 0, 0)
    assert told[-1].done_bytes == told[-1].total_bytes


def test_an_image_that_is_there_is_not_fetched(serve: Serve, engine: Engine) -> None:
    registry = serve()
    image = registry.image("there")
    ensure_image(engine.api, image, Pulling())
    registry.close()
    ensure_image(engine.api, image, Pulling())
    with pytest.raises(ImageUnavailable):
        ensure_image(engine.api, image, Pulling(policy="always", tries=1))


@pytest.mark.req("027b-FR-010", "027b-FR-011")
def test_a_fetch_that_fails_is_tried_three_times(serve: Serve, engine: Engine) -> None:
    rests: list[float] = []
    image = serve(failures=1000).image("broken")
    with pytest.raises(ImageUnavailable, match="cannot be fetched, after 3 tries"):
        ensure_image(engine.api, image, Pulling(), rest=rests.append)
    assert rests == [1.0, 2.0]


def test_a_fetch_that_fails_once_succeeds_the_next_time(serve: Serve, engine: Engine) -> None:
    rests: list[float] = []
    image = serve(failures=2).image("flaky")
    ensure_image(engine.api, image, Pulling(), rest=rests.append)
    assert has_image(engine.api, image)
    assert rests


@pytest.mark.req("027b-FR-009")
def test_a_fetch_that_takes_too_long_is_given_up(serve: Serve, engine: Engine) -> None:
    image = serve(delay=30).image("slow")
    with pytest.raises(ImageUnavailable, match="cannot be fetched"):
        ensure_image(engine.api, image, Pulling(seconds=0.5, tries=1))


def test_an_image_that_must_not_be_fetched_is_not(serve: Serve, engine: Engine) -> None:
    registry = serve()
    with pytest.raises(ImageUnavailable, match="pullPolicy is never"):
        ensure_image(engine.api, registry.image("never"), Pulling(policy="never"))
    assert registry.close() == 0


@pytest.mark.req("027b-FR-005", "027b-FR-008")
def test_a_pool_fetches_its_image_before_it_starts(serve: Serve, project: DockerProject) -> None:
    image = serve().image("pool")
    project.configure(docker={"image": image, "pullPolicy": "ifNotPresent"})
    done = project.start(count=1)
    assert f"fetching the image {image}" in done.err
    assert project.container()["Config"]["Image"] == image


def test_a_terminal_shows_how_far_a_fetch_has_come(serve: Serve, project: DockerProject) -> None:
    gate = project.root / "gate"
    image = serve(gate=str(gate)).image("bar")
    project.configure(docker={"image": image, "pullPolicy": "ifNotPresent"})
    terminal = Terminal(project.cli, "worker", "start", "--count", "1")
    terminal.read_until(lambda text: "─ " in text and " of 1.0 MB" in text)
    gate.touch()
    said = terminal.finish()
    assert "━ 1.0 MB of 1.0 MB" in said
    assert "Worker pool started" in said
    assert terminal.process.returncode == 0


def test_an_image_that_cannot_be_had_stops_the_start_with_words(project: DockerProject) -> None:
    image = f"127.0.0.1:{PORT}/nobody:1"
    project.configure(docker={"image": image, "pullPolicy": "always", "maxPullRetries": 1})
    done = project.run("worker", "start", "--count", "1")
    assert done.code == 1
    assert f"WORKER-006: the image {image} cannot be fetched, after one try" in done.err
    assert "docker pull" in done.err


def test_what_the_engine_says_is_kept(engine: Engine) -> None:
    with pytest.raises(EngineError) as caught:
        engine.api.get("/containers/nosuch/json")
    assert (caught.value.status, "nosuch" in str(caught.value)) == (404, True)
