"""Names of images, and when they are fetched."""

import pytest

from acode.runner.container.images import split_reference


@pytest.mark.parametrize(
    ("image", "name", "tag"),
    [
        ("busybox", "busybox", "latest"),
        ("busybox:1.36", "busybox", "1.36"),
        ("localhost:5000/team/tool", "localhost:5000/team/tool", "latest"),
        ("localhost:5000/team/tool:2", "localhost:5000/team/tool", "2"),
        ("tool@sha256:0123", "tool", "sha256:0123"),
    ],
)
def test_a_reference_has_a_name_and_a_tag(image: str, name: str, tag: str) -> None:
    assert split_reference(image) == (name, tag)
