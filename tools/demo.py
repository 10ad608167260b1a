"""The main job, end to end, on a sample repository: `make demo`. Fails if anything is off."""

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
STAND_IN = Path(__file__).parents[1] / "tests" / "standin_agent.py"

SHAPES = {"circle": "3.14159 * size ** 2", "square": "size ** 2", "triangle": "0.433 * size ** 2"}
FILES = {
    ".gitignore": "__pycache__/\n",
    "README.md": "# Shapes\n\nA small library.\n",
    "shapes/__init__.py": "",
    **{
        f"shapes/{name}.py": f"def area(size: float) -> float:\n    return {formula}\n"
        for name, formula in SHAPES.items()
    },
    "tests/test_shapes.py": "from shapes import square\n\n\ndef test_square():\n"
    "    assert square.area(3) == 9\n",
    "tools/count.sh": "#!/bin/sh\nwc -l shapes/*.py\n",
}

SETTINGS = {
    "agents": {
        "stand-in": {
            "command": [sys.executable, "-I", str(STAND_IN), "{prompt}"],
            "verify": "python3 -m compileall -q shapes",
        }
    },
    "retry": {"initialDelayMs": 200},
}


def shell(title: str, command: str, **more: Any) -> dict[str, Any]:
    """A task for the shell."""
    return {"title": title, "command": command, **more}


def agent(title: str, prompt: str) -> dict[str, Any]:
    """A task for the stand-in of a coding agent."""
    return {"title": title, "type": "stand-in", "command": prompt}


TASKS = [
    shell("Compile", "python3 -m compileall -q shapes", name="compile", priority="high"),
    *(
        shell(f"Check {name}", f"python3 -c 'import shapes.{name}'", after=["compile"])
        for name in SHAPES
    ),
    shell("Test", "python3 -c 'from tests.test_shapes import test_square as test; test()'"),
    {"title": "Count lines", "type": "script", "command": "tools/count.sh"},
    {
        "title": "Area of a square",
        "type": "python",
        "command": "shapes.square:area",
        "args": ["12"],
    },
    *(
        shell(f"Header for {name}", f"sed -i '1i # {name}, by acode' shapes/{name}.py")
        for name in SHAPES
    ),
    *(shell(f"Line {n} in the README", f"echo 'Line {n}.' >> README.md") for n in (1, 2, 3)),
    agent("Agent writes a changelog", "say I look around; run ls; write CHANGELOG.md First."),
    agent("Agent adds a hexagon", "write shapes/hexagon.py size = 6; run cat shapes/hexagon.py"),
    agent("Agent breaks the code", "write shapes/circle.py def broken(:; say Done, I am sure."),
    shell("Fails once, then works", '[ "$ACODE_ATTEMPT" -gt 1 ] || { echo no luck; exit 75; }'),
    shell("Takes too long", "sleep 60", timeout=1, retries=0),
    shell("Half done, then fails", "echo precious > half-done.txt; exit 1"),
    shell("Report", "mkdir out; ls > out/report.txt", artifacts=["out/*.txt"], after=["compile"]),
]

FAIL = {"Agent breaks the code", "Takes too long", "Half done, then fails"}
CHANGE = {
    *(f"Header for {name}" for name in SHAPES),
    *(f"Line {n} in the README" for n in (1, 2, 3)),
    "Agent writes a changelog",
    "Agent adds a hexagon",
    "Report",
}

NEXT = """\
acode init                                in a project of your own: every setting with its default
acode task add -- make test               one task; acode worker start runs it
acode run tasks.yml                       a batch, with a pool for just as long
acode task add --type claude-code -- …    a real agent, if claude is installed
docs/tutorial-agents.md                   ten agents on one repository, step by step"""


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

    def run(self, *args: str, exits: int = 0) -> None:
        """Run one command where it is seen, and expect its exit code."""
        print(f"$ acode {shlex.join(args)}", flush=True)
        done = subprocess.run([ACODE, *args], cwd=self.project, env=self.env)
        self.expect(f"acode {args[0]} exits with {exits}", done.returncode == exits)

    def ask(self, *args: str) -> Any:
        """The JSON answer to a question, not shown."""
        command = [ACODE, *args, "--json"]
        done = subprocess.run(command, cwd=self.project, env=self.env, capture_output=True)
        if done.returncode:
            sys.exit(f"!! acode {shlex.join(args)} --json failed: {done.stderr.decode()}")
        return json.loads(done.stdout)

    def git(self, *args: str) -> str:
        """What git says in the user's own checkout."""
        done = subprocess.run(
            ["git", *args], cwd=self.project, capture_output=True, text=True, check=True
        )
        return done.stdout

    def expect(self, what: str, holds: bool) -> None:
        """Note whether something is as it should be."""
        (self.passed if holds else self.off).append(what)
        if not holds:
            print(f"!! {what}: no")

    def summary(self, seconds: float) -> int:
        """Tell how it went; the exit code of the demo."""
        total = len(self.passed) + len(self.off)
        for what in self.off:
            print(f"OFF: {what}")
        print(f"\n{len(self.passed)} of {total} expectations held, in {seconds:.0f} s.")
        return 1 if self.off else 0


def make_repository(demo: Demo) -> None:
    """A small repository, and something in it that its user is at work on."""
    demo.chapter("A sample repository, with an edit of its user that nothing may touch")
    for name, text in FILES.items():
        path = demo.project / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    (demo.project / "tools" / "count.sh").chmod(0o755)
    demo.git("init", "-q", "-b", "main")
    demo.git("config", "user.name", "Demo")
    demo.git("config", "user.email", "demo@example.org")
    demo.git("add", "-A")
    demo.git("commit", "-qm", "Shapes")
    (demo.project / "README.md").write_text("# Shapes\n\nThe user is writing here.\n")
    print(demo.git("log", "--oneline"), demo.git("status", "--short"), sep="", end="")


def configure(demo: Demo) -> None:
    """The settings and the batch."""
    agent_dir = demo.project / ".agent"
    agent_dir.mkdir()
    (agent_dir / "config.yml").write_text(json.dumps(SETTINGS), encoding="utf-8")
    (agent_dir / "demo.json").write_text(json.dumps(TASKS), encoding="utf-8")


def run_everything(demo: Demo) -> dict[str, Any]:
    """All tasks at once, each in a worktree of its own; what became of them, by title."""
    demo.chapter(f"{len(TASKS)} tasks, four at once, each in a worktree of its own")
    demo.run("run", ".agent/demo.json", "--count", "4", exits=1)
    tasks = {task["title"]: task for task in demo.ask("task", "list")}
    failed = {title for title, task in tasks.items() if task["status"] == "failed"}
    demo.expect("those that must fail do, all others complete", failed == FAIL)
    demo.expect("nothing waits any more", all(task["completedAt"] for task in tasks.values()))
    demo.expect("one was retried", tasks["Fails once, then works"]["attemptCount"] == 2)
    demo.expect("one timed out", tasks["Takes too long"]["error"]["code"] == "TIMEOUT")
    demo.expect("the pool is gone", not demo.ask("worker", "status")["isRunning"])
    return tasks


def show_results(demo: Demo, tasks: dict[str, Any]) -> None:
    """Branches for what changed files, patches for all."""
    demo.chapter("Whoever changed files has a branch; the user's checkout is as it was")
    print("$ git branch --list 'acode/*' --format='%(refname:short)  %(subject)'")
    listed = demo.git(
        "branch", "--list", "acode/*", "--format=%(refname:short)  %(contents:subject)"
    )
    print(listed, end="")
    branches = {line.split("  ")[1] for line in listed.splitlines()}
    demo.expect("each that changed files has its branch", branches == CHANGE)
    demo.expect("the user's edit is untouched", demo.git("status", "--short") == " M README.md\n")
    demo.expect("no worktree is left", demo.git("worktree", "list").count("\n") == 1)
    demo.run("task", "diff", tasks["Header for circle"]["id"])


def show_agents(demo: Demo, tasks: dict[str, Any]) -> None:
    """What agents said, and that saying is not doing."""
    demo.chapter("An agent's stream becomes a log that people read; what it cost is kept")
    task = tasks["Agent adds a hexagon"]["id"]
    demo.run("task", "logs", task)
    demo.expect("its cost is known", demo.ask("task", "show", task)["agent"]["costUsd"] == 0.25)
    demo.chapter("Done is a claim: the check decides")
    broken = tasks["Agent breaks the code"]["id"]
    demo.run("task", "why", broken)
    claimed = demo.ask("task", "show", broken)
    demo.expect("it claimed success", claimed["agent"]["isError"] is False)
    demo.expect("the check did not agree", claimed["checks"]["verify"] != 0)
    value = demo.ask("task", "show", tasks["Area of a square"]["id"])["value"]
    demo.expect("the value of a function is kept", value == 144)


def show_failures(demo: Demo, tasks: dict[str, Any]) -> None:
    """Nothing is lost: neither failed tasks nor their work."""
    demo.chapter("A task that failed for good is kept, and so is what it had done")
    demo.run("dlq", "list")
    half = tasks["Half done, then fails"]["id"]
    demo.run("task", "restore", half)
    saved = demo.git("show", f"acode/{half}:half-done.txt")
    demo.expect("the work of the failed task is back", saved == "precious\n")
    report = demo.project / ".agent" / "artifacts" / tasks["Report"]["id"] / "out" / "report.txt"
    demo.expect("artifacts are kept", report.exists())
    demo.chapter("What nobody means is refused")
    demo.run("task", "add", "--", "rm -rf / --no-preserve-root", exits=1)


def main(words: list[str]) -> int:
    """Tell the whole story; a directory that is named is kept."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="acode-demo-") as directory:
        demo = Demo(Path(words[0]) if words else Path(directory))
        make_repository(demo)
        configure(demo)
        tasks = run_everything(demo)
        show_results(demo, tasks)
        show_agents(demo, tasks)
        show_failures(demo, tasks)
        demo.chapter("What to try next")
        print(NEXT)
        return demo.summary(time.monotonic() - began)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
