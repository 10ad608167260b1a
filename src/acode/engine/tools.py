"""Programs that must be there before a pool starts."""

import shutil
import subprocess
from collections.abc import Iterable

from acode.errors import ToolMissing

VERSION_SECONDS = 5.0


def locate(required: Iterable[str]) -> dict[str, str]:
    """Where each tool is; refuses if one is not there, naming every one that is missing."""
    found = {tool: shutil.which(tool) for tool in required}
    missing = [tool for tool, path in found.items() if path is None]
    if missing:
        raise ToolMissing(
            "\n".join(f"{tool} is required and not found in PATH" for tool in missing),
            f"install {' and '.join(missing)}, or take it out of tools.required",
        )
    return {tool: path for tool, path in found.items() if path is not None}


def version(path: str) -> str:
    """The first line of what a tool says about itself."""
    try:
        said = subprocess.run(  # noqa: S603 -- what the user named in tools.required
            [path, "--version"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=VERSION_SECONDS,
            check=False,
        ).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"version unknown: {error}"
    lines = said.decode(errors="replace").splitlines()
    return lines[0] if lines else "version unknown"
