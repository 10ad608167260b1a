"""Which image a project's containers are made from, told by its files."""

from collections.abc import Collection
from fnmatch import fnmatchcase
from typing import Final

STANDARD: Final = "mcr.microsoft.com/dotnet/sdk:8.0"

# Every one of them has git and a shell.
_BY_FILE: Final = (
    (("pyproject.toml", "setup.py", "requirements.txt", "Pipfile"), "python:3.12"),
    (("package.json",), "node:22"),
    (("*.sln", "*.csproj", "*.fsproj", "global.json"), STANDARD),
    (("go.mod",), "golang:1.23"),
    (("Cargo.toml",), "rust:1"),
    (("pom.xml",), "maven:3-eclipse-temurin-21"),
    (("build.gradle", "build.gradle.kts"), "gradle:8-jdk21"),
)


def default_image(names: Collection[str]) -> str:
    """The image for a directory with these files; the first kind that is found counts."""
    for patterns, image in _BY_FILE:
        if any(fnmatchcase(name, pattern) for pattern in patterns for name in names):
            return image
    return STANDARD
