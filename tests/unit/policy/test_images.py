"""The image that fits a project."""

import pytest

from acode.policy.images import default_image


@pytest.mark.req("027b-FR-004", "027b-FR-006")
def test_nothing_in_particular_gets_the_standard_image() -> None:
    assert default_image(["README.md", "Makefile"]) == "mcr.microsoft.com/dotnet/sdk:8.0"
    assert default_image([]) == "mcr.microsoft.com/dotnet/sdk:8.0"


@pytest.mark.parametrize(
    ("name", "image"),
    [
        ("pyproject.toml", "python:"),
        ("requirements.txt", "python:"),
        ("package.json", "node:"),
        ("Shop.sln", "mcr.microsoft.com/dotnet/sdk:"),
        ("Shop.csproj", "mcr.microsoft.com/dotnet/sdk:"),
        ("go.mod", "golang:"),
        ("Cargo.toml", "rust:"),
        ("pom.xml", "maven:"),
        ("build.gradle.kts", "gradle:"),
    ],
)
def test_a_project_is_known_by_its_files(name: str, image: str) -> None:
    assert default_image(["README.md", name]).startswith(image)


def test_the_first_kind_counts() -> None:
    assert default_image(["package.json", "pyproject.toml"]).startswith("python:")
