"""The main job, end to end, in a throwaway project: `make demo`. Fails if anything is off."""

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ACODE = str(Path(sys.executable).with_name("acode"))

BATCH = """\
- name: fetch
  title: Fetch the sources
  command: echo fetching; sleep 0.2
  priority: high
- name: build
  title: Build
  command: printf
  args: ['built %s\n', all]
  after: [fetch]
  workstream: nightly
- name: test
  title: Test
  command: echo attempt $ACODE_ATTEMPT; [ "$ACODE_ATTEMPT" -gt 1 ]
  after: [build]
  workstream: nightly
  timeout: 900
  retries: 2
- title: Tidy up
  command: make clean
  priority: background
  delay: 3600
"""

WRONG = """\
- command: ""
- command: make
  priority: urgent
- comand: make test
"""

AT_ONCE = 8


class Demo:
    """Runs acode for real, shows what it says, and keeps count of what was expected."""

    def __init__(self, project: Path) -> None:
        self.project = project
        self.env = {k: v for k, v in os.environ.items() if not k.startswith("ACODE_")}
        self.passed: list[str] = []
        self.off: list[str] = []

    def chapter(self, text: str) -> None:
        """Begin a part of the story."""
        print(f"\n\033[1m{text}\033[0m" if sys.stdout.isatty() else f"\n== {text}")

    def run(self, *args: str, exits: int = 0) -> str:
        """Run one command, show it, and expect its exit code."""
        print(f"$ acode {shlex.join(args)}", flush=True)
        done = subprocess.run(
            [ACODE, *args],
            cwd=self.project,
            env=self.env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        print(done.stdout, end="", flush=True)
        self.expect(f"acode {args[0]} exits with {exits}", done.returncode == exits)
        return done.stdout

    def ask(self, *args: str) -> Any:
        """The JSON answer to a question, not shown."""
        command = [ACODE, *args, "--json"]
        done = subprocess.run(command, cwd=self.project, env=self.env, capture_output=True)
        if done.returncode:
            sys.exit(f"!! acode {shlex.join(args)} --json failed: {done.stderr.decode()}")
        return json.loads(done.stdout)

    def expect(self, what: str, holds: bool) -> None:
        """Note whether something is as it should be."""
        (self.passed if holds else self.off).append(what)
        if not holds:
            print(f"!! {what}: no")

    def summary(self) -> int:
        """Tell how it went; the exit code of the demo."""
        total = len(self.passed) + len(self.off)
        self.chapter("Summary")
        for what in self.off:
            print(f"OFF: {what}")
        print(f"{len(self.passed)} of {total} expectations held.")
        return 1 if self.off else 0


def queue_tasks(demo: Demo) -> dict[str, str]:
    """Add tasks in every way; ids by title."""
    demo.chapter("A project is any directory; init writes every setting with its default")
    demo.run("init")
    demo.chapter("Queue a batch from a file: checked completely, added whole or not at all")
    demo.run("task", "add", "nightly.yml")
    demo.chapter("Queue a command; with a key, adding it twice is adding it once")
    docs = (
        "task",
        "add",
        "--title",
        "Docs",
        "--key",
        "docs",
        "--priority",
        "low",
        "--",
        "echo docs; echo a warning >&2; exit 3",
    )
    demo.run(*docs)
    demo.run(*docs)
    demo.chapter("A wrong file is refused, with every problem and its place")
    demo.run("task", "add", "wrong.yml", exits=1)
    tasks = demo.ask("task", "list")
    demo.expect("the batch and the command are queued, nothing twice", len(tasks) == 5)
    return {task["title"]: task["id"] for task in tasks}


def look_around(demo: Demo, ids: dict[str, str]) -> None:
    """List, show, explain."""
    demo.chapter("See what there is")
    demo.run("task", "list")
    demo.run("task", "show", ids["Test"])
    demo.chapter("Why does it not run?")
    said = demo.run("task", "why", ids["Test"])
    demo.expect("why names the task that is waited for", ids["Build"] in said)
    demo.run("task", "why", ids["Tidy up"])


def change_minds(demo: Demo, ids: dict[str, str]) -> None:
    """Cancel and retry; every move is remembered."""
    demo.chapter("Cancel, and change your mind")
    demo.run("task", "cancel", ids["Docs"])
    demo.run("task", "cancel", ids["Docs"], exits=1)
    demo.run("task", "retry", ids["Docs"])
    history = demo.ask("task", "show", ids["Docs"])["history"]
    moves = [move["to"] for move in history]
    demo.expect("the history holds every move", moves == ["pending", "cancelled", "pending"])


def hold_the_queue(demo: Demo) -> None:
    """Pause, look, go on."""
    demo.chapter("Hold the queue, look at it, let it go on")
    demo.run("queue", "pause")
    demo.expect("the queue is paused", demo.ask("queue", "status")["paused"])
    demo.run("queue", "resume")
    demo.run("queue", "status")


def add_at_once(demo: Demo) -> None:
    """Many processes write at the same time."""
    demo.chapter(f"{AT_ONCE} processes add at once, and no task is lost")
    before = len(demo.ask("task", "list"))
    command = [ACODE, "task", "add", "--quiet", "--workstream", "crowd", "--", "true"]
    crowd = [
        subprocess.Popen(command, cwd=demo.project, env=demo.env, stdout=subprocess.PIPE, text=True)
        for _ in range(AT_ONCE)
    ]
    printed = {adder.communicate()[0].strip() for adder in crowd}
    listed = {task["id"] for task in demo.ask("task", "list", "--workstream", "crowd")}
    print(f"{len(listed)} tasks more than the {before} before")
    demo.expect("every printed id is stored", len(printed) == AT_ONCE and printed == listed)


def keep_it_safe(demo: Demo) -> None:
    """Back up while in use, check, and look into the copy."""
    demo.chapter("Back up while the queue is in use, and check it")
    demo.run("queue", "check")
    demo.run("queue", "backup", "copy.db")
    restored = demo.project / "restored" / ".agent"
    restored.mkdir(parents=True)
    (demo.project / "copy.db").rename(restored / "queue.db")
    copy = demo.ask("--project", str(restored.parent), "task", "list")
    demo.expect("the copy holds every task", copy == demo.ask("task", "list"))


def run_everything(demo: Demo, ids: dict[str, str]) -> None:
    """Start a pool, let it work, watch, scale and stop it."""
    demo.chapter("Start a pool: it takes what waits, in the order of priority and dependencies")
    demo.run("worker", "start", "--count", "3")
    demo.run("task", "wait", ids["Test"], "--timeout", "60")
    test = demo.ask("task", "show", ids["Test"])
    demo.expect("the test was retried as it asked for", test["attemptCount"] == 2)
    demo.run("task", "logs", ids["Test"])
    demo.chapter("A task that fails says why, and is kept until somebody decides")
    demo.run("task", "wait", ids["Docs"], "--timeout", "60", exits=1)
    demo.run("dlq", "list")
    demo.run("dlq", "drop", ids["Docs"])
    demo.chapter("Look at the pool, change its size, cancel what runs, stop it")
    demo.run("worker", "status")
    demo.run("worker", "scale", "2")
    long = demo.run("task", "add", "--title", "Long", "--", "sleep 600").strip()
    demo.expect("it runs at once", is_soon(demo, long, "running"))
    demo.run("task", "cancel", long)
    demo.expect("it ends at once", is_soon(demo, long, "cancelled"))
    demo.run("worker", "stop")
    demo.expect("the pool is gone", not demo.ask("worker", "status")["isRunning"])


def is_soon(demo: Demo, task: str, status: str) -> bool:
    """Whether a task gets there within some seconds."""
    end = time.monotonic() + 20
    while time.monotonic() < end:
        if demo.ask("task", "show", task)["status"] == status:
            return True
        time.sleep(0.1)
    return False


def main() -> int:
    """Tell the whole story."""
    with tempfile.TemporaryDirectory(prefix="acode-demo-") as directory:
        project = Path(directory)
        (project / "nightly.yml").write_text(BATCH, encoding="utf-8")
        (project / "wrong.yml").write_text(WRONG, encoding="utf-8")
        demo = Demo(project)
        ids = queue_tasks(demo)
        look_around(demo, ids)
        change_minds(demo, ids)
        hold_the_queue(demo)
        add_at_once(demo)
        run_everything(demo, ids)
        keep_it_safe(demo)
        return demo.summary()


if __name__ == "__main__":
    sys.exit(main())
