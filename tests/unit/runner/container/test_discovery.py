"""Which engine is used, and that looking for one never takes long."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from acode.errors import DockerUnavailable
from acode.runner.container import discovery
from acode.runner.container.discovery import find_engine, places, probe

DOCKER = {"Version": "20.10.24", "ApiVersion": "1.41", "MinAPIVersion": "1.12"}
PODMAN = {**DOCKER, "Version": "4.3.1", "Components": [{"Name": "Podman Engine"}]}
INFO = {"SecurityOptions": ["name=seccomp,profile=default"], "Driver": "overlay2"}

Serve = Callable[..., str]


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Serve]:
    """Engines that say what they are told to, or nothing at all."""
    listeners: list[socket.socket] = []

    def start(version: Any = DOCKER, info: Any = INFO, *, silent: bool = False) -> str:
        path = str(tmp_path / f"engine-{len(listeners)}.sock")
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        listener.bind(path)
        listener.listen()
        listeners.append(listener)
        if not silent:
            answers = {"/version": version, "/info": info}
            threading.Thread(target=_answer, args=(listener, answers), daemon=True).start()
        return path

    yield start
    for listener in listeners:
        with suppress(OSError):
            listener.shutdown(socket.SHUT_RDWR)
        listener.close()


def _answer(listener: socket.socket, answers: dict[str, Any]) -> None:
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:
            return
        with closing(connection):
            path = connection.recv(65536).split()[1].decode()
            body = json.dumps(answers[path]).encode()
            head = (
                f"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: {len(body)}"
            )
            connection.sendall(head.encode() + b"\r\n\r\n" + body)


def test_a_named_engine_is_the_only_one() -> None:
    assert places("/a.sock", {"DOCKER_HOST": "unix:///b.sock"}, 7) == ["/a.sock"]
    assert places(None, {"DOCKER_HOST": "unix:///b.sock"}, 7) == ["unix:///b.sock"]


def test_docker_comes_before_podman() -> None:
    found = places(None, {"XDG_RUNTIME_DIR": "/run/user/7"}, 7)
    assert found == [
        "/var/run/docker.sock",
        "/run/user/7/docker.sock",
        "/run/user/7/podman/podman.sock",
        "/run/podman/podman.sock",
    ]


@pytest.mark.req("027b-FR-001", "027b-FR-002")
def test_an_engine_says_what_it_is(serve: Serve) -> None:
    engine = probe(serve())
    assert (engine.name, engine.version, engine.rootless) == ("docker", "20.10.24", False)
    rootless = {**INFO, "SecurityOptions": ["name=rootless"]}
    engine = probe(serve(PODMAN, rootless))
    assert (engine.name, engine.rootless) == ("podman", True)


def test_a_newer_engine_is_spoken_to_in_words_that_we_know(serve: Serve) -> None:
    assert probe(serve({**DOCKER, "ApiVersion": "1.99"})).api_version == "1.47"


def test_a_place_that_does_not_answer_does_not_keep_others_from_it(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = serve()
    monkeypatch.setattr(discovery, "places", lambda *_: ["/nowhere/engine.sock", there])
    assert find_engine(None, {}).socket == there


@pytest.mark.parametrize(
    ("version", "words"),
    [
        ({**DOCKER, "ApiVersion": "1.38"}, "speaks version 1.38"),
        ({"hello": "world"}, "does not speak the Engine API"),
    ],
)
def test_an_engine_that_is_no_use_is_told_so(serve: Serve, version: Any, words: str) -> None:
    with pytest.raises(DockerUnavailable, match=words):
        probe(serve(version))


def test_an_engine_that_hangs_is_as_good_as_none(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(discovery, "PROBE_SECONDS", 0.1)
    with pytest.raises(DockerUnavailable, match="does not answer"):
        find_engine(serve(silent=True), {})


def test_an_engine_on_another_machine_is_refused() -> None:
    with pytest.raises(DockerUnavailable, match="is no unix socket"):
        find_engine(None, {"DOCKER_HOST": "tcp://192.0.2.1:2375"})


def test_every_place_is_named_when_there_is_none() -> None:
    with pytest.raises(DockerUnavailable) as caught:
        find_engine("/nowhere/engine.sock", {})
    assert "/nowhere/engine.sock is not there" in str(caught.value)
    assert caught.value.code == "WORKER-006"
