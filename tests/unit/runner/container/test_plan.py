"""What a container is made of, in the engine's words."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acode.runner.container.discovery import Engine
from acode.runner.container.network import is_host, published
from acode.runner.container.owner import NOBODY, user_for
from acode.runner.container.plan import Ceiling, Plan, body_of

PLAN = Plan(name="acode-worker-1", image="tool:1", control="/c", user="7:7", labels={})


def host(**changes: Any) -> dict[str, Any]:
    config: dict[str, Any] = body_of(Plan(**{**_fields(), **changes}))["HostConfig"]
    return config


def _fields() -> dict[str, Any]:
    return {name: getattr(PLAN, name) for name in PLAN.__struct_fields__}


@given(st.booleans(), st.sampled_from(["bridge", "host", "none"]), st.floats(0.01, 64))
def test_no_plan_makes_a_container_with_privileges(
    read_only: bool, network: str, cpus: float
) -> None:
    config = host(read_only_root=read_only, network=network, ceiling=Ceiling(cpus=cpus))
    assert config["Privileged"] is False
    assert config["CapDrop"] == ["ALL"]
    assert "no-new-privileges" in config["SecurityOpt"]
    assert not any("seccomp" in option for option in config["SecurityOpt"])
    assert config["MemorySwap"] == config["Memory"]


@pytest.mark.req("027b-FR-032", "027b-FR-034", "027b-FR-039")
def test_the_usual_limits_are_those_of_the_settings() -> None:
    config = host()
    assert config["NanoCpus"] == 1_000_000_000
    assert config["Memory"] == 512 * 1024 * 1024
    assert config["PidsLimit"] == 100


@pytest.mark.parametrize(
    ("text", "inside", "address", "outside"),
    [
        ("80", "80/tcp", "127.0.0.1", ""),
        ("8080:80", "80/tcp", "127.0.0.1", "8080"),
        ("8000-8010:53/udp", "53/udp", "127.0.0.1", "8000-8010"),
        ("0.0.0.0:8080:80", "80/tcp", "0.0.0.0", "8080"),
        ("[::1]:8080:80", "80/tcp", "::1", "8080"),
    ],
)
def test_ports_are_published_on_this_machine_unless_told_otherwise(
    text: str, inside: str, address: str, outside: str
) -> None:
    assert published(text) == (inside, [{"HostIp": address, "HostPort": outside}])


@pytest.mark.parametrize(
    "text",
    [
        "",
        "x",
        "x:80",
        "80:x",
        "99999:80",
        "0",
        "80/icmp",
        "8080:80:90:1",
        "::80",
        ":80",
        "host:80:80",
        "1-x:80",
    ],
)
def test_what_is_no_port_is_known_before_an_engine_is_asked(text: str) -> None:
    assert published(text) is None


@pytest.mark.parametrize(
    ("text", "good"),
    [
        ("db:192.0.2.7", True),
        ("db:::1", True),
        ("db:[::1]", True),
        ("db:host-gateway", True),
        ("db", False),
        (":192.0.2.7", False),
        ("db:999.1.1.1", False),
        ("a:b:c", False),
        ("a b:192.0.2.7", False),
    ],
)
def test_an_extra_host_is_a_name_and_an_address(text: str, good: bool) -> None:
    assert is_host(text) is good


def engine(name: str, *, rootless: bool) -> Engine:
    return Engine(socket="/s", name=name, version="", api_version="1.41", rootless=rootless)


@pytest.mark.parametrize(
    ("name", "rootless", "owner", "words", "outside"),
    [
        ("docker", False, 1000, "1000:1000", 1000),
        ("podman", False, 1000, "1000:1000", 1000),
        ("docker", False, 0, f"{NOBODY}:{NOBODY}", NOBODY),
        ("docker", True, 1000, "0:0", 1000),
        ("podman", True, 1000, "1000:1000", 1000),
    ],
)
def test_a_container_is_never_root_of_this_machine(
    name: str, rootless: bool, owner: int, words: str, outside: int
) -> None:
    user = user_for(engine(name, rootless=rootless), (owner, owner))
    assert (user.words, user.uid) == (words, outside)
