"""`acode doctor`."""

from typing import Any

import pytest

from tests.cli.conftest import Project


def findings(project: Project) -> dict[str, Any]:
    return {finding["name"]: finding for finding in project.run("doctor", "--json").json}


def test_it_looks_at_everything_and_leaves_nothing(project: Project) -> None:
    before = sorted(project.root.rglob("*"))
    done = project.run("doctor")
    assert (done.code, done.err) == (0, "")
    seen = findings(project)
    assert set(seen) >= {
        *("python", "sqlite", "git", "disk", "pidfd", "landlock", "sandbox", "network none"),
        *("user namespaces", "overlay mounts", "cgroups", "pressure", "containers"),
    }
    assert {finding["status"] for finding in seen.values()} <= {"ok", "warning"}
    for name, finding in seen.items():
        assert f" {name}: " in done.out
        assert finding["status"] == "ok" or finding["fix"] or name == "sandbox"
    assert sorted(project.root.rglob("*")) == before


@pytest.mark.needs("landlock")
def test_what_is_there_is_found(project: Project) -> None:
    seen = findings(project)
    assert seen["landlock"]["status"] == seen["sandbox"]["status"] == "ok"
    assert "git version" in seen["git"]["found"]


def test_a_required_tool_that_is_missing_is_an_error(project: Project) -> None:
    project.env["ACODE_TOOLS__REQUIRED"] = '["no-such-tool"]'
    done = project.run("doctor")
    assert done.code == 3
    assert "✗ no-such-tool: required, and not found in PATH" in done.out
    assert "install no-such-tool" in done.out


def test_git_is_required_by_default(project: Project) -> None:
    project.env["PATH"] = "/nowhere"
    assert project.run("doctor").code == 3
    project.env["ACODE_TOOLS__REQUIRED"] = "[]"
    assert project.run("doctor").code == 0


def test_settings_that_protect_nobody_are_told(project: Project) -> None:
    project.env["ACODE_SANDBOX__LEVEL"] = "off"
    assert findings(project)["sandbox"]["status"] == "warning"
    project.env["ACODE_SANDBOX__LEVEL"] = "write"
    project.env["ACODE_SANDBOX__WRITEPATHS"] = '["~/not/there"]'
    assert "~/not/there is allowed, but it is not there" in project.run("doctor").out


def test_settings_that_are_wrong_stop_it(project: Project) -> None:
    project.env["ACODE_SANDBOX__LEVEL"] = "strange"
    done = project.run("doctor")
    assert (done.code, done.out) == (2, "")
    assert 'sandbox.level: found "strange"' in done.err


def test_containers_that_are_asked_for_must_be_there(project: Project) -> None:
    project.env |= {
        "ACODE_WORKERS__MODE": "docker",
        "ACODE_WORKERS__DOCKER__FALLBACKTOLOCAL": "false",
        "DOCKER_HOST": "unix:///nowhere.sock",
    }
    assert project.run("doctor").code == 3
