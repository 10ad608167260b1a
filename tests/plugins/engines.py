"""Container engines for the tests that need one: started by the first, ended with the run."""

import os
from collections.abc import Iterator

import pytest

from tests.docker import images
from tests.docker.engines import TestEngine, stop_all
from tests.postgres.server import stop_shared


@pytest.fixture(scope="session")
def docker() -> TestEngine:
    """A Docker engine of our own, with the images that tests use."""
    return _started("docker")


@pytest.fixture(scope="session")
def podman() -> TestEngine:
    """Podman behind its Docker-compatible socket."""
    return _started("podman")


@pytest.fixture(scope="session", autouse=True)
def no_server_is_left_behind(no_process_is_left_behind: None) -> Iterator[None]:
    """The PostgreSQL of this process ends before anybody looks for what is left."""
    yield
    stop_shared()


@pytest.fixture
def btrfs() -> Iterator[TestEngine]:
    """A Docker engine whose layers can be held to a size."""
    engine = _started("btrfs", f"-{os.getpid()}")
    yield engine
    engine.stop()


@pytest.fixture
def own_docker() -> Iterator[TestEngine]:
    """An engine for one test alone, which may do to it what it likes."""
    engine = _started("docker", f"-{os.getpid()}")
    yield engine
    engine.stop()


def _started(name: str, label: str = "") -> TestEngine:
    engine = TestEngine(name, label).start()
    with engine.alone():
        images.ensure(engine.wait().api, *images.ALL)
    return engine


def pytest_sessionfinish(session: pytest.Session) -> None:
    """With xdist only the controller outlives all tests."""
    if not hasattr(session.config, "workerinput"):
        stop_all()
