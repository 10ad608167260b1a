"""`@pytest.mark.req("lld-13")` ties a test to a row of docs/requirements.tsv.

A row is proven when at least one of its tests passed and none of them failed; --requirements tells.
Rows that are times or sizes no test asserts; `make bench` measures them.
"""

from collections import defaultdict
from functools import cache
from pathlib import Path

import pytest

from bench.bounds import BOUNDS

_FILE = Path(__file__).parents[2] / "docs" / "requirements.tsv"


@cache
def rows() -> dict[str, str]:
    """The requirements: id and text."""
    lines = _FILE.read_text(encoding="utf-8").splitlines()[1:]
    return dict(line.split("\t", 1) for line in lines)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--requirements", action="store_true", help="list the requirements that the tests prove"
    )


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--requirements"):
        config.pluginmanager.register(_Proofs(), "requirement-proofs")


def pytest_runtest_setup(item: pytest.Item) -> None:
    for row in _marked(item):
        if row not in rows():
            pytest.fail(f"marks {row!r}, which is no row of docs/requirements.tsv", pytrace=False)
        item.user_properties.append(("req", row))


def _marked(item: pytest.Item) -> list[str]:
    return [row for mark in item.iter_markers("req") for row in mark.args]


class _Proofs:
    """Collects the outcome of every marked test; with xdist only the controller hears them all."""

    def __init__(self) -> None:
        self.passed: dict[str, set[str]] = defaultdict(set)
        self.failed: dict[str, set[str]] = defaultdict(set)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        for row in (str(value) for key, value in report.user_properties if key == "req"):
            if report.failed:
                self.failed[row].add(report.nodeid)
            elif report.passed and report.when == "call":
                self.passed[row].add(report.nodeid)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        known = rows()
        proven = [row for row in known if row in self.passed and row not in self.failed]
        measured = [row for row in known if row in BOUNDS and row not in proven]
        open_rows = [row for row in known if row not in proven and row not in measured]
        terminalreporter.section(f"requirements without a passing test: {len(open_rows)}")
        for row in open_rows:
            failing = "  FAILING" if row in self.failed else ""
            terminalreporter.line(f"{row}\t{known[row]}{failing}")
        terminalreporter.section(f"requirements that make bench measures: {len(measured)}")
        for row in measured:
            terminalreporter.line(f"{row}\t{known[row]}")
        terminalreporter.section(f"requirements proven: {len(proven)} of {len(known)}")
        for row in proven:
            terminalreporter.line(f"{row}\t{known[row]}  ({len(self.passed[row])} tests)")
