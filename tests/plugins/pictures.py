"""Where tests put the pictures that they take: `--pictures docs/images` makes the README's anew."""

from pathlib import Path

import pytest

_DEFAULT = Path(__file__).parents[2] / "build" / "pictures"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--pictures", type=Path, default=_DEFAULT, help="where pictures go (build/pictures)"
    )


@pytest.fixture
def pictures(request: pytest.FixtureRequest) -> Path:
    """The directory for pictures."""
    folder: Path = request.config.getoption("--pictures")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
