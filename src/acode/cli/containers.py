"""Whether containers can be had, asked before a pool is started with them."""

import os

from acode.cli.context import Context
from acode.cli.render import Screen, complain
from acode.engine.fitting import check, image_of, pulling_of
from acode.errors import DockerUnavailable
from acode.human import size
from acode.model.task import Mode
from acode.runner.container.discovery import Engine, find_engine
from acode.runner.container.images import OnProgress, Progress, ensure_image

BAR_WIDTH = 24


def usable_mode(context: Context) -> Mode:
    """Containers where they can be had; processes in their place only where that is fine."""
    settings, root = context.app.settings, context.app.project.root
    docker = settings.workers.docker
    try:
        engine = find_engine(docker.host, os.environ)
    except DockerUnavailable as error:
        if not docker.fallback_to_local:
            raise
        complain(
            DockerUnavailable(
                str(error), "going on with processes, as workers.docker.fallbackToLocal allows"
            )
        )
        return Mode.PROCESS
    check(docker, root, engine.socket)
    _fetch(context, engine, image_of(settings, root))
    return Mode.DOCKER


def _fetch(context: Context, engine: Engine, image: str) -> None:
    docker, screen = context.app.settings.workers.docker, context.screen
    with screen.working(f"looking for the image {image}") as say:
        told = _told(screen, lambda progress: say(_bar(progress)))
        ensure_image(engine.api, image, pulling_of(docker), told)


def _told(screen: Screen, show: OnProgress) -> OnProgress:
    """Say once that something is fetched, for those who see no bar."""
    first = True

    def tell(progress: Progress) -> None:
        nonlocal first
        if first and not screen.json:
            screen.note(f"fetching the image {progress.image}")
        first = False
        show(progress)

    return tell


def _bar(progress: Progress) -> str:
    done, total = progress.done_bytes, progress.total_bytes
    if not total:
        return f"fetching {progress.image}"
    filled = BAR_WIDTH * done // total
    bar = f"{'━' * filled}{'─' * (BAR_WIDTH - filled)}"
    return f"fetching {progress.image} {bar} {size(done)} of {size(total)}"
