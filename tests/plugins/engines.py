"""Container engines for the tests that need one: started by the first, ended with the run."""

import pytest

from tests.docker import images
from tests.docker.engines import TestEngine, stop_all


@pytest.fixture(scope="session")
def docker() -> TestEngine:
    """A Docker engine of our own, with the images that tests use."""
    return _started("docker")


@pytest.fixture(scope="session")
def podman() -> TestEngine:
    """Podman behind its Docker-compatible socket."""
    return _started("podman")


def _started(name: str) -> TestEngine:
    engine = TestEngine(name).start()
    with engine.alone():
        images.ensure(engine.wait().api, images.BUSYBOX, images.GIT, images.BARE)
    return engine


def pytest_sessionfinish(session: pytest.Session) -> None:
    """With xdist only the controller outlives all tests."""
    if not hasattr(session.config, "workerinput"):
        stop_all()
