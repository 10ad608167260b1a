#!/usr/bin/env python3
"""A stand-in for a coding agent: it does what its prompt says, and speaks the same stream.

The prompt is a line of steps, divided by `;`:

    say WORDS · write FILE WORDS · run COMMAND · rest SECONDS · wait FILE · huge BYTES · noise
    limit SECONDS [FILE] · fail WORDS · trouble NAME WORDS · silent · hang · exit CODE

A `limit` with a file is met once: the file says that it was. The run ends with a result,
unless `silent`; `hang` stays after the result until it is killed.
"""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

SESSION = "5a3d9c4e-0000-4000-8000-57a4d14a6e47"


def emit(**event: Any) -> None:
    sys.stdout.write(json.dumps({**event, "session_id": SESSION}) + "\n")
    sys.stdout.flush()


def say(*blocks: dict[str, Any], **more: Any) -> None:
    message = {"role": "assistant", "model": "stand-in", "content": list(blocks)}
    emit(type="assistant", message=message, parent_tool_use_id=None, **more)


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


class Agent:
    """One run."""

    def __init__(self) -> None:
        self.turns = 0
        self.error = ""
        self.code: int | None = None
        self.silent = self.hangs = False

    def do(self, step: str) -> None:
        verb, _, rest = step.strip().partition(" ")
        self.turns += 1
        getattr(self, f"do_{verb}", self.do_nothing)(rest)

    def do_nothing(self, _rest: str) -> None:
        say(text("I do not know how to do that."))

    def do_say(self, rest: str) -> None:
        say(text(rest))

    def do_write(self, rest: str) -> None:
        name, _, words = rest.partition(" ")
        self.use("Write", {"file_path": name, "content": words})
        with Path(name).open("a", encoding="utf-8") as file:
            file.write(words + "\n")
        self.give_back("written")

    def do_run(self, rest: str) -> None:
        self.use("Bash", {"command": rest})
        done = subprocess.run(["/bin/sh", "-c", rest], capture_output=True, text=True, check=False)
        self.give_back(done.stdout + done.stderr, is_error=done.returncode != 0)

    def do_rest(self, rest: str) -> None:
        time.sleep(float(rest))

    def do_wait(self, rest: str) -> None:
        while not Path(rest).exists():
            time.sleep(0.02)

    def do_huge(self, rest: str) -> None:
        self.use("Read", {"file_path": "huge"})
        self.give_back("x" * int(rest))

    def do_noise(self, _rest: str) -> None:
        os.write(1, b"no event \xff\xfe\x00 at all\n{broken\n" + b'{"type": "from the future"}\n')

    def do_limit(self, rest: str) -> None:
        seconds, _, name = rest.partition(" ")
        if name and Path(name).exists():
            return
        if name:
            Path(name).touch()
        info = {"status": "rejected", "resetsAt": int(time.time()) + int(seconds)}
        emit(type="rate_limit_event", rate_limit_info={**info, "rateLimitType": "five_hour"})
        self.trouble("rate_limit", "You've hit your session limit")

    def do_fail(self, rest: str) -> None:
        self.error = rest

    def do_trouble(self, rest: str) -> None:
        name, _, words = rest.partition(" ")
        self.trouble(name, words)

    def trouble(self, name: str, words: str) -> None:
        say(text(words), error=name)
        self.error, self.code = words, 1

    def do_silent(self, _rest: str) -> None:
        self.silent = True

    def do_hang(self, _rest: str) -> None:
        self.hangs = True

    def do_exit(self, rest: str) -> None:
        self.code = int(rest)

    def use(self, name: str, given: dict[str, Any]) -> None:
        say({"type": "tool_use", "id": f"toolu_{self.turns}", "name": name, "input": given})

    def give_back(self, words: str, *, is_error: bool = False) -> None:
        block = {"type": "tool_result", "tool_use_id": f"toolu_{self.turns}", "content": words}
        emit(type="user", message={"role": "user", "content": [{**block, "is_error": is_error}]})

    def result(self) -> None:
        emit(
            type="result",
            subtype="success",
            is_error=bool(self.error),
            duration_ms=1200,
            num_turns=self.turns,
            result=self.error or "all steps are done",
            total_cost_usd=0.25,
        )


def main(prompt: str) -> int:
    emit(type="system", subtype="init", model="stand-in-1", cwd=str(Path.cwd()), tools=[])
    agent = Agent()
    for step in prompt.split(";"):
        agent.do(step)
    if not agent.silent:
        agent.result()
    while agent.hangs:
        time.sleep(60)
    return agent.code or 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1]))
