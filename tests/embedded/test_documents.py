"""What the pages say about Python is true: names, defaults, and the first program."""

import ast
import inspect
import re
import subprocess
import sys
from pathlib import Path

import pytest

import acode

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ["how-to/embed-in-python.md", "how-to/documents-and-commands.md", "reference/python.md"]


def text_of(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


def programs(page: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```$", text_of(page), re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES)
def test_every_name_of_acode_on_a_page_exists(page: str) -> None:
    names = set(re.findall(r"\bacode\.([A-Za-z]\w*)", text_of(page)))
    names -= {"testing", "pool"}
    assert names
    assert not [name for name in names if not hasattr(acode, name)]


@pytest.mark.parametrize("page", PAGES)
def test_every_program_on_a_page_is_python(page: str) -> None:
    for text in programs(page):
        compile(text, page, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_the_first_program_runs(tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(programs("how-to/embed-in-python.md")[0], encoding="utf-8")
    done = subprocess.run(
        [sys.executable, str(file)], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "doc-1 THE TEXT OF DOC-1\n17\n"


def test_every_argument_of_a_pool_is_in_the_reference_with_its_default() -> None:
    page = text_of("reference/python.md")
    for name, parameter in list(inspect.signature(acode.Pool.__init__).parameters.items())[1:]:
        row = re.search(rf"^\| `{name}` \| (.*?) \|", page, re.MULTILINE)
        assert row, name
        if isinstance(parameter.default, int | float):
            assert row[1] == str(parameter.default)
        elif isinstance(parameter.default, str):
            assert row[1] == f'`"{parameter.default}"`'


def test_every_public_name_is_in_the_reference() -> None:
    page = text_of("reference/python.md")
    untold = {"AcodeError", "DeadLetter", "DeadLetters", "Category", "Failure", "FailureCode"}
    untold |= {"Priority", "Status", "__version__"}
    assert not [name for name in set(acode.__all__) - untold if name not in page]
