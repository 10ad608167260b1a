"""The parts that shell text is made of."""

from msgspec import Struct


class Text(Struct, frozen=True):
    """Letters that stand for themselves; in quotes, they are no pattern and are not split."""

    text: str
    quoted: bool = False


class Variable(Struct, frozen=True):
    """What a name stands for: `$name`, `${name:-other}`."""

    name: str
    quoted: bool = False
    operator: str = ""
    other: "Word" = ()


class Output(Struct, frozen=True):
    """What commands print: `$(…)`; `<(…)` is a file that holds it."""

    script: "Script"
    quoted: bool = False
    as_file: bool = False


class Unknown(Struct, frozen=True):
    """Something that is not worked out; the commands inside run all the same."""

    inside: "Word" = ()


Part = Text | Variable | Output | Unknown
Word = tuple[Part, ...]


class Redirect(Struct):
    """Where a stream goes or comes from. The text of a here-document comes lines later."""

    operator: str
    target: Word
    text: Word | None = None


class Simple(Struct, frozen=True):
    """A program with its words."""

    assignments: tuple[tuple[str, tuple[Word, ...]], ...]
    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...]


class Group(Struct, frozen=True):
    """Commands in brackets, with streams in common."""

    script: "Script"
    redirects: tuple[Redirect, ...] = ()


class Function(Struct, frozen=True):
    """Commands with a name."""

    name: str
    body: "Script"


class Loop(Struct, frozen=True):
    """The head of a loop: a name that stands for one word after the other."""

    name: str
    words: tuple[Word, ...]


Command = Simple | Group | Function | Loop


class Pipeline(Struct, frozen=True):
    """Commands that feed each other."""

    commands: tuple[Command, ...]
    in_background: bool = False


Script = tuple[Pipeline, ...]


class TooDeep(Exception):
    """More nesting than anybody writes."""
