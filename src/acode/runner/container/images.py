"""Images: is one there, and fetching it where it may be fetched."""

from collections.abc import Callable
from typing import Any, Literal

import msgspec

from acode.clock import Deadline
from acode.errors import DockerUnavailable
from acode.runner.container.api import Api, EngineError

Policy = Literal["always", "never", "ifNotPresent"]
FIRST_DELAY_SECONDS = 1.0
"""Before the second try; twice as long before every further one."""


class Progress(msgspec.Struct, frozen=True):
    """How far a pull has come. The total grows while layers become known."""

    image: str
    done_bytes: int
    total_bytes: int


class Pulling(msgspec.Struct, frozen=True, kw_only=True):
    """How images are fetched."""

    policy: Policy = "ifNotPresent"
    seconds: float = 300.0
    tries: int = 3


class ImageUnavailable(DockerUnavailable):
    """The image that containers are to be made from cannot be had."""

    hint = "check workers.docker.image and the network, or fetch it yourself with docker pull"


OnProgress = Callable[[Progress], None]


def ensure_image(
    api: Api,
    image: str,
    pulling: Pulling,
    tell: OnProgress = lambda _progress: None,
    rest: Callable[[float], object] | None = None,
) -> None:
    """Have the image, as the policy says."""
    if pulling.policy != "always" and has_image(api, image):
        return
    if pulling.policy == "never":
        raise ImageUnavailable(
            f"the image {image} is not there, and workers.docker.pullPolicy is never",
            f"docker pull {image} fetches it",
        )
    reasons: list[str] = []
    for turn in range(pulling.tries):
        if turn:
            (rest or _rest)(FIRST_DELAY_SECONDS * 2 ** (turn - 1))
        try:
            pull(api, image, pulling.seconds, tell)
        except EngineError as error:
            reasons.append(str(error))
        else:
            return
    why = "; ".join(dict.fromkeys(reasons))
    tried = f"{pulling.tries} tries" if pulling.tries > 1 else "one try"
    raise ImageUnavailable(f"the image {image} cannot be fetched, after {tried}: {why}")


def _rest(seconds: float) -> None:
    Deadline(seconds).rest(seconds)


def has_image(api: Api, image: str) -> bool:
    """Whether the engine has it already."""
    try:
        api.get(f"/images/{image}/json")
    except EngineError as error:
        if error.status == 404:
            return False
        if error.status == 400:
            raise ImageUnavailable(f"{image} is no name of an image: {error}") from error
        raise
    return True


def pull(api: Api, image: str, seconds: float, tell: OnProgress) -> None:
    """Fetch an image once, in this time."""
    name, tag = split_reference(image)
    layers: dict[str, tuple[int, int]] = {}
    tell(Progress(image, 0, 0))
    try:
        deadline = Deadline(seconds)
        for said in api.stream("POST", "/images/create", deadline, fromImage=name, tag=tag):
            if "error" in said:
                raise EngineError(str(said["error"]))
            if _notice(layers, said):
                done, total = (sum(each) for each in zip(*layers.values(), strict=True))
                tell(Progress(image, done, total))
    except TimeoutError as error:
        raise EngineError(f"it took longer than {seconds:g} s") from error
    if not has_image(api, image):
        raise EngineError("the engine says that it has it, and does not")


def _notice(layers: dict[str, tuple[int, int]], said: dict[str, Any]) -> bool:
    detail = said.get("progressDetail") or {}
    layer, status = said.get("id"), said.get("status")
    if layer and status == "Downloading" and detail.get("total"):
        layers[layer] = (int(detail.get("current", 0)), int(detail["total"]))
        return True
    if layer in layers and status in ("Download complete", "Pull complete"):
        total = layers[layer][1]
        layers[layer] = (total, total)
        return True
    return False


def split_reference(image: str) -> tuple[str, str]:
    """Name and tag; a port before the name is no tag. Without one all tags would be fetched."""
    if "@" in image:
        name, _, digest = image.partition("@")
        return name, digest
    name, colon, tag = image.rpartition(":")
    if not colon or "/" in tag:
        return image, "latest"
    return name, tag
