"""Who a host is, what others are shown of it, and where they find it."""

import json
import os
import shutil
from pathlib import Path

import pytest

from acode.engine.neighbours import reachable
from acode.hosts import known_host_id, my_host_id, new_host_id
from acode.ids import host_name
from acode.model.host import Host, HostState
from acode.project import Project
from acode.settings import Settings
from acode.settings.tree import Api, Store
from acode.store.base import Counts
from acode.views import is_at_work, no_pool_view, shared_view

NOTHING = Counts(
    by_status=dict.fromkeys(("pending", "running"), 0),  # type: ignore[arg-type]
    pending_by_priority={},
    paused=False,
    oldest_ready_at=None,
)


def made(root: Path) -> Project:
    root.mkdir()
    project = Project(str(root))
    project.prepare()
    return project


def test_a_host_keeps_its_id(tmp_path: Path) -> None:
    project = made(tmp_path / "one")
    assert known_host_id(project) is None
    first = my_host_id(project, 1_700_000_000_000)
    assert my_host_id(project, 1_800_000_000_000) == known_host_id(project) == first
    assert os.stat(project.host_file).st_mode & 0o777 == 0o600


def test_a_copy_of_a_directory_is_another_host(tmp_path: Path) -> None:
    project = made(tmp_path / "one")
    first = my_host_id(project, 1_700_000_000_000)
    shutil.copytree(project.root, tmp_path / "two")
    copy = Project(str(tmp_path / "two"))
    assert known_host_id(copy) is None
    assert my_host_id(copy, 1_700_000_000_000) != first


@pytest.mark.parametrize("key", ["name", "machine"])
def test_a_copy_of_a_machine_is_another_host(tmp_path: Path, key: str) -> None:
    project = made(tmp_path / "one")
    first = my_host_id(project, 1_700_000_000_000)
    path = Path(project.host_file)
    path.write_text(json.dumps(json.loads(path.read_text()) | {key: "another"}))
    assert my_host_id(project, 1_700_000_000_000) != first


def test_a_torn_file_is_no_obstacle(tmp_path: Path) -> None:
    project = made(tmp_path / "one")
    Path(project.host_file).write_text('{"id":')
    assert my_host_id(project, 1_700_000_000_000)


def test_the_name_of_a_host_is_in_its_id() -> None:
    assert host_name(new_host_id(1_700_000_000_000)) == os.uname().nodename
    assert host_name("build-1.example-01HZZZZZZZZZZZZZZZZZZZZZZZ") == "build-1.example"
    assert host_name(None) is None


def state(name: str, *, lost: bool = False, workers: int = 1) -> HostState:
    used = {"cpuPercent": 1.0, "memoryBytes": 10, "diskBytes": 0}
    pool = [{"id": name, "status": "idle", "host": name, "resources": used}] * workers
    host = Host(id=name, name=name, boot_id="b", pid=1, address=f"http://{name}", key="s3cret")
    return HostState(
        host=host,
        joined_at=1,
        seen_at=2,
        lease_until=3,
        lost_at=4 if lost else None,
        pool={"workers": pool},
    )


def test_a_pool_is_shown_together_with_others_but_without_lost_ones() -> None:
    own = no_pool_view(NOTHING, "process")
    states = [state("mars"), state("venus", workers=2), state("pluto", lost=True)]
    view = shared_view(own, states, "mars")
    assert (view["activeCount"], view["idleCount"]) == (2, 2)
    assert view["resources"]["memoryBytes"] == 20
    assert [host["name"] for host in view["hosts"]] == ["mars", "venus", "pluto"]
    assert [host["isThis"] for host in view["hosts"]] == [True, False, False]
    assert [bool(host["lostAt"]) for host in view["hosts"]] == [False, False, True]
    assert "s3cret" not in json.dumps(view)
    assert is_at_work(view)
    assert not is_at_work(own)


@pytest.mark.parametrize(
    ("host", "store", "found"),
    [
        ("127.0.0.1", "postgresql://127.0.0.1/q", None),
        ("localhost", "postgresql://127.0.0.1/q", None),
        ("10.0.0.7", "postgresql://127.0.0.1/q", "http://10.0.0.7:8470"),
        ("0.0.0.0", "postgresql://127.0.0.1:5555/q", "http://127.0.0.1:8470"),
        ("0.0.0.0", "postgresql:///q?host=/run/postgresql", "http://127.0.0.1:8470"),
        ("0.0.0.0", "postgresql:///q?host=127.0.0.1,10.0.0.9&port=1,2", "http://127.0.0.1:8470"),
        ("10.0.0.7", "sqlite:///q.db", None),
    ],
)
def test_others_find_a_gateway_that_listens_to_them(
    host: str, store: str, found: str | None
) -> None:
    settings = Settings(api=Api(host=host), store=Store(url=store))
    url = "http://10.0.0.7:8470" if host == "10.0.0.7" else "http://127.0.0.1:8470"
    assert reachable(url, settings) == found
