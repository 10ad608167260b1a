"""What stands around the code is true: commands, links, references, the built wheel."""

import json
import re
import shlex
import subprocess
import sys
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

import acode
from acode import errors
from acode.cli.main import build
from acode.model.failure import FailureCode
from acode.model.state import Status
from acode.model.task import Record, Task, TaskSpec
from acode.settings import Settings, load
from acode.spec import read_batch
from acode.views import task_view
from tools import reference

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def name_of(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


complete = pytest.mark.req("027-AC-015")
every_page = pytest.mark.parametrize("page", PAGES, ids=name_of)


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md"])
def test_every_make_command_exists(page: str) -> None:
    targets = set(re.findall(r"^([a-z]+):", text_of(ROOT / "Makefile"), re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z]+)", text_of(ROOT / page), re.MULTILINE))
    assert {"test"} <= named <= targets


@every_page
def test_every_link_leads_somewhere(page: Path) -> None:
    links = re.findall(r"\]\(([^)#\s]+)[^)]*\)", text_of(page))
    local = [link for link in links if "://" not in link]
    assert not [link for link in local if not (page.parent / link).exists()]


def blocks_on(page: Path, language: str) -> list[str]:
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", text_of(page), re.MULTILINE | re.DOTALL)
    return [text for name, text in fenced if name == language]


def commands_on(page: Path) -> list[list[str]]:
    """Every `acode …` in the code blocks of a page, as words."""
    lines = [line for block in blocks_on(page, "") for line in block.splitlines()]
    found = [re.search(r"(?:^\$ |^|\| |\$\(|\w=\S+ )acode ([^|)#]+)", line) for line in lines]
    # In the help a remark follows an example after a gap.
    return [shlex.split(re.split(r"\s{3,}", match[1])[0]) for match in found if match]


@every_page
def test_every_example_is_a_real_command(page: Path) -> None:
    for words in commands_on(page):
        before_command = words[: [*words, "--"].index("--")]
        with suppress(SystemExit):  # --version and --help answer and leave
            assert not build(words).parse_known_args(before_command)[1]


@complete
def test_every_command_has_examples_in_the_reference() -> None:
    assert len(commands_on(DOCS / "reference" / "cli.md")) > 15


@complete
def test_the_reference_of_commands_is_fresh() -> None:
    assert text_of(reference.PAGE) == reference.page(), "make reference writes it anew"


@every_page
def test_every_task_file_is_a_good_one(page: Path) -> None:
    for text in blocks_on(page, "yaml"):
        assert read_batch(text.encode(), "tasks.yml", root=str(ROOT), types=())


@every_page
def test_every_piece_of_settings_is_a_good_one(page: Path, tmp_path: Path) -> None:
    for text in blocks_on(page, "yml"):
        (tmp_path / "config.yml").write_text(text, encoding="utf-8")
        load(str(tmp_path / "config.yml"), {})


def error_classes(base: type[errors.AcodeError]) -> list[type[errors.AcodeError]]:
    return [each for child in base.__subclasses__() for each in (child, *error_classes(child))]


@complete
def test_every_error_is_in_the_reference_with_its_exit_code() -> None:
    page = text_of(DOCS / "reference" / "errors.md")
    ours = [each for each in error_classes(errors.AcodeError) if each.__module__ == errors.__name__]
    assert ours
    assert not [each for each in ours if f"| `{each.code}` | {each.exit_code} |" not in page]


@complete
def test_every_failure_is_in_the_reference() -> None:
    page = text_of(DOCS / "reference" / "errors.md")
    assert not [code for code in FailureCode if f"| `{code}` |" not in page]


def leaves(tree: dict[str, Any], path: str = "") -> dict[str, Any]:
    """Every key with its whole path; an empty mapping is a value."""
    found: dict[str, Any] = {}
    for name, value in tree.items():
        here = f"{path}{name}"
        found |= leaves(value, f"{here}.") if isinstance(value, dict) and value else {here: value}
    return found


@complete
def test_every_setting_is_in_the_reference_with_its_default() -> None:
    page = text_of(DOCS / "reference" / "settings.md")
    rows = re.findall(r"^\| `([\w.-]+)` \| (?:`(.+?)`|CPU count) \|", page, re.MULTILINE)
    real = leaves(json.loads(msgspec.json.encode(Settings())))
    assert [key for key, _ in rows] == list(real)
    del real["workers.count"]
    assert {key: yaml.safe_load(default) for key, default in rows if default} == real


def a_task() -> Task:
    spec = TaskSpec(command="make", env={"A": "1"})
    return Task(id="01K", spec=spec, status=Status.PENDING, created_at=1, ready_at=1)


@complete
def test_every_key_of_a_task_is_in_the_reference() -> None:
    page = text_of(DOCS / "reference" / "json.md")
    view = task_view(Record(a_task(), (), ()), Settings().tasks)
    assert not [key for key in view if f"`{key}`" not in page]


@complete
def test_every_field_of_a_task_file_is_in_the_reference() -> None:
    page = text_of(DOCS / "reference" / "task-files.md")
    fields = [field.encode_name for field in msgspec.structs.fields(TaskSpec)]
    fields.remove("baseCommit")  # acode finds that out by itself
    assert not [name for name in fields if f"| `{name}` |" not in page]


def test_the_changelog_tells_of_this_version() -> None:
    assert f"\n## [{acode.__version__}] - " in text_of(ROOT / "CHANGELOG.md")


def test_continuous_integration_runs_the_tests() -> None:
    script = ROOT / ".ci" / "run"
    assert script.stat().st_mode & 0o111
    assert "make test" in text_of(script)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    target = tmp_path_factory.mktemp("wheel")
    build_wheel = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps"]
    subprocess.run(
        [*build_wheel, "--no-build-isolation", "--wheel-dir", str(target), str(ROOT)], check=True
    )
    (built,) = target.glob("*.whl")
    return set(zipfile.ZipFile(built).namelist())


def test_the_wheel_holds_everything_that_is_needed_at_run_time(wheel: set[str]) -> None:
    package = ROOT / "src" / "acode"
    needed = [*package.rglob("*.py"), *package.rglob("*.sql"), package / "py.typed"]
    assert {path.relative_to(package.parent).as_posix() for path in needed} <= wheel


def test_the_wheel_holds_nothing_else(wheel: set[str]) -> None:
    assert not [name for name in wheel if not name.startswith(("acode/", "acode-"))]
