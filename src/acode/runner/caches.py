"""Where tools keep what they download, if they must not write to the home directory."""

import os
from contextlib import suppress
from typing import Final

_FOLDERS: Final = {
    "PIP_CACHE_DIR": "pip",
    "UV_CACHE_DIR": "uv",
    "POETRY_CACHE_DIR": "poetry",
    "npm_config_cache": "npm",
    "YARN_CACHE_FOLDER": "yarn",
    "npm_config_store_dir": "pnpm",
    "COREPACK_HOME": "corepack",
    "BUN_INSTALL_CACHE_DIR": "bun",
    "DENO_DIR": "deno",
    "CARGO_HOME": "cargo",
    "GOCACHE": "go-build",
    "GOMODCACHE": "go-mod",
    "GRADLE_USER_HOME": "gradle",
    "NUGET_PACKAGES": "nuget",
    "DOTNET_CLI_HOME": "dotnet",
    "COMPOSER_CACHE_DIR": "composer",
    "CCACHE_DIR": "ccache",
}
"""Variables that the tools themselves know. XDG_CACHE_HOME is not among them: what others have put
there by hand, such as browsers and models, must be found."""
_SETTINGS: Final = {
    "cargo": ("~/.cargo", ("config.toml", "config", "credentials.toml")),
    "gradle": ("~/.gradle", ("gradle.properties", "init.d")),
}
"""Settings that a tool looks for beside its cache."""


def cache_variables(cache: str) -> dict[str, str]:
    """Variables that lead tools to the project's cache; what the user has set goes before."""
    made = {name: f"{cache}/{folder}" for name, folder in _FOLDERS.items()}
    return made | {"MAVEN_ARGS": f"-Dmaven.repo.local={cache}/maven"}


def make_cache(cache: str) -> None:
    """Make the project's cache, with links to the settings that tools look for in it."""
    os.makedirs(cache, mode=0o700, exist_ok=True)
    for folder, (home, names) in _SETTINGS.items():
        for name in names:
            source = os.path.join(os.path.expanduser(home), name)
            if os.path.exists(source):
                os.makedirs(f"{cache}/{folder}", exist_ok=True)
                with suppress(FileExistsError):
                    os.symlink(source, f"{cache}/{folder}/{name}")
