"""`worker logs`, `worker attach` and `task logs`, over files as workers write them."""

import json
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Any

import pytest

from acode.clock import SystemClock, iso
from acode.ids import new_id
from acode.model.task import Result
from acode.model.verdict import Complete
from acode.observe.log import OutputLog
from tests.cli.conftest import ACODE, Project, problem_of
from tests.cli.test_terminal import Terminal, shown

HOUR_MS = 3_600_000


class Pool:
    """Workers of a project, as far as their logs go."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.now = SystemClock().now()

    def worker(self, **options: int) -> tuple[str, OutputLog]:
        worker_id = new_id(self.now - HOUR_MS)
        return worker_id, OutputLog(f"{self.project.root}/.agent/logs", worker_id, **options)

    def say(self, log: OutputLog, text: str | bytes, at: int = 0, tag: str = "O") -> None:
        data = text.encode() if isinstance(text, str) else text
        log.write(tag, data, self.now + at)


@pytest.fixture
def pool(project: Project) -> Pool:
    return Pool(project)


def two_workers(pool: Pool) -> tuple[str, str]:
    """One that ran a task, one that only started."""
    first, log = pool.worker()
    pool.say(log, "worker started\n", -9_000, "I")
    log.begin("01TASK", 2)
    pool.say(log, "out\n", -7_000)
    pool.say(log, "err\n", -5_000, "E")
    log.close()
    second, log = pool.worker()
    pool.say(log, "worker started\n", -8_000, "I")
    pool.say(log, "trouble\n", -6_000, "X")
    log.close()
    return first, second


def objects(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def spoken(project: Project, *args: str) -> list[str]:
    done = project.run("worker", "logs", "--format", "json", *args)
    assert done.code == 0, done
    return [each["message"] for each in objects(done.out)]


@pytest.mark.req("027a-FR-043")
def test_all_workers_are_one_stream_in_the_order_of_time(project: Project, pool: Pool) -> None:
    first, second = two_workers(pool)
    done = project.run("worker", "logs")
    assert (done.code, done.err) == (0, "")
    lines = [
        re.fullmatch(r"\d\d:\d\d:\d\d\.\d{3} (worker-\S+) (\S+) \| (.*)", line)
        for line in done.out.splitlines()
    ]
    short = {each: f"worker-{each[:8]}…{each[-4:]}" for each in (first, second)}
    assert [line and line.groups() for line in lines] == [
        (short[first], "-", "worker started"),
        (short[second], "-", "worker started"),
        (short[first], "01TASK", "out"),
        (short[second], "-", "trouble"),
        (short[first], "01TASK", "err"),
    ]


@pytest.mark.parametrize("how", [["--format", "json"], ["--json"]])
def test_json_lines_have_exactly_the_keys_of_the_contract(
    project: Project, pool: Pool, how: list[str]
) -> None:
    first, _ = two_workers(pool)
    lines = objects(project.run("worker", "logs", first, *how).out)
    assert lines[2] == {
        "time": iso(pool.now - 5_000),
        "workerId": first,
        "taskId": "01TASK",
        "attempt": 2,
        "stream": "stderr",
        "level": "warning",
        "message": "err",
    }
    assert (lines[0]["taskId"], lines[0]["attempt"], lines[0]["stream"]) == (None, None, "system")


@pytest.mark.req("027-ERR-001")
def test_workers_are_named_by_a_prefix_with_or_without_the_word(
    project: Project, pool: Pool
) -> None:
    first, second = two_workers(pool)
    assert spoken(project, second) == ["worker started", "trouble"]
    assert spoken(project, f"worker-{second}") == ["worker started", "trouble"]
    assert spoken(project, f"worker-{first[:-1].lower()}") == ["worker started", "out", "err"]
    for text in ("01ZZZ", "worker-", "nö", "../daemon"):
        problem_of(project.run("worker", "logs", text), 1, "WORKER-001")
        problem_of(project.run("worker", "attach", text), 1, "WORKER-001")
    problem_of(project.run("worker", "logs", first[:5]), 1, "TASK-002")


def test_lines_are_filtered(project: Project, pool: Pool) -> None:
    two_workers(pool)
    assert spoken(project, "--level", "warning") == ["trouble", "err"]
    assert spoken(project, "--level", "error") == ["trouble"]
    assert spoken(project, "--since", "1h")[0] == "worker started"
    assert spoken(project, "--since", iso(pool.now - 6_500) or "") == ["trouble", "err"]
    assert spoken(project, "--since", "2999-01-01") == []


def test_lines_of_one_task_are_found(project: Project, pool: Pool) -> None:
    task = project.add("--", "true")
    _, log = pool.worker()
    for each in ("01OTHER", task):
        log.begin(each, 1)
        pool.say(log, f"of {each}\n")
        log.end()
    log.close()
    assert spoken(project, "--task", task[:20]) == [f"of {task}"]
    problem_of(project.run("worker", "logs", "--task", "01ZZ"), 1, "TASK-001")


@pytest.mark.parametrize("since", ["", "1", "1w", "h", "-1h", "yesterday", "2025-13-01", "1h1m"])
def test_a_bad_time_exits_2(project: Project, since: str) -> None:
    for words in (["worker", "logs"], ["task", "logs", project.add("--", "true")]):
        problem_of(project.run(*words, "--since", since), 2, "USAGE")


@pytest.mark.parametrize(
    "line",
    [
        "worker logs a b",
        "worker logs --level loud",
        "worker logs --format xml",
        "worker attach",
        "task logs",
        "task logs 01J --attempt 0",
        "task logs 01J --format html",
    ],
)
def test_a_wrong_command_line_exits_2(project: Project, line: str) -> None:
    problem_of(project.run(*line.split()), 2, "USAGE")


def test_repeated_messages_are_counted(project: Project, pool: Pool) -> None:
    _, log = pool.worker()
    pool.say(log, "same\n" * 1_000 + "other\n")
    log.close()
    assert spoken(project) == ["same", "last message repeated 999 times", "other"]


def test_rotated_and_packed_parts_are_read(project: Project, pool: Pool) -> None:
    worker, log = pool.worker(max_bytes=2_000)
    for number in range(200):
        pool.say(log, f"{number}\n", number)
    log.close()
    part = project.root / ".agent/logs/workers" / f"worker-{worker}.log.1"
    subprocess.run(["gzip", part], check=True)
    found = spoken(project)
    assert found == [str(number) for number in range(200 - len(found), 200)]
    assert len(found) > 100


def test_lines_are_exported_to_a_new_file_only(project: Project, pool: Pool) -> None:
    two_workers(pool)
    done = project.run("worker", "logs", "--format", "json", "--export", "pool.log")
    assert (done.code, done.out, done.err) == (0, "5 lines written to pool.log\n", "")
    exported = (project.root / "pool.log").read_text(encoding="utf-8")
    assert [each["message"] for each in objects(exported)][-1] == "err"
    again = project.run("worker", "logs", "--export", "pool.log")
    problem_of(again, 1, "FILE-001")
    assert (project.root / "pool.log").read_text(encoding="utf-8") == exported


def test_an_export_that_cannot_be_written_is_refused(project: Project, pool: Pool) -> None:
    two_workers(pool)
    problem_of(project.run("worker", "logs", "--export", "nowhere/pool.log"), 1, "SYSTEM")


def test_nothing_to_show_is_no_error(project: Project) -> None:
    assert project.run("worker", "logs") == (0, "", "nothing was said\n")
    assert project.run("worker", "logs", "--quiet") == (0, "", "")


COLOURS = re.compile(r"\x1b\[(\d+)m[\d:.]+ worker-\S+ \S+ \|\x1b\[0m")


def test_each_worker_has_its_colour_for_good(project: Project, pool: Pool) -> None:
    _, log = pool.worker()
    pool.say(log, "a\nb\n")
    log.close()
    out = project.run("worker", "logs", "--format", "colored").out
    colours = COLOURS.findall(out)
    assert len(colours) == 2
    assert len(set(colours)) == 1
    assert COLOURS.findall(shown(project, "worker", "logs")) == colours


@pytest.mark.parametrize("how", ["flag", "variable"])
def test_colours_can_be_refused(project: Project, pool: Pool, how: str) -> None:
    _, log = pool.worker()
    pool.say(log, "\x1b[31mred\x1b[0m\n")
    log.close()
    if how == "variable":
        project.env["NO_COLOR"] = "1"
    flags = ["--no-color"] if how == "flag" else []
    text = shown(project, "worker", "logs", *flags)
    assert "| red\r\n" in text
    assert "\x1b" not in text


NASTY = b"a\tb \x1b[31mred\x1b[0m \x1b[2J\x07\x9b\xc2\x9b \xff \xe2\x80\xae c\r\n"


def test_a_terminal_gets_nothing_that_moves_its_cursor(project: Project, pool: Pool) -> None:
    _, log = pool.worker()
    task = project.add("--", "true")
    log.begin(task, 1)
    pool.say(log, NASTY)
    log.close()
    for words in (["worker", "logs"], ["task", "logs", task]):
        text = shown(project, *words)
        assert (
            "a\tb \x1b[31mred\x1b[0m \ufffd[2J\ufffd\ufffd\ufffd \ufffd \ufffd c\x1b[0m\r\n" in text
        )


def test_a_pipe_gets_the_characters_as_they_are(project: Project, pool: Pool) -> None:
    _, log = pool.worker()
    task = project.add("--", "true")
    log.begin(task, 1)
    pool.say(log, NASTY)
    log.close()
    out = subprocess.run(
        [ACODE, "task", "logs", task], cwd=project.root, env=project.env, stdout=subprocess.PIPE
    ).stdout
    assert out.decode() == NASTY.decode(errors="replace")


def ran(pool: Pool, task: str, *outputs: bytes) -> None:
    """Attempts of a task, each by a worker of its own."""
    for attempt, output in enumerate(outputs, 1):
        _, log = pool.worker()
        log.begin(task, attempt)
        pool.say(log, output, attempt)
        log.close()


def test_a_task_prints_its_output_and_nothing_else(project: Project, pool: Pool) -> None:
    task = project.add("--", "true")
    _, log = pool.worker()
    log.begin(task, 1)
    pool.say(log, "one\n\ntwo\n")
    pool.say(log, "sent SIGTERM\n", 1, "W")
    pool.say(log, "oops", 2, "E")
    log.close()
    done = project.run("task", "logs", task[:20])
    assert done == (0, "one\n\ntwo\noops\n", "acode: sent SIGTERM\n")
    assert project.run("task", "logs", task, "--quiet").err == ""


def test_repeated_output_of_a_task_is_not_touched(project: Project, pool: Pool) -> None:
    task = project.add("--", "true")
    ran(pool, task, b"same\n" * 10)
    assert project.run("task", "logs", task).out == "same\n" * 10


def test_an_attempt_can_be_chosen(project: Project, pool: Pool) -> None:
    task = project.add("--", "true")
    ran(pool, task, b"first\n", b"second\n")
    assert project.run("task", "logs", task).out == "first\nsecond\n"
    assert project.run("task", "logs", task, "--attempt", "2").out == "second\n"
    lines = objects(project.run("task", "logs", task, "--format", "json").out)
    assert [(line["attempt"], line["message"]) for line in lines] == [(1, "first"), (2, "second")]
    assert " | second\n" in project.run("task", "logs", task, "--format", "colored").out.replace(
        "\x1b[0m", ""
    )
    assert project.run("task", "logs", task, "--since", "2999-01-01").out == ""


def test_a_line_of_a_megabyte_comes_whole(project: Project, pool: Pool) -> None:
    task = project.add("--", "true")
    line = "añ€😀" * 100_000
    ran(pool, task, line.encode())
    assert project.run("task", "logs", task).out == f"{line}\n"
    parts = objects(project.run("task", "logs", task, "--json").out)
    assert "".join(part["message"] for part in parts) == line


def test_a_task_that_printed_nothing(project: Project) -> None:
    task = project.add("--", "true")
    assert project.run("task", "logs", task) == (0, "", f"task {task} has printed nothing\n")
    problem_of(project.run("task", "logs", "01ZZZ"), 1, "TASK-001")


def test_a_reader_that_leaves_is_no_error_to_talk_about(project: Project, pool: Pool) -> None:
    task = project.add("--", "true")
    ran(pool, task, b"line\n" * 100_000)
    done = subprocess.run(
        f"{ACODE} task logs {task} | head -1; {ACODE} worker logs --json | head -1",
        shell=True,
        cwd=project.root,
        env=project.env,
        capture_output=True,
        text=True,
    )
    assert done.stderr == ""
    assert done.stdout.startswith("line\n{")


def eventually(true: Callable[[], object]) -> None:
    deadline = time.monotonic() + 30
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def line_from(process: subprocess.Popen[str]) -> str:
    assert process.stdout
    return process.stdout.readline()


def test_following_a_task_ends_with_the_task(project: Project, pool: Pool) -> None:
    task = project.add("--", "true")
    (lease,) = project.claim()
    _, log = pool.worker()
    log.begin(task, 1)
    with project.start("task", "logs", task, "--follow") as process:
        pool.say(log, "first\n")
        assert line_from(process) == "first\n"
        pool.say(log, "half a ")
        assert process.stdout
        assert process.stdout.read(7) == "half a "
        pool.say(log, "line\nlast words")
        project.finish(lease, Complete(Result(exit_code=0)))
        out, err = process.communicate(timeout=30)
    log.close()
    assert (process.returncode, out, err) == (0, "line\nlast words\n", "")


def test_following_a_finished_task_only_prints_it(project: Project, pool: Pool) -> None:
    task = project.add("--", "true")
    project.complete()
    ran(pool, task, b"done\n")
    assert project.run("task", "logs", task, "--follow").out == "done\n"


def test_following_workers_goes_on_through_rotation_until_interrupted(
    project: Project, pool: Pool
) -> None:
    _, first = pool.worker(max_bytes=500)
    pool.say(first, "history\n")
    with project.start("worker", "logs", "--follow", "--format", "json") as process:
        assert json.loads(line_from(process))["message"] == "history"
        _, second = pool.worker()
        for number in range(100):
            pool.say(first, f"{number}\n", number)
        pool.say(second, "newcomer\n", 100)
        seen = [json.loads(line_from(process))["message"] for _ in range(101)]
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 130
    first.close()
    second.close()
    assert [each for each in seen if each != "newcomer"] == [str(number) for number in range(100)]
    assert "newcomer" in seen


def test_attaching_shows_live_output_and_detaching_is_no_failure(
    project: Project, pool: Pool
) -> None:
    worker, log = pool.worker()
    log.begin("01TASK", 1)
    pool.say(log, "before\n")
    with project.start("worker", "attach", worker[:-1]) as process:
        assert process.stderr
        assert process.stderr.readline() == f"attached to worker-{worker}; Ctrl-C detaches\n"
        pool.say(log, "to stdout\n")
        assert line_from(process) == "to stdout\n"
        pool.say(log, "to stderr\n", tag="E")
        assert process.stderr.readline() == "to stderr\n"
        pool.say(log, "no newline")
        assert process.stdout
        assert process.stdout.read(10) == "no newline"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    log.close()
    assert (process.returncode, out, err) == (0, "", "")


def test_attaching_passes_bytes_on_unchanged(project: Project, pool: Pool) -> None:
    worker, log = pool.worker()
    pool.say(log, "worker started\n", tag="I")
    received = project.root / "received"
    with (
        received.open("wb") as file,
        subprocess.Popen(
            [ACODE, "worker", "attach", worker],
            cwd=project.root,
            env=project.env,
            stdout=file,
            stderr=subprocess.PIPE,
        ) as process,
    ):
        assert process.stderr
        process.stderr.readline()
        data = bytes(range(256)) * 10 + b"\n"
        pool.say(log, data)
        eventually(lambda: os.path.getsize(received) >= len(data))
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
    log.close()
    assert received.read_bytes() == data


def test_a_reader_that_sleeps_does_not_hold_up_the_writer(project: Project, pool: Pool) -> None:
    _, log = pool.worker()
    pool.say(log, "begin\n")
    with project.start("worker", "logs", "--follow") as process:
        assert "begin" in line_from(process)
        process.send_signal(signal.SIGSTOP)
        started = time.monotonic()
        for _ in range(200):
            pool.say(log, b"x" * 79 + b"\n" + b"y" * 60_000)
        took = time.monotonic() - started
        process.kill()
    log.close()
    assert took < 60, "it waited for the reader"


def test_a_terminal_that_follows_is_left_by_ctrl_c(project: Project, pool: Pool) -> None:
    _, log = pool.worker()
    pool.say(log, "hello\n")
    terminal = Terminal(project, "worker", "logs", "--follow")
    terminal.read_until(lambda text: "hello" in text)
    terminal.process.send_signal(signal.SIGINT)
    terminal.finish()
    log.close()
    assert terminal.process.returncode == 130
