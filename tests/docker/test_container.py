"""What a worker's container is: looked at from outside, and tried from inside."""

import os
import stat
import subprocess
from typing import Any

import pytest

from tests.docker.images import GIT, VOLUME
from tests.docker.project import DockerProject
from tests.pool.conftest import eventually

pytestmark = pytest.mark.needs("docker")

OWNER = 1234


@pytest.fixture
def owned(project: DockerProject) -> DockerProject:
    """A project of an ordinary user."""
    os.chown(project.root, OWNER, OWNER)
    return project


@pytest.mark.req(
    "027b-FR-012", "027b-FR-013", "027b-FR-014", "027b-FR-015", "027b-FR-016", "027b-AC-001"
)
def test_containers_are_known_by_their_names_and_labels(project: DockerProject) -> None:
    project.start(count=2)
    workers = {worker["id"] for worker in project.workers()}
    found = {
        container["Labels"]["acode.worker.id"]: container for container in project.containers()
    }
    assert found.keys() == workers
    for worker, container in found.items():
        assert container["Names"] == [f"/acode-worker-{worker}"]
        assert container["State"] == "running"
        assert container["Labels"]["acode.worker"] == "true"
        assert container["Labels"]["acode.worker.pool"] == str(project.agent / "run")


@pytest.mark.req(
    "027b-FR-031", "027b-FR-033", "027b-FR-038", "027b-FR-046", "027b-FR-051", "027b-FR-052",
    "027b-FR-055", "027b-AC-010", "027b-NFR-010",
)  # fmt: skip
def test_a_container_is_hardened_and_limited(project: DockerProject) -> None:
    project.configure(docker={"resources": {"cpus": 0.5, "memoryMb": 96, "pidsLimit": 40}})
    project.start(count=1)
    host = project.container()["HostConfig"]
    assert host["Privileged"] is False
    assert host["CapDrop"] == ["ALL"]
    assert host["CapAdd"] is None
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert host["Init"] is True
    assert (host["NanoCpus"], host["PidsLimit"]) == (500_000_000, 40)
    assert host["Memory"] == host["MemorySwap"] == 96 * 1024 * 1024
    assert {"Name": "nofile", "Soft": 1024, "Hard": 1024} in host["Ulimits"]
    said = project.run_task("cat /proc/self/status; ulimit -n")
    facts = dict(line.split(":\t") for line in said.splitlines() if ":\t" in line)
    assert (facts["CapEff"], facts["CapBnd"]) == ("0" * 16, "0" * 16)
    assert (facts["NoNewPrivs"], facts["Seccomp"]) == ("1", "2")
    assert said.endswith("1024")


@pytest.mark.req("027b-FR-038", "027b-AC-005")
def test_a_fork_bomb_meets_its_limit(project: DockerProject) -> None:
    project.configure(docker={"resources": {"pidsLimit": 30}})
    project.start(count=1)
    task = project.add(
        "for i in $(seq 100); do sleep 100 & done; echo $(ps | grep -c '[s]leep 100')"
    )
    project.wait(task)
    assert "can't fork" in project.run("task", "logs", task).out
    assert project.run_task("echo again") == "again"


@pytest.mark.req("027b-FR-031", "027b-AC-005")
def test_a_busy_task_gets_no_more_than_its_share_of_the_processor(project: DockerProject) -> None:
    project.configure(docker={"resources": {"cpus": 0.2}})
    project.start(count=1)
    task = project.add("end=$(($(date +%s) + 3)); while [ $(date +%s) -lt $end ]; do :; done")
    assert project.wait(task).code == 0
    (attempt,) = project.show(task)["attempts"]
    assert 0 < attempt["usage"]["cpuSeconds"] < 0.2 * 4 + 0.3


@pytest.mark.req("027b-FR-053", "027b-FR-056", "027b-FR-057", "027b-FR-058", "027b-FR-059")
def test_files_made_inside_belong_to_the_owner_of_the_project(owned: DockerProject) -> None:
    owned.start(count=1)
    assert owned.run_task("id -u") == str(OWNER)
    task = owned.add(
        "set -e; echo 1 >in-workspace; echo 2 >$TMPDIR/temporary; "
        "echo 3 >$ACODE_ARTIFACTS_DIR/kept; echo 4 >$ACODE_CHECKPOINT; "
        "stat -c %u in-workspace; false",
        "--retries", "0",
    )  # fmt: skip
    owned.wait(task)
    assert owned.output(task) == str(OWNER)
    kept = owned.agent / "artifacts" / task / "kept"
    assert (kept.read_text(), kept.stat().st_uid) == ("3\n", OWNER)


@pytest.mark.req("027b-FR-053")
def test_a_project_of_root_is_worked_on_by_nobody(project: DockerProject) -> None:
    project.start(count=1)
    assert project.run_task("id -u; echo hello >file; cat file") == "65534\nhello"


@pytest.mark.req("027b-FR-060", "027b-FR-061", "027b-FR-062", "027b-AC-004")
def test_the_project_is_seen_and_acodes_own_files_are_not(project: DockerProject) -> None:
    (project.root / "source.txt").write_text("text")
    (project.root / "extra").mkdir()
    mounts = [{"source": "extra", "target": "/extra", "readOnly": True}]
    project.configure(docker={"mounts": mounts})
    project.start(count=1)
    agent = project.agent
    said = project.run_task(
        f"cat {project.root}/source.txt; echo; "
        f"touch {project.root}/new 2>&1; touch /extra/new 2>&1; "
        f"echo >> $ACODE_CONFIG_PATH; wc -c < $ACODE_CONFIG_PATH; "
        f"ls {agent}; ls {agent}/run; ls {agent}/queue.db 2>/dev/null || echo hidden"
    )
    assert said.startswith("text\n")
    assert said.count("Read-only file system") == 2
    assert str(len((agent / "config.yml").read_bytes())) in said
    assert said.endswith("config.yml\nrun\nworktrees\ncontainers\ntmp\nhidden")


def test_a_task_that_works_on_the_project_itself_may_write_to_it(owned: DockerProject) -> None:
    owned.start(count=1)
    owned.run_task("echo new >made; pwd", "--workspace", "project")
    made = owned.root / "made"
    assert (made.read_text(), made.stat().st_uid) == ("new\n", OWNER)


@pytest.mark.req("027b-FR-071", "027b-FR-072", "027b-FR-073", "027b-FR-074")
def test_secrets_are_files_and_never_variables(project: DockerProject) -> None:
    secret = project.root / "password"
    secret.write_text("hush")
    secret.chmod(0o600)
    project.configure(docker={"secrets": [{"name": "db", "file": "password"}]})
    project.start(count=1)
    said = project.run_task(
        "cat /run/secrets/db; echo; echo x >/run/secrets/db; env", "--retries", "0"
    )
    assert said.startswith("hush\n")
    assert "hush" not in said.removeprefix("hush")
    assert "hush" not in str(project.container())
    (mount,) = [m for m in project.container()["Mounts"] if m["Destination"] == "/run/secrets/db"]
    assert mount["RW"] is False
    task = project.add("env", "--env", "DB_PASSWORD=hush")
    project.wait(task)
    error = project.show(task)["error"]
    assert error["code"] == "INVALID_TASK"
    assert "workers.docker.secrets" in error["hint"]


@pytest.mark.req("027b-FR-063", "027b-FR-064", "027b-FR-067", "027b-FR-068", "027b-FR-069")
def test_a_container_has_the_network_of_the_settings(project: DockerProject) -> None:
    network = {"ports": ["80"], "dns": ["192.0.2.53"], "extraHosts": ["friend:192.0.2.7"]}
    project.configure(docker=network)
    project.start(count=1)
    assert project.container()["HostConfig"]["NetworkMode"] == "bridge"
    said = project.run_task("cat /etc/hosts /etc/resolv.conf; grep -c : /proc/net/dev")
    assert "192.0.2.7\tfriend" in said
    assert "nameserver 192.0.2.53" in said
    assert said.endswith("2")
    (binding,) = project.container()["NetworkSettings"]["Ports"]["80/tcp"]
    task = project.add("echo served | nc -l -p 80")
    fetch = f"busybox nc 127.0.0.1 {binding['HostPort']} </dev/null | grep serv"
    served = subprocess.run(
        project.engine.inside("sh", "-c", f"until {fetch}; do sleep 0.05; done"),
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert served.stdout == "served\n"
    project.wait(task)


@pytest.mark.req("027b-FR-037", "027b-FR-065", "027b-FR-066")
@pytest.mark.parametrize(("network", "sees"), [("none", {"lo"}), ("host", {"lo", "docker0"})])
def test_a_container_may_have_no_network_or_that_of_its_host(
    project: DockerProject, network: str, sees: set[str]
) -> None:
    project.configure(docker={"network": network})
    project.start(count=1)
    said = project.run_task("cat /proc/net/dev")
    assert {line.split(":")[0].strip() for line in said.splitlines()[2:]} >= sees
    assert ("docker0" in said) is (network == "host")


@pytest.mark.req("027b-FR-054")
def test_the_root_may_be_read_only(project: DockerProject) -> None:
    project.configure(docker={"resources": {"readOnlyRootFs": True}})
    project.start(count=1)
    said = project.run_task(
        "touch /bin/x 2>&1; echo temporary >/tmp/x; cat /tmp/x; echo y >y; cat y"
    )
    assert said.endswith("Read-only file system\ntemporary\ny")


@pytest.mark.req(
    "027b-FR-019", "027b-FR-020", "027b-FR-021", "027b-FR-022", "027b-FR-023", "027b-AC-002"
)
def test_a_container_that_does_not_want_to_stop_is_stopped(project: DockerProject) -> None:
    project.start(count=1)
    assert project.container()["Config"]["StopTimeout"] == 10
    go = project.agent / "run" / "tmp" / project.workers()[0]["id"] / "up"
    project.add(f"trap '' TERM; touch {go}; while :; do sleep 1; done")
    eventually(go.exists)
    project.stop("--force")
    assert not project.containers()


def repository(project: DockerProject) -> None:
    def git(*words: str) -> None:
        identity = ["-c", "user.name=U", "-c", "user.email=u@example.org"]
        subprocess.run(
            ["git", *identity, *words], cwd=project.root, check=True, capture_output=True
        )

    git("init", "-b", "main")
    (project.root / "file").write_text("one\n")
    (project.root / ".gitignore").write_text(".agent\n")
    git("add", ".")
    git("commit", "-m", "first")
    git("config", "user.name", "Ursula")
    git("config", "user.email", "ursula@example.org")
    subprocess.run(["chown", "-R", f"{OWNER}:{OWNER}", project.root], check=True)


@pytest.mark.req("027b-FR-056", "027b-FR-061")
def test_git_works_inside_a_worktree(project: DockerProject) -> None:
    repository(project)
    project.configure(docker={"image": GIT})
    project.start(count=1)
    task = project.add(
        "set -e; git status --short; echo two >file; git commit -qam second; "
        "git log --format='%s by %an'; echo three >file; "
        "! touch $(git rev-parse --git-common-dir)/hooks/post-commit 2>/dev/null"
    )
    assert project.wait(task).code == 0, project.run("task", "logs", task)
    assert project.output(task) == "second by Ursula\nfirst by U"
    shown = project.show(task)
    assert shown["branch"] == f"acode/{task}"
    subjects = subprocess.run(
        ["git", "-c", "safe.directory=*", "log", "--format=%s", shown["branch"]],
        cwd=project.root, capture_output=True, text=True, check=True,
    ).stdout.split("\n")  # fmt: skip
    assert subjects[1:3] == ["second", "first"]
    assert (project.root / "file").read_text() == "one\n"


def test_ready_trees_are_worked_on_inside(project: DockerProject) -> None:
    repository(project)
    project.configure(docker={"image": GIT}, workers={"worktree": {"strategy": "warm"}})
    project.start(count=1)
    for text in ("two", "three"):
        task = project.add(f"cat file; git status --short; echo {text} >file; echo x >left")
        assert project.wait(task).code == 0
        assert project.output(task) == "one"
        assert project.show(task)["branch"] == f"acode/{task}"


def test_checks_run_inside_too(project: DockerProject) -> None:
    repository(project)
    project.configure(
        docker={"image": GIT}, tasks={"testCommand": "hostname >$ACODE_ARTIFACTS_DIR/where; exit 3"}
    )
    project.start(count=1)
    task = project.add("echo two >file", "--retries", "0")
    project.wait(task)
    assert "testCommand failed" in project.show(task)["error"]["message"]


@pytest.mark.req("027b-NFR-007", "027b-FR-075")
def test_volumes_go_with_their_container(project: DockerProject) -> None:
    api = project.engine.wait().api
    before = {volume["Name"] for volume in api.get("/volumes")["Volumes"] or ()}
    project.configure(docker={"image": VOLUME})
    project.start(count=1)
    (mount,) = [m for m in project.container()["Mounts"] if m["Type"] == "volume"]
    project.stop()
    after = {volume["Name"] for volume in api.get("/volumes")["Volumes"] or ()}
    assert mount["Name"] not in after
    assert after <= before


def test_what_may_not_be_mounted_is_refused_before_anything_starts(project: DockerProject) -> None:
    for source, target, words in (
        ("/nowhere/at/all", "/x", "is not there"),
        (os.path.dirname(project.engine.socket), "/x", "would give tasks the container engine"),
        (str(project.root), "/", "cannot be a target"),
        (str(project.root), "relative", "cannot be a target"),
    ):
        project.configure(docker={"mounts": [{"source": source, "target": target}]})
        done = project.run("worker", "start", "--count", "1")
        assert (done.code, words in done.err) == (2, True), done


@pytest.mark.parametrize(
    "bad",
    [
        {"ports": ["8080:80:90:1"]},
        {"ports": ["99999:80"]},
        {"dns": ["not an address"]},
        {"extraHosts": ["friend:999.1.1.1"]},
        {"secrets": [{"name": "db", "file": "/nowhere"}]},
    ],
    ids=str,
)
def test_what_no_engine_could_use_is_refused_before_anything_starts(
    project: DockerProject, bad: dict[str, Any]
) -> None:
    project.configure(docker=bad)
    done = project.run("worker", "start", "--count", "1")
    assert done.code == 2, done
    assert f"workers.docker.{next(iter(bad))}" in done.err
    assert not project.has_daemon()


def test_a_task_does_not_see_the_environment_of_the_daemon(project: DockerProject) -> None:
    project.env["FROM_OUTSIDE"] = "1"
    project.configure(environment={"set": {"FROM_SETTINGS": "2"}})
    project.start(count=1)
    said = project.run_task("env", "--env", "OWN=3")
    names = {line.partition("=")[0] for line in said.splitlines()}
    assert {"FROM_SETTINGS", "OWN", "ACODE_TASK_ID", "PATH", "HOME"} <= names
    assert "FROM_OUTSIDE" not in names
    assert stat.S_IMODE(os.stat(project.agent / "run").st_mode) == 0o700
