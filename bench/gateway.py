"""Does watching cost? Requests beside a busy pool, many who follow events, a page of 100,000 tasks.

Rates are compared in turns. The callers cost something themselves, so there is a turn in which they
call a server that knows nothing, too, and the table says who used how much of the processor.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from statistics import median
from time import perf_counter, sleep
from typing import Any, NamedTuple

import psutil

from acode.keys import login_link, token
from acode.model.state import Status
from acode.project import Project
from bench.command import acode
from bench.filled import Filling, Shelf
from bench.pools import Pool, cpu_seconds, pool
from bench.report import Line, duration
from bench.rounds import Scale

WORKERS = 4
RATE = 500
AHEAD = 1_000
"""Tasks that wait at least while a rate is measured."""
MOST_ROUNDS = 3
"""Of half a minute for each turn."""
DUMB = "server that knows nothing"
CLIENTS = 100
EVENTS_PER_SECOND = 1_000
FEW, MANY = 100, 100_000
BROWSERS = ("chromium", "chromium-browser", "google-chrome")


def measure(shelf: Shelf, scale: Scale) -> Iterator[Line]:
    """All three."""
    yield from _load(shelf, scale)
    yield from _followers(shelf, scale)
    yield from _paint(shelf, scale)


def _callers(*words: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "bench.callers", *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _address(running: Pool) -> str:
    status: Any = json.loads(acode("worker status --json", running.project.root))
    return str(status["apiUrl"]).removeprefix("http://")


class Calls(NamedTuple):
    """What came of calling: how long each answer took, and what callers and server used for it."""

    took: list[float]
    caller_seconds: float
    server_seconds: float


class Server(NamedTuple):
    """Whom to call."""

    address: str
    key: str
    pid: int


class Turns:
    """Rates while somebody calls, each between two turns in which nobody does: a disk that slows
    down, or a queue that grows, is no fault of the callers."""

    def __init__(self, running: Pool, span: float) -> None:
        self._running = running
        self._span = span
        self._before = _rate(running, span / 2, None, [])
        self.calls: dict[str, list[Calls]] = {}
        self.rates: dict[str, list[tuple[float, float]]] = {}

    def take(self, name: str, server: Server) -> None:
        """One turn, and the one after it."""
        calls = self.calls.setdefault(name, [])
        rate = _rate(self._running, self._span, server, calls)
        after = _rate(self._running, self._span / 2, None, [])
        quiet, self._before = (self._before + after) / 2, after
        self.rates.setdefault(name, []).append((rate, quiet))

    def line(self, name: str) -> Line:
        """Rates with and without callers."""
        rates = self.rates[name]
        ratio = median(rate / quiet for rate, quiet in rates)
        beside = f"nobody calls: {median(quiet for _, quiet in rates):,.0f}/s"
        case = f"tasks/s of {WORKERS} workers, {RATE} requests/s to the {name}"
        return Line(case, f"{median(rate for rate, _ in rates):,.0f}/s", beside, ratio)


def _load(shelf: Shelf, scale: Scale) -> Iterator[Line]:
    span = 30.0 if scale.rounds > 2 else 6.0
    with pool(shelf.fresh(), WORKERS) as running:
        dumb = _callers("nothing")
        assert dumb.stdout is not None
        empty = Server(f"127.0.0.1:{dumb.stdout.readline().strip()}", "", dumb.pid)
        try:
            gateway, turns = _gateway(running), Turns(running, span)
            for _ in range(min(scale.rounds, MOST_ROUNDS)):
                turns.take("gateway", gateway)
                turns.take(DUMB, empty)
        finally:
            dumb.kill()
            dumb.wait()
    line = turns.line("gateway")
    yield line._replace(goal="≥ 0.95x", met=(line.ratio or 0) >= 0.95)
    yield turns.line(DUMB)
    took, floor = _all(turns.calls["gateway"]), _all(turns.calls[DUMB])
    slow, least = _percentile(took, 0.99), _percentile(floor, 0.99)
    words = f"p50 {duration(_percentile(took, 0.5))}, {len(took):,} requests"
    case = "reads beside a busy pool, p99"
    yield Line(case, duration(slow), words, None, "≤ 50 ms", slow <= 0.05)
    yield Line(case, duration(slow), f"{DUMB}: {duration(least)}", slow / least)
    for name, calls in turns.calls.items():
        yield _cost(name, calls)


def _gateway(running: Pool) -> Server:
    """The gateway, which the first caller starts."""
    address, key = _address(running), token(running.project)
    _read(Server(address, key, os.getpid()), 1.0)
    started = psutil.Process(running.daemon_pid).children()
    (process,) = [each for each in started if "acode.gateway.main" in each.cmdline()]
    return Server(address, key, process.pid)


def _all(calls: list[Calls]) -> list[float]:
    return [each for some in calls for each in some.took]


def _cost(name: str, calls: list[Calls]) -> Line:
    count = len(_all(calls))
    server = sum(each.server_seconds for each in calls) / count
    caller = sum(each.caller_seconds for each in calls) / count
    beside = f"who calls: {duration(caller)}"
    return Line(f"processor time of a request, {name}", duration(server), beside)


def _percentile(values: list[float], rank: float) -> float:
    return sorted(values)[int(len(values) * rank)]


def _read(server: Server, span: float) -> Calls:
    began = cpu_seconds(server.pid)
    with _callers("reads", server.address, server.key, str(RATE), str(span)) as callers:
        found: Any = json.loads(callers.communicate()[0])
    return Calls(found["took"], found["cpu"], cpu_seconds(server.pid) - began)


def _rate(running: Pool, span: float, server: Server | None, calls: list[Calls]) -> float:
    """Tasks a second while somebody calls, or nobody."""
    _top_up(running)
    before, began = running.count(Status.COMPLETED), perf_counter()
    with ThreadPoolExecutor(1) as aside:
        turn = aside.submit(_turn, span, server)
        while not turn.done():
            _top_up(running)
            sleep(0.2)
    rate = (running.count(Status.COMPLETED) - before) / (perf_counter() - began)
    calls += turn.result()
    _empty(running)
    return rate


def _turn(span: float, server: Server | None) -> list[Calls]:
    """Call, or only let time pass."""
    if server is not None:
        return [_read(server, span)]
    sleep(span)
    return []


def _top_up(running: Pool) -> None:
    """There is always more to do, but not much more."""
    if running.count(Status.PENDING) < AHEAD:
        running.submit(["true"] * AHEAD)


def _empty(running: Pool) -> None:
    while running.count(Status.PENDING) or running.count(Status.RUNNING):
        sleep(0.1)


def _followers(shelf: Shelf, scale: Scale) -> Iterator[Line]:
    seconds = 30 if scale.rounds > 2 else 5
    count = seconds * EVENTS_PER_SECOND
    with pool(shelf.fresh(), 1) as running:
        acode("queue pause", running.project.root)
        address, key = _address(running), token(running.project)
        with _callers("events", address, key, str(CLIENTS), str(count)) as callers:
            assert callers.stdout is not None
            callers.stdout.readline()
            began = perf_counter()
            for step in range(seconds * 10):
                running.submit(["true"] * (EVENTS_PER_SECOND // 10))
                sleep(max(0.0, began + (step + 1) / 10 - perf_counter()))
            sent = perf_counter() - began
            heard = json.loads(callers.communicate()[0])
            late = perf_counter() - began - sent
    lost = sum(count - each for each in heard)
    words = f"{count / sent:,.0f} events/s for {sent:.0f} s, the last {late:.1f} s after they began"
    case = f"events that {len(heard)} followers did not get"
    yield Line(case, f"{lost:,} of {count * len(heard):,}", words, None, "0", lost == 0)


def _paint(shelf: Shelf, scale: Scale) -> Iterator[Line]:
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    if browser is None:
        return
    rounds = max(3, scale.rounds)
    for path in ("/", "/tasks"):
        times = {name: _painted(shelf, name, path, browser, rounds) for name in (FEW, MANY)}
        few, many = sorted(times[FEW])[rounds // 2], sorted(times[MANY])[rounds // 2]
        case = f"first paint of {path} with {MANY:,} tasks"
        ratio = many / few
        beside = f"with {FEW}: {duration(few)}"
        yield Line(case, duration(many), beside, ratio, "≤ 2x", ratio <= 2)


def _painted(shelf: Shelf, tasks: int, path: str, browser: str, rounds: int) -> list[float]:
    from playwright.sync_api import sync_playwright

    project = shelf.filled(Filling(tasks // 2, mixed=True))
    acode("queue pause", project.root)
    with pool(project, 1) as running, sync_playwright() as playwright:
        url = f"http://{_address(running)}"
        flags = ["--no-sandbox"] if os.geteuid() == 0 else []
        chrome = playwright.chromium.launch(executable_path=browser, args=flags)
        page = chrome.new_page()
        page.goto(login_link(Project(project.root), url))
        page.wait_for_selector("tbody tr")
        times = []
        for _ in range(rounds):
            began = perf_counter()
            page.goto(url + path)
            page.wait_for_selector("tbody tr")
            times.append(perf_counter() - began)
        chrome.close()
    return times
