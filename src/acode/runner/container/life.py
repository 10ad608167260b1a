"""The life of a container: made, started and heard from, stopped, removed with its volumes."""

import os
from contextlib import suppress
from typing import Any

import msgspec

from acode.clock import Deadline
from acode.runner.container.api import CALL_SECONDS, Api, EngineError
from acode.runner.container.channel import Channel, Gone, Silent
from acode.runner.container.execs import Frames
from acode.runner.container.keeper import Keeper, program
from acode.runner.container.plan import Plan, body_of
from acode.runner.container.seat import Seat, furnish, leave_order
from acode.runner.container.stats import first_pid
from acode.runner.suite import remove

OURS = "acode.worker"
"""The label that every container of ours has."""
NO_SHELL = 127


class NoShell(EngineError):
    """The image has no shell to run the supervisor with."""

    hint = "use an image with /bin/sh: nothing else can hold a container on this processor"


class Owner(msgspec.Struct, frozen=True):
    """As whom a container writes, as this machine sees it."""

    uid: int
    gid: int


def launch(api: Api, plan: Plan, owner: Owner, seconds: float, probe: str) -> Seat:
    """A container that answers, within this time; nothing is left of one that does not."""
    if os.path.isdir(plan.control):
        remove(plan.control)
    furnish(plan.control, owner.uid, owner.gid, None if plan.has_shell else _keeper(plan))
    try:
        container_id = create(api, plan)
    except EngineError:
        _clear(plan.control)
        raise
    seat = Seat(
        directory=plan.control,
        container_id=container_id,
        engine=api.path,
        uid=owner.uid,
        gid=owner.gid,
        memory_mb=plan.ceiling.memory_mb,
        has_shell=plan.has_shell,
    )
    try:
        api.post(f"/containers/{container_id}/start", seconds=seconds)
        _hear_from(api, seat, plan, Deadline(seconds), probe)
    except EngineError as error:
        destroy(api, container_id)
        _clear(plan.control)
        if plan.has_shell and _has_no_shell(error):
            raise NoShell(f"the image {plan.image} has no /bin/sh") from error
        raise
    return seat


def _keeper(plan: Plan) -> bytes:
    found = program(os.uname().machine)
    if found is None:
        raise NoShell(f"the image {plan.image} has no /bin/sh")
    return found


def create(api: Api, plan: Plan) -> str:
    """Make it; what is in the way from an earlier life of its worker goes."""
    body = body_of(plan)
    try:
        made = api.post("/containers/create", body, name=plan.name)
    except EngineError as error:
        if error.status == 409:
            destroy(api, plan.name)
        elif "StorageOpt" in body["HostConfig"] and error.status != 404:
            del body["HostConfig"]["StorageOpt"]  # this engine cannot count what a layer holds
        else:
            raise
        made = api.post("/containers/create", body, name=plan.name)
    return str(made["Id"])


def _hear_from(api: Api, seat: Seat, plan: Plan, deadline: Deadline, probe: str) -> None:
    """Wait until somebody answers in it, and see whose the files are that are made there."""
    while True:
        try:
            if not seat.has_shell:
                _check_keeper(api, seat)
                return
            with Channel(seat, max(0.1, deadline.left())) as channel:
                _check_owner(channel, seat, deadline, probe)
                channel.quit(max(0.1, deadline.left()))
        except Gone:
            state = inspect(api, seat.container_id)["State"]
            if state.get("Running") and deadline.left() > 0:
                continue
            raise EngineError(_last_words(api, seat.container_id, state)) from None
        except Silent:
            raise EngineError(f"the container {plan.name} did not start in time") from None
        return


def _check_keeper(api: Api, seat: Seat) -> None:
    """It answers; as whom it runs tells whose the files of others are."""
    Keeper(seat).close()
    try:
        found = os.stat(f"/proc/{first_pid(api, seat.container_id)}").st_uid
    except FileNotFoundError:
        raise EngineError("the processes of the container are not seen from here") from None
    _check_user(found, seat)


def _check_owner(channel: Channel, seat: Seat, deadline: Deadline, probe: str) -> None:
    path = f"{probe}/.owner"
    leave_order(seat, f": >'{path}'\n" if "'" not in path else ":\n")
    with seat.outputs():
        channel.say("run")
        while channel.hear(deadline)[0] != "end":
            pass
    try:
        found = os.stat(path).st_uid
        os.unlink(path)
    except FileNotFoundError:
        if "'" in path:
            return
        raise EngineError(f"{probe} cannot be written to from inside the container") from None
    _check_user(found, seat)


def _check_user(found: int, seat: Seat) -> None:
    if found != seat.uid:
        raise EngineError(
            f"files made in the container belong to user {found}, not to {seat.uid}",
            hint="an engine that maps users differently cannot work on your files",
        )


def _last_words(api: Api, container_id: str, state: dict[str, Any]) -> str:
    said = b""
    with suppress(EngineError):
        said = api.get(f"/containers/{container_id}/logs", stdout=1, stderr=1, tail=5)
    words = b"".join(piece for _, piece in Frames().feed(said)).decode(errors="replace").strip()
    return f"the container ended with exit code {state.get('ExitCode')}: {words or 'no word'}"


def _has_no_shell(error: EngineError) -> bool:
    """Docker's first process names what it cannot start, Podman's does not."""
    words = str(error).lower()
    is_missing = "no such file" in words or "not found" in words
    return is_missing and ("/bin/sh" in words or "exec pid1" in words)


def inspect(api: Api, container: str) -> dict[str, Any]:
    """Everything the engine knows of it."""
    found: dict[str, Any] = api.get(f"/containers/{container}/json")
    return found


def layer_bytes(api: Api, container: str) -> int:
    """What was written to its own layer; the engine counts, which takes it a while."""
    return int(api.get(f"/containers/{container}/json", size=True).get("SizeRw") or 0)


def stop(api: Api, container: str, seconds: float) -> None:
    """Ask it to end, and end it; it stays, for a look."""
    with suppress(EngineError):
        api.post(f"/containers/{container}/stop", seconds=seconds + CALL_SECONDS, t=round(seconds))


def destroy(api: Api, container: str) -> None:
    """Kill and remove it with its volumes, whatever it does; it may be gone already."""
    try:
        api.delete(f"/containers/{container}", force=True, v=True)
    except EngineError as error:
        # 404: gone. 409: being removed by somebody else at this moment.
        if error.status not in (404, 409):
            raise
        if error.status == 409:
            _until_gone(api, container)


def _until_gone(api: Api, container: str) -> None:
    deadline = Deadline(CALL_SECONDS)
    while deadline.rest(0.05):
        try:
            inspect(api, container)
        except EngineError as error:
            if error.status == 404:
                return
            raise


def dismiss(api: Api, seat: Seat, *, keep: bool, stop_seconds: float) -> None:
    """Let a container go: stopped and kept for a look, or removed."""
    stop(api, seat.container_id, stop_seconds)
    if not keep:
        destroy(api, seat.container_id)
    _clear(seat.directory)


def _clear(directory: str) -> None:
    for path in (directory, f"{directory}.secrets"):
        if os.path.isdir(path):
            remove(path)
    with suppress(FileNotFoundError):
        os.unlink(f"{directory}.json")
