"""What a task in a container may write: wherever that is, it ends at the limit and is named."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from tests.docker.engines import TestEngine
from tests.docker.images import APP
from tests.docker.project import DockerProject

ENGINES = [
    pytest.param("docker", marks=pytest.mark.needs("docker")),
    pytest.param("podman", marks=pytest.mark.needs("podman")),
]
LAYER = "/open"
"""A directory of the image that everybody may write to, and no mount."""


@pytest.fixture(params=ENGINES)
def project(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[DockerProject]:
    engine: TestEngine = request.getfixturevalue(request.param)
    made = DockerProject(tmp_path / "project", engine)
    made.configure(workers={"limits": {"diskMb": 20}})
    yield made
    made.close()


def write(directory: str, megabytes: int) -> str:
    """Many files, each far smaller than the limit; then it stays."""
    return (
        f"cd {directory}; for i in $(seq {megabytes}); do "
        "dd if=/dev/zero of=part-$i bs=1M count=1 2>/dev/null; done; sleep 1000"
    )


def assert_ended_by_its_limit(project: DockerProject, task: str) -> None:
    project.wait(task)
    shown = project.show(task)
    assert shown["attempts"][-1]["ending"] == "overLimit", shown
    assert shown["error"]["code"] == "RESOURCE_EXHAUSTED"
    assert "disk" in shown["error"]["message"]
    told = project.run("task", "logs", task).err
    assert "WORKER-005" in told
    assert "diskMb" in told
    assert "diskMb" in project.daemon_log()


@pytest.mark.req("027b-FR-035", "027b-FR-036")
@pytest.mark.parametrize("place", [".", "$TMPDIR", "/var/tmp"])
def test_what_is_written_to_the_volumes_of_a_container_is_limited(
    project: DockerProject, place: str
) -> None:
    project.start(count=1)
    container = project.workers()[0]["containerId"]
    assert_ended_by_its_limit(project, project.add(write(place, 40)))
    assert project.run_task(f"ls {place} | wc -l") == "0"
    assert project.workers()[0]["containerId"] == container


@pytest.mark.parametrize("name", ENGINES)
@pytest.mark.req("027b-FR-035", "027b-FR-036")
def test_the_directory_that_everybody_uses_is_limited_and_empty_for_the_next(
    name: str, request: pytest.FixtureRequest
) -> None:
    """The project of other tests lies below it, where it is left alone."""
    with TemporaryDirectory(dir="/var/tmp") as directory:
        project = DockerProject(Path(directory) / "project", request.getfixturevalue(name))
        try:
            project.configure(workers={"limits": {"diskMb": 20}})
            project.start(count=1)
            assert project.run_task("mkdir -p /tmp/a/b; touch /tmp/a/b/c; ls /tmp") == "a"
            assert project.run_task("ls /tmp | wc -l") == "0"
            assert_ended_by_its_limit(project, project.add(write("/tmp", 40)))
            assert project.run_task("ls /tmp | wc -l; stat -c %a /tmp") == "0\n1777"
        finally:
            project.close()


@pytest.mark.req("027b-FR-035")
def test_what_is_written_beside_the_volumes_is_limited_and_goes_with_the_container(
    project: DockerProject,
) -> None:
    project.start(count=1)
    container = project.workers()[0]["containerId"]
    assert_ended_by_its_limit(project, project.add(write(LAYER, 40)))
    assert project.run_task(f"ls {LAYER} | wc -l") == "0"
    assert project.workers()[0]["containerId"] != container


@pytest.mark.req("027b-FR-035")
def test_one_file_never_grows_over_the_limit(project: DockerProject) -> None:
    project.start(count=1)
    task = project.add(f"dd if=/dev/zero of={LAYER}/one bs=1M count=40; wc -c <{LAYER}/one")
    project.wait(task)
    assert project.output(task) == str(20 * 1024 * 1024)


@pytest.mark.req("027b-FR-047", "027b-FR-048")
def test_a_task_may_ask_for_less_disk_and_never_gets_more(project: DockerProject) -> None:
    project.start(count=1)
    assert_ended_by_its_limit(project, project.add(write(".", 15), "--disk-mb", "10"))
    done = project.run("task", "add", "--disk-mb", "1000", "--", "true")
    assert (done.code, "at most 20 (workers.limits.diskMb)" in done.err) == (2, True)


@pytest.mark.req("027b-FR-035")
def test_an_image_without_a_shell_is_limited_as_any_other(project: DockerProject) -> None:
    project.configure(docker={"image": APP}, workers={"limits": {"diskMb": 20}})
    project.start(count=1)
    parts = [f"write={n}" for n in range(40)]
    assert_ended_by_its_limit(project, project.cli.add("--", "app", *parts, "sleep"))


@pytest.mark.needs("btrfs")
@pytest.mark.req("027b-FR-035", "027b-FR-036")
def test_where_the_engine_counts_the_layer_the_kernel_holds_it(
    tmp_path: Path, btrfs: TestEngine
) -> None:
    project = DockerProject(tmp_path / "project", btrfs)
    try:
        project.configure(workers={"limits": {"diskMb": 20}})
        project.start(count=1)
        assert project.container()["HostConfig"]["StorageOpt"] == {"size": "20m"}
        task = project.add(
            f"cd {LAYER}; for i in $(seq 40); do head -c 1000000 /dev/zero >$i; done"
        )
        project.wait(task)
        assert "Disk quota exceeded" in project.run("task", "logs", task).out
    finally:
        project.close()


@pytest.mark.needs("docker")
def test_what_the_user_mounts_below_is_left_alone(tmp_path: Path, docker: TestEngine) -> None:
    project = DockerProject(tmp_path / "project", docker)
    try:
        (project.root / "cache").mkdir()
        (project.root / "cache" / "kept").touch()
        own = [{"source": "cache", "target": "/var/tmp/cache", "readOnly": True}]
        project.configure(docker={"mounts": own})
        project.start(count=1)
        assert project.run_task("ls /var/tmp/cache") == "kept"
        assert project.run_task("ls /var/tmp/cache") == "kept"
    finally:
        project.close()
