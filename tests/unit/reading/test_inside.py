"""Paths that must stay inside the project."""

import pytest

from acode.reading.inside import glob_leaves, leaves


@pytest.fixture
def root(tmp_path):
    project = tmp_path / "project"
    (project / "src").mkdir(parents=True)
    (tmp_path / "project-2").mkdir()
    (tmp_path / "outside").mkdir()
    (project / "out").symlink_to(tmp_path / "outside")
    (project / "in").symlink_to(project / "src")
    (project / "loop").symlink_to(project / "loop")
    return str(project)


@pytest.mark.parametrize(
    "path", [".", "src", "src/..", "src/../new/x", "in/x", "a..b", "..a", "loop"]
)
def test_a_path_inside_stays(root, path):
    assert not leaves(root, path)


@pytest.mark.parametrize(
    "path",
    ["..", "../project", "src/../../x", "/etc", "/", "out", "out/x", "in/../../x", "../project-2"],
)
def test_a_path_that_gets_out_leaves(root, path):
    assert leaves(root, path)


def test_a_way_through_a_link_counts_by_where_it_really_ends(root):
    assert leaves(root, "out/../src")


@pytest.mark.parametrize("pattern", ["*", "dist/*.whl", "**/x", "in/*", "a[.]b", "*/../x"])
def test_a_pattern_inside_stays(root, pattern):
    assert not glob_leaves(root, pattern)


@pytest.mark.parametrize("pattern", ["../*", "/etc/*", "out/*", "*/../../x", "src/?/../../../y"])
def test_a_pattern_that_gets_out_leaves(root, pattern):
    assert glob_leaves(root, pattern)


def test_a_root_that_is_a_link_itself_is_no_way_out(tmp_path, root):
    link = tmp_path / "link"
    link.symlink_to(root)
    assert not leaves(str(link), "src")
