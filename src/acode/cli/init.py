"""`acode init`: settings to begin with."""

from acode.cli.context import Context
from acode.cli.parser import Command
from acode.errors import AlreadyThere


def _init(context: Context) -> int:
    from acode.settings import template

    path, text = context.app.config_file, template()
    context.app.project.prepare()
    written = _write_new(path, text)
    if not written and _read(path) != text:
        raise AlreadyThere(
            f"{path} is there already and was not touched",
            f"move it away to begin again: mv {path} {path}.old",
        )
    if context.screen.json:
        context.screen.data({"config": path, "written": written})
    else:
        said = "written; every setting is in it with its default" if written else "as it was"
        context.screen.said(f"{path} {said}")
    return 0


def _write_new(path: str, text: str) -> bool:
    try:
        with open(path, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        return False
    return True


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as file:
        return file.read()


COMMAND = Command(
    "init",
    "write .agent/config.yml with every setting and its default",
    _init,
    ("acode init", "acode init --project ~/src/site"),
)
