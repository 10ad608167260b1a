"""When the pool is started in a scope of its own."""

import pytest

from acode.runner.cgroup import Place
from acode.runner.scope import Standing, scope_command

V1 = Place(1, {"memory": "/sys/fs/cgroup/memory"})
V2 = Place(2, {"memory": "/sys/fs/cgroup/user.slice"})


def command(
    place: Place | None = None,
    *,
    delegated: bool = False,
    systemd: bool = True,
    root: bool = False,
    stays: bool = True,
) -> list[str]:
    return scope_command(Standing(place, delegated, systemd, root, stays), "a pool")


def test_a_user_whose_programs_stay_gets_one_from_their_own_manager() -> None:
    assert command()[:3] == ["systemd-run", "--user", "--scope"]


@pytest.mark.parametrize("place", [None, V2], ids=["nowhere", "in what is not ours"])
def test_root_gets_one_from_the_manager_of_the_machine(place: Place | None) -> None:
    words = command(place, root=True)
    assert words[:2] == ["systemd-run", "--scope"]
    assert "--user" not in words


def test_it_is_delegated_named_and_ends_where_the_command_begins() -> None:
    words = command()
    assert {"--property=Delegate=yes", "--description=a pool"} <= set(words)
    assert words[-1] == "--"


@pytest.mark.parametrize(
    "words",
    [
        pytest.param(command(V1, root=True), id="version 1 needs none"),
        pytest.param(command(V2, delegated=True), id="a user in a delegated one"),
        pytest.param(command(V2, delegated=True, root=True), id="root in a delegated one"),
        pytest.param(command(systemd=False), id="no systemd"),
        pytest.param(command(V2, systemd=False, root=True), id="root in a container"),
        pytest.param(command(stays=False), id="it would end with the session"),
    ],
)
def test_otherwise_the_pool_stays_where_it_is(words: list[str]) -> None:
    assert words == []
