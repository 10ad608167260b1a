"""The plugins that every test run relies on, tried in runs of their own."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


class Run:
    """A small test file and a pytest of its own."""

    def __init__(self, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("PYTHONPATH", str(ROOT))
        monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        monkeypatch.delenv("CI", raising=False)
        self.pytester = pytester

    def __call__(self, source: str, *options: str) -> pytest.RunResult:
        self.pytester.makepyfile(f"import pytest, subprocess\n\n{source}")
        plugins = [
            f"-ptests.plugins.{name}" for name in ("components", "leftovers", "requirements")
        ]
        return self.pytester.runpytest_subprocess(*plugins, *options)


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Run:
    return Run(pytester, monkeypatch)


NEEDS = """
from tests.plugins.components import COMPONENTS, Component
COMPONENTS["unicorn"] = Component(lambda: False, "look in the woods")

@pytest.mark.needs("unicorn")
def test_it(): pass
"""


def test_a_missing_component_skips_and_says_how_to_get_it(run: Run) -> None:
    outcome = run(NEEDS)
    outcome.assert_outcomes(skipped=1)
    outcome.stdout.fnmatch_lines("unicorn (1 tests not run): look in the woods")


def test_a_missing_component_fails_in_ci(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CI", "true")
    run(NEEDS).assert_outcomes(errors=1)


def test_a_component_that_is_there_changes_nothing(run: Run) -> None:
    run(NEEDS.replace("lambda: False", "lambda: True")).assert_outcomes(passed=1)


def test_an_unknown_component_fails(run: Run) -> None:
    run("@pytest.mark.needs('unicorn')\ndef test_it(): pass").assert_outcomes(errors=1)


def test_a_process_that_is_left_behind_fails_the_run(run: Run) -> None:
    outcome = run("def test_it():\n    subprocess.Popen(['sleep', '60']).returncode = 0")
    outcome.assert_outcomes(passed=1, errors=1)
    assert "tests left processes behind: [['sleep', '60']]" in outcome.stdout.str()


def test_a_mark_that_names_no_row_fails(run: Run) -> None:
    run("@pytest.mark.req('lld-999')\ndef test_it(): pass").assert_outcomes(errors=1)


ROWS = """
@pytest.mark.req("lld-12", "lld-13")
def test_a(): pass

@pytest.mark.req("lld-13")
def test_b(): assert False

@pytest.mark.req("lld-14")
@pytest.mark.skip
def test_c(): pass
"""


@pytest.mark.parametrize("spread", [(), ("-pxdist", "-n2")], ids=["alone", "spread"])
def test_a_row_is_proven_when_its_tests_passed(run: Run, spread: tuple[str, ...]) -> None:
    lines = run(ROWS, "--requirements", *spread).outlines
    proven = lines[next(i for i, line in enumerate(lines) if "requirements proven: 1 of" in line) :]
    assert [line.split("\t")[0] for line in proven if "\t" in line] == ["lld-12"]
    assert [line for line in lines if line.startswith("lld-13\t") and line.endswith("FAILING")]


def test_a_row_that_is_a_time_is_left_to_the_benchmark(run: Run) -> None:
    lines = run(ROWS, "--requirements").outlines
    title = next(i for i, line in enumerate(lines) if "that make bench measures" in line)
    assert [i for i, line in enumerate(lines) if line.startswith("027a-NFR-003\t") and i > title]
    assert not [i for i, line in enumerate(lines) if line.startswith("lld-14\t") and i > title]
