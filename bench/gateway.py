"""Does watching cost? Requests beside a busy pool, many who follow events, a page of 100,000 tasks.

Rates are compared in turns of a few seconds. The callers cost something themselves, so there is a
turn in which they call a server that knows nothing, too.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from time import perf_counter, sleep
from typing import Any

from acode.keys import login_link, token
from acode.model.state import Status
from acode.project import Project
from bench.command import acode
from bench.filled import Filling, Shelf
from bench.pools import Pool, pool
from bench.report import Line, Pair, at_least, duration
from bench.rounds import Rounds, Scale

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


def _load(shelf: Shelf, scale: Scale) -> Iterator[Line]:
    span = 30.0 if scale.rounds > 2 else 3.0
    with pool(shelf.fresh(), WORKERS) as running:
        address, key = _address(running), token(running.project)
        dumb = _callers("nothing")
        assert dumb.stdout is not None
        empty = f"127.0.0.1:{dumb.stdout.readline().strip()}"
        took: list[float] = []
        floor: list[float] = []
        try:
            _read(address, key, 1.0)  # the gateway is up from here on
            turns = {
                "nobody calls": lambda: _rate(running, span, None, key, []),
                "gateway": lambda: _rate(running, span, address, key, took),
                DUMB: lambda: _rate(running, span, empty, key, floor),
            }
            rounds = Rounds(turns, min(scale.rounds, MOST_ROUNDS))
        finally:
            dumb.kill()
            dumb.wait()
    case = f"tasks/s of {WORKERS} workers under {RATE} requests/s"
    yield at_least(case, Pair(rounds, "gateway", "nobody calls"), 0.95)
    yield at_least(case, Pair(rounds, "gateway", DUMB))
    slow, least = _percentile(took, 0.99), _percentile(floor, 0.99)
    words = f"p50 {duration(_percentile(took, 0.5))}, {len(took):,} requests"
    case = "reads beside a busy pool, p99"
    yield Line(case, duration(slow), words, None, "≤ 50 ms", slow <= 0.05)
    yield Line(case, duration(slow), f"{DUMB}: {duration(least)}", slow / least)


def _percentile(values: list[float], rank: float) -> float:
    return sorted(values)[int(len(values) * rank)]


def _read(address: str, key: str, span: float) -> list[float]:
    with _callers("reads", address, key, str(RATE), str(span)) as callers:
        found: list[float] = json.loads(callers.communicate()[0])
    return found


def _rate(running: Pool, span: float, address: str | None, key: str, took: list[float]) -> float:
    """Tasks a second while somebody calls, or nobody."""
    _top_up(running)
    before, began = running.count(Status.COMPLETED), perf_counter()
    with ThreadPoolExecutor(1) as aside:
        turn = aside.submit(_turn, span, address, key)
        while not turn.done():
            _top_up(running)
            sleep(0.2)
    rate = (running.count(Status.COMPLETED) - before) / (perf_counter() - began)
    took += turn.result()
    _empty(running)
    return rate


def _turn(span: float, address: str | None, key: str) -> list[float]:
    """Call, or only let time pass."""
    if address is not None:
        return _read(address, key, span)
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
