"""What a task is kept from, tried from inside with a real pool and looked at from outside."""

import os
import pwd
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.pool.conftest import PoolProject, eventually

pytestmark = pytest.mark.needs("landlock", "git")


class Confined:
    """A project in git whose tasks are confined, and things around it that they must not touch."""

    def __init__(self, pool: PoolProject) -> None:
        self.pool = pool
        self.root = pool.root
        del pool.env["ACODE_SANDBOX__LEVEL"]
        self.home = pool.root.parent / "home"
        self.last = ""
        """The id of the task that was added last."""
        self.home.mkdir()
        (self.home / "precious").write_text("precious")
        pool.env["HOME"] = str(self.home)
        for words in (
            ("init", "-q", "-b", "main"),
            ("config", "user.name", "User"),
            ("config", "user.email", "user@example.org"),
            ("commit", "-q", "--allow-empty", "-m", "first"),
        ):
            subprocess.run(["git", *words], cwd=self.root, check=True)

    def codes(self, commands: list[str], workspace: str | None = None) -> list[int]:
        """Run each command as a task; how every one ended."""
        specs = [{"command": command, "workspace": workspace} for command in commands]
        for spec in specs if workspace is None else []:
            del spec["workspace"]
        tasks = self.pool.add_all(specs)
        self.pool.wait(*tasks)
        rows = {row["id"]: row["exitCode"] for row in self.pool.ask("task", "list")}
        self.last = tasks[-1]
        return [rows[task] for task in tasks]

    def succeeded(self, commands: list[str], workspace: str | None = None) -> list[str]:
        """Those of the commands that did what they wanted."""
        codes = self.codes(commands, workspace)
        return [command for command, code in zip(commands, codes, strict=True) if code == 0]


@pytest.fixture
def confined(pool_project: PoolProject) -> Confined:
    return Confined(pool_project)


def escapes(confined: Confined) -> dict[str, str]:
    """Ways out, each with the place that it leads to."""
    home, root = confined.home, confined.root
    git, agent = root / ".git", root / ".agent"
    python = shlex.quote(sys.executable)
    return {
        f"echo x > {home}/redirect": f"{home}/redirect",
        f"echo x >> {home}/precious": f"{home}/precious",
        f"touch x && mv x {home}/renamed": f"{home}/renamed",
        f'{python} -c \'import os; open("x", "w"); os.rename("x", "{home}/r")\'': f"{home}/r",
        f"touch x && ln x {home}/linked": f"{home}/linked",
        f"ln {home}/precious hard && echo x >> hard": f"{home}/precious",
        f"ln -s {home}/precious soft && echo x >> soft": f"{home}/precious",
        f"ln -s {home} dir && echo x > dir/by-link": f"{home}/by-link",
        f"echo x > /proc/self/root{home}/by-proc": f"{home}/by-proc",
        f"cd {home} && echo x > by-cd": f"{home}/by-cd",
        f"sh -c 'sh -c \"echo x > {home}/grandchild\"'": f"{home}/grandchild",
        f"(setsid sh -c 'echo x > {home}/session'; exit $?)": f"{home}/session",
        f"rm {home}/precious": f"{home}/precious",
        f"{python} -c 'import os; os.truncate(\"{home}/precious\", 0)'": f"{home}/precious",
        f"mkdir {home}/made": f"{home}/made",
        f"mknod {home}/device c 1 3": f"{home}/device",
        f"{python} -c 'import socket; socket.socket(1).bind(\"{home}/s\")'": f"{home}/s",
        f"echo x > {agent}/worktrees/other/file": f"{agent}/worktrees/other/file",
        f"echo x > {git}/hooks/post-commit": f"{git}/hooks/post-commit",
        f"echo x >> {git}/config": f"{git}/config",
        "git config user.name Mallory": f"{git}/config",
        "git config --global user.name Mallory": f"{home}/.gitconfig",
        f"mv {git}/hooks moved": f"{git}/hooks",
        f"echo x >> {agent}/queue.db": f"{agent}/queue.db",
        f"rm -f {agent}/queue.db": f"{agent}/queue.db",
        f"echo x > {agent}/run/token": f"{agent}/run/token",
        f"echo x > {agent}/config.yml": f"{agent}/config.yml",
        f"echo x > {agent}/run/checkpoints/other": f"{agent}/run/checkpoints/other",
        f"echo x > {root}/in-the-project": f"{root}/in-the-project",
        f"acode --project {root} task add -- true": f"{agent}/nothing",
        f"acode --project {root} worker stop --force": f"{agent}/nothing",
        "kill -9 $PPID": f"{agent}/nothing",
        f"kill -9 $(tr -dc 0-9, < {agent}/run/daemon.lock | cut -d, -f1)": f"{agent}/nothing",
        "echo 1 > /proc/sys/kernel/hostname": f"{agent}/nothing",
    }


def content(path: str) -> object:
    place = Path(path)
    if place.is_dir():
        return sorted(child.name for child in place.iterdir())
    return place.read_bytes() if place.exists() and not path.endswith(".db") else place.exists()


@pytest.fixture
def in_memory() -> Iterator[PoolProject]:
    """A project where programs share memory, and where tasks may write otherwise."""
    place = Path(tempfile.mkdtemp(prefix="acode-test-", dir="/dev/shm"))
    project = PoolProject(place / "project")
    yield project
    project.close()
    shutil.rmtree(place)


@pytest.mark.parametrize("workspace", ["scratch", "worktree"])
def test_a_project_in_shared_memory_is_no_exception(in_memory: PoolProject, workspace: str) -> None:
    confined = Confined(in_memory)
    in_memory.start(count=2)
    (confined.root / ".agent" / "run" / "token").write_text("secret")
    assert confined.succeeded(list(escapes(confined)), workspace) == []
    assert confined.codes(["echo x > mine && cat mine"], workspace) == [0]
    assert "/dev/shm is closed to tasks" in in_memory.run("doctor").out


@pytest.mark.parametrize("above", [".", "..", "/"])
def test_paths_that_open_the_project_itself_are_told(confined: Confined, above: str) -> None:
    confined.pool.configure(sandbox={"writePaths": [above]})
    said = "tasks are not kept from changing the project"
    assert said in confined.pool.start(count=1).err
    assert said in confined.pool.daemon_log()


@pytest.mark.req("forge-26")
@pytest.mark.parametrize("workspace", ["scratch", "worktree"])
def test_there_is_no_way_to_write_elsewhere(confined: Confined, workspace: str) -> None:
    pool = confined.pool
    other = confined.root / ".agent" / "worktrees" / "other"
    other.mkdir(parents=True)
    pool.env["PATH"] = f"{Path(sys.executable).parent}:{pool.env['PATH']}"
    pool.start(count=2)
    (confined.root / ".agent" / "run" / "token").write_text("secret")
    ways = escapes(confined)
    before = {place: content(place) for place in ways.values()}
    daemon, workers = pool.daemon.pid, pool.worker_pids()
    assert confined.succeeded(list(ways), workspace) == []
    assert {place: content(place) for place in ways.values()} == before
    assert (pool.daemon.pid, pool.worker_pids()) == (daemon, workers)
    assert pool.wait(pool.add("true")).code == 0


@pytest.mark.req("forge-26")
@pytest.mark.parametrize("workspace", ["scratch", "worktree"])
def test_what_a_task_needs_it_may_write(confined: Confined, workspace: str) -> None:
    shared = confined.pool.root.parent / "shared"
    shared.mkdir()
    confined.pool.configure(sandbox={"writePaths": [str(shared), "~/open"]})
    (confined.home / "open").mkdir()
    confined.pool.start(count=1)
    needs = [
        "mkdir -p a/b && echo x > a/b/c && mv a/b/c d && ln d e && ln -s d f && rm -r a d e f",
        'echo x > "$TMPDIR/x" && mv "$TMPDIR/x" . && mktemp',
        'echo x > "$ACODE_ARTIFACTS_DIR/kept"',
        'echo x > "$ACODE_CHECKPOINT" && mv "$ACODE_CHECKPOINT" x',
        "echo x > /dev/null; echo x > /dev/stderr; echo x > /dev/stdout; test -r /dev/urandom",
        f"echo x > {shared}/x && echo x > ~/open/x",
        "mkfifo pipe && python3 -c 'import multiprocessing; multiprocessing.Lock()'",
        f"cat {confined.home}/precious {confined.root}/.git/config",
        "sh -c 'sleep 60 & kill $!; wait $!; test $? = 143'",
    ]
    assert confined.succeeded(needs, workspace) == needs


def test_a_task_in_the_project_leaves_alone_what_others_execute(confined: Confined) -> None:
    confined.pool.start(count=1)
    git = confined.root / ".git"
    before = (git / "config").read_bytes()
    ways = [
        "echo x >> .git/config",
        "git config user.name Mallory",
        "echo x > .git/hooks/post-commit",
        "mv .git/hooks away",
        "mv .git away",
        "rm -rf .git/config",
        "echo x >> .agent/queue.db",
        "mv .agent away",
        "echo x > .agent/config.yml",
        "echo x > ../elsewhere",
    ]
    assert confined.succeeded(ways, "project") == []
    assert (git / "config").read_bytes() == before
    works = ['echo x > file && git add file && git commit -qm x && touch "$TMPDIR/x"']
    assert confined.succeeded(works, "project") == works
    assert (confined.root / "file").exists()


@pytest.mark.req("forge-26", "forge-27")
def test_under_strict_a_task_reads_only_what_it_works_with(confined: Confined) -> None:
    pool = confined.pool
    (confined.root / "source").write_text("source")
    (confined.home / "open").write_text("open")
    pool.configure(sandbox={"level": "strict", "readPaths": ["~/open"]})
    pool.env |= {"GITHUB_TOKEN": "secret", "EDITOR": "vi", "FORGE_X": "1", "LC_ALL": "C.UTF-8"}
    pool.start(count=1)
    daemon = pool.daemon.pid
    (confined.root / ".agent" / "run" / "token").write_text("secret")
    python = shutil.which("python3", path="/usr/bin")
    hidden = [
        f"{python} -c 'import socket; socket.socket(socket.AF_UNIX)'",
        f"cat {confined.home}/precious",
        f"ls {confined.home}",
        f"cat {confined.root}/.agent/run/token",
        f"cat {confined.root}/.agent/queue.db",
        f"cat /proc/self/root{confined.home}/precious",
        f"cat /proc/{daemon}/environ",
        f"cat /proc/{daemon}/mem",
        f"cat /proc/{daemon}/maps",
        "cat /proc/$PPID/environ",
        "cat /proc/1/environ",
        "cat /etc/shadow",
        "cat /dev/mem",
        "grep -v CapBnd /proc/self/status | grep 'Cap[A-Z][a-z]*:.*[1-9a-f]'",
        "grep 'NoNewPrivs:.0' /proc/self/status",
    ]
    assert confined.succeeded(hidden) == []
    open_ = [
        "cat /etc/passwd",
        f"cat {confined.root}/source ~/open",
        "git log",
        "ls /usr/bin",
        "env",
    ]
    assert confined.succeeded(open_) == open_
    seen = {line.partition("=")[0] for line in pool.output(confined.last).splitlines()}
    ours = {name for name in seen if name.startswith("ACODE_")}
    assert seen - ours <= {
        *("PATH", "HOME", "USER", "SHELL", "TERM", "LANG", "LC_ALL", "FORGE_X", "TMPDIR", "PWD"),
        *("NODE_EXTRA_CA_CERTS", "OLDPWD", "_", "SHLVL"),
        "LC_CTYPE",  # Python sets it where no language is set
    }
    assert "ACODE_SANDBOX__LEVEL" not in ours


@pytest.mark.parametrize("level", ["write", "strict"])
@pytest.mark.parametrize("workspace", ["scratch", "worktree"])
def test_a_task_sets_limits_for_itself_and_nobody_else(
    confined: Confined, level: str, workspace: str
) -> None:
    confined.pool.configure(sandbox={"level": level})
    confined.pool.start(count=1)
    daemon, own = confined.pool.daemon.pid, [resource.RLIMIT_CPU, resource.RLIMIT_NOFILE]
    before = [resource.prlimit(daemon, which) for which in own]
    others = [f"{PRLIMIT.format(pid)} 100000" for pid in (daemon, "$PPID")]
    assert confined.succeeded(others, workspace) == []
    assert [resource.prlimit(daemon, which) for which in own] == before
    works = [f"{PRLIMIT.format(0)} 100000", PRLIMIT.format(daemon), "ulimit -n 99 && ulimit -n"]
    assert confined.succeeded(works, workspace) == works
    assert confined.pool.output(confined.last) == "99"


_SET = "import resource, sys; pid, *cpu = map(int, sys.argv[1:]); "
_SET += "resource.prlimit(pid, resource.RLIMIT_CPU, *[(each, each) for each in cpu])"
PRLIMIT = f"{shutil.which('python3', path='/usr/bin')} -c {shlex.quote(_SET)} {{}}"


@pytest.mark.req("forge-28")
@pytest.mark.parametrize("workspace", ["scratch", "worktree"])
def test_the_network_can_be_closed(confined: Confined, workspace: str) -> None:
    pool = confined.pool
    listener = subprocess.Popen([sys.executable, "-c", _LISTEN], stdout=subprocess.PIPE, text=True)
    try:
        assert listener.stdout
        port = listener.stdout.readline().strip()
        connect = f"{shlex.quote(sys.executable)} -c {shlex.quote(_CONNECT)} {port}"
        pool.start(count=1)
        assert confined.codes([connect], workspace) == [0]
        pool.stop()
        pool.configure(sandbox={"network": "none"})
        pool.start(count=1)
        assert confined.codes([connect], workspace) == [1]
        itself = f"{shlex.quote(sys.executable)} -c {shlex.quote(_ITSELF)}"
        assert confined.codes([itself], workspace) == [0]
    finally:
        listener.kill()
        listener.communicate()


_LISTEN = """
import socket
s = socket.create_server(("127.0.0.1", 0))
print(s.getsockname()[1], flush=True)
while True: s.accept()
"""
_CONNECT = "import socket, sys; socket.create_connection(('127.0.0.1', int(sys.argv[1])), 5)"
_ITSELF = """
import socket
s = socket.create_server(("127.0.0.1", 0))
socket.create_connection(s.getsockname(), 5)
"""


def test_nothing_is_said_where_everything_is_enforced(confined: Confined) -> None:
    assert confined.pool.start(count=1).err == ""


def test_nothing_is_kept_from_a_task_where_the_user_says_so(confined: Confined) -> None:
    confined.pool.configure(sandbox={"level": "off"})
    confined.pool.start(count=1)
    assert confined.codes([f"echo x > {confined.home}/redirect"]) == [0]
    assert (confined.home / "redirect").read_text() == "x\n"


@pytest.mark.needs("node")
def test_everyday_tools_work(confined: Confined, tmp_path: Path) -> None:
    confined.pool.start(count=1)
    package = 'mkdir -p p && echo \'{"name":"p","version":"1.0.0"}\' > p/package.json'
    wheel = f"{shlex.quote(sys.executable)} -c {shlex.quote(_WHEEL)}"
    commands = [
        "printf 'all:\\n\\techo made > out\\n' > Makefile && make && test -f out",
        "echo x > file && git add file && git commit -qm 'by a task' && git stash list",
        "git checkout -qb topic && git commit -q --allow-empty -m x && git log --oneline",
        f"{package} && npm init -y && npm install --offline ./p && ls node_modules/p",
        'node -e \'require("fs").writeFileSync("x", "x")\'',
        f"{wheel} && {shlex.quote(sys.executable)} -m venv v && "
        "v/bin/pip install --no-index --disable-pip-version-check ./tiny-1-py3-none-any.whl && "
        "v/bin/python -c 'import tiny'",
    ]
    assert confined.succeeded(commands) == commands
    assert sorted(path.name for path in confined.home.iterdir()) == ["precious"]


_WHEEL = """
import zipfile
with zipfile.ZipFile("tiny-1-py3-none-any.whl", "w") as file:
    file.writestr("tiny.py", "")
    file.writestr("tiny-1.dist-info/METADATA", "Metadata-Version: 2.1\\nName: tiny\\nVersion: 1\\n")
    wheel = "Wheel-Version: 1.0\\nRoot-Is-Purelib: true\\nTag: py3-none-any\\n"
    file.writestr("tiny-1.dist-info/WHEEL", wheel)
    file.writestr("tiny-1.dist-info/RECORD", "")
"""


@pytest.mark.needs("git-lfs")
def test_large_files_can_be_committed(confined: Confined) -> None:
    (confined.root / ".gitattributes").write_text("*.bin filter=lfs -text\n")
    (confined.root / "a.bin").write_text("large\n")
    for words in (("lfs", "install", "--local"), ("add", "-A"), ("commit", "-qm", "large")):
        subprocess.run(["git", *words], cwd=confined.root, check=True)
    confined.pool.start(count=1)
    work = "git status && git lfs pull && echo new > b.bin && git add -A && git commit -qm mine"
    assert confined.codes([work, "touch a.bin && git status"], "worktree") == [0, 0]


@pytest.mark.needs("cargo")
def test_cargo_works(confined: Confined) -> None:
    # Where rustup keeps it, whatever HOME says.
    home = pwd.getpwuid(os.getuid()).pw_dir
    confined.pool.env["RUSTUP_HOME"] = os.environ.get("RUSTUP_HOME") or f"{home}/.rustup"
    confined.pool.start(count=1)
    build = "cargo init -q --name tiny . && cargo build -q --offline && ./target/debug/tiny"
    assert confined.codes([build]) == [0]
    assert confined.pool.output(confined.last) == "Hello, world!"


def test_a_checkpoint_outlives_a_worker_that_is_killed(confined: Confined) -> None:
    pool = confined.pool
    pool.configure(retry={"initialDelayMs": 10}, workers={"process": {"restartDelayMs": 10}})
    pool.start(count=1)
    task = pool.add(
        'if [ -f "$ACODE_CHECKPOINT" ]; then cat "$ACODE_CHECKPOINT"; exit; fi; '
        'echo half > "$ACODE_CHECKPOINT.new" && mv "$ACODE_CHECKPOINT.new" "$ACODE_CHECKPOINT"; '
        "sleep 600",
        "--workspace",
        "scratch",
    )
    live = confined.root / ".agent" / "run" / "tmp"
    eventually(lambda: list(live.glob(f"*/checkpoints/{task}")))
    [worker] = pool.worker_pids()
    os.kill(worker, signal.SIGKILL)
    assert pool.wait(task).code == 0
    assert pool.output(task).endswith("half")


@pytest.mark.parametrize(("known", "said"), [("0", "Landlock is missing"), ("2", "emptying files")])
def test_what_the_kernel_cannot_enforce_is_said(confined: Confined, known: str, said: str) -> None:
    pool = confined.pool
    pool.env |= {"PYTHONPATH": str(Path(__file__).parent / "faults"), "LANDLOCK": known}
    done = pool.start(count=1)
    assert "warning: on this machine tasks are not kept from " in done.err
    assert said in done.err
    assert said in (pool.agent / "logs" / "daemon.log").read_text()
    assert said in pool.run("doctor").out
    wrote = [f"echo x > {confined.home}/redirect"]
    assert bool(confined.succeeded(wrote, "scratch")) == (known == "0")
