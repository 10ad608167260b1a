"""What words stand for, as far as the text itself says it."""

import re
from collections.abc import Iterable

from msgspec import Struct, field

from acode.policy.shell.syntax import (
    Command,
    Group,
    Output,
    Part,
    Redirect,
    Script,
    Simple,
    Text,
    Variable,
    Word,
)
from acode.policy.shell.words import unescape

# Letters that no command has, for what is not letters.
UNKNOWN = "\ue000"
HOME = "\ue001"
SELF = "\ue002"
_QUOTED = str.maketrans("*?[{~", "\ue003\ue004\ue005\ue006\ue007")
_UNQUOTED = str.maketrans("\ue003\ue004\ue005\ue006\ue007", "*?[{~")

MAX_SIZE = 10_000
"""Values do not grow beyond this, however often they are put together."""
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_TILDE = re.compile(r"^~[\w.-]*(?=/|$)")
_BLANKS = re.compile(r"\s+")
_PLACE = re.compile(r"%[-0-9.]*[sbq]")


class Scope(Struct):
    """What is known: names with all the values that they may have, and functions."""

    values: dict[str, tuple[str, ...]] = field(default_factory=dict)
    functions: dict[str, Script] = field(default_factory=dict)
    directory: str = ""
    """Where the last `cd` led to, if that is known."""

    def inner(self) -> "Scope":
        """A copy whose changes stay inside."""
        return Scope(dict(self.values), dict(self.functions), self.directory)

    def bind(self, words: Iterable[str]) -> None:
        """Give the positional parameters their values."""
        given = tuple(words)
        self.values |= {str(place): (word,) for place, word in enumerate(given, 1)}
        self.values["@"] = self.values["*"] = given


def literal(text: str) -> str:
    """Text as it was written, whether it was quoted or not."""
    return text.translate(_UNQUOTED)


def expand(word: Word, scope: Scope) -> list[str]:
    """The words that a shell makes of one; several for a loop's variable, none for an empty one."""
    done: list[str] = []
    growing = [""]
    for position, part in enumerate(word):
        if isinstance(part, Text):
            text = _text(part, is_first=position == 0)
            growing = [each + text for each in growing]
        else:
            growing = _grow(growing, _values(part, scope), is_quoted(part), done)
    found = [each for text in (*done, *growing) for each in _braces(text)]
    return found if any(map(is_quoted, word)) else [each for each in found if each]


def _text(part: Text, *, is_first: bool) -> str:
    if part.quoted:
        return part.text.translate(_QUOTED)
    return _TILDE.sub(HOME, part.text, count=1) if is_first else part.text


def is_quoted(part: Part) -> bool:
    """Whether a part is one word, whatever is in it."""
    return isinstance(part, Text | Variable | Output) and part.quoted


def _grow(growing: list[str], values: Iterable[str], quoted: bool, done: list[str]) -> list[str]:
    """Every word so far with every value; unquoted values fall apart at blanks."""
    grown: list[str] = []
    size = 0
    for value in values:
        first, *others = [value.translate(_QUOTED)] if quoted else _BLANKS.split(value)
        size += sum(map(len, growing)) + len(growing) * len(value)
        if size > MAX_SIZE:
            return [*grown, UNKNOWN]
        begun = [each + first for each in growing]
        if others:
            done += [*begun, *others[:-1]]
            begun = others[-1:]
        grown += begun
    return grown


def _braces(text: str, room: int = 64) -> list[str]:
    """`/{bin,etc}` as two words."""
    match = _BRACES.search(text)
    if match is None or room <= 0:
        return [text]
    choices = match[1].split(",")[:room]
    made = [text[: match.start()] + choice + text[match.end() :] for choice in choices]
    return [each for text in made for each in _braces(text, room // len(choices) - 1)]


def _values(part: Part, scope: Scope) -> tuple[str, ...]:
    match part:
        case Variable():
            return _variable(part, scope)
        case Output(script):
            text = output(script, scope.inner())
            return (UNKNOWN if text is None else text.rstrip("\n"),)
        case _:
            return (UNKNOWN,)


def _variable(variable: Variable, scope: Scope) -> tuple[str, ...]:
    name = variable.name
    known = scope.values.get(name)
    if known is None:
        known = {"HOME": (HOME,), "0": (SELF,), "IFS": (" ",)}.get(name)
    match variable.operator:
        case "-" | "=" if not known or known == ("",):
            return tuple(expand(variable.other, scope)) or ("",)
        case "+" if known:
            return tuple(expand(variable.other, scope)) or ("",)
        case "+":
            return (UNKNOWN,)
    return (UNKNOWN,) if known is None else known


def assign(simple: Simple, scope: Scope) -> None:
    """Remember the variables that a command sets."""
    for name, words in simple.assignments:
        fields = [each for word in words for each in expand(word, scope)]
        together = len(words) == 1 and len(fields) > 1 and not _has_many(words[0], scope)
        scope.values[name] = (" ".join(fields),) if together else tuple(fields) or ("",)


def _has_many(word: Word, scope: Scope) -> bool:
    return any(isinstance(part, Variable) and len(_variable(part, scope)) > 1 for part in word)


def output(script: Script, scope: Scope) -> str | None:
    """What commands print, if that is plain to see."""
    if len(script) != 1:
        return None
    text: str | None = None
    for command in script[0].commands:
        text = passed_on(command, text, scope)
        if text is None:
            return None
    return text


def passed_on(command: Command, text: str | None, scope: Scope) -> str | None:
    """What one command of a pipeline hands to the next, if that is plain to see."""
    match command:
        case Simple():
            return printed(command, incoming(command.redirects, scope, text), scope)
        case Group(script, ()):
            return output(script, scope)
        case _:
            return None


def incoming(redirects: Iterable[Redirect], scope: Scope, text: str | None = None) -> str | None:
    """What a command reads, if that is plain to see."""
    for redirect in redirects:
        match redirect.operator:
            case "<<" | "<<-" if redirect.text is not None:
                text = literal(" ".join(expand(redirect.text, scope)))
            case "<<<":
                text = literal(" ".join(expand(redirect.target, scope))) + "\n"
            case "<" | "<>":
                text = of_file(redirect.target, scope)
    return text


def of_file(word: Word, scope: Scope) -> str | None:
    """What `<(…)` holds, if that is plain to see."""
    match word:
        case (Output(script, _, True),):
            return output(script, scope.inner())
        case _:
            return None


def printed(simple: Simple, text: str | None, scope: Scope) -> str | None:
    """What a command prints, for the few that are told from their words."""
    words = [literal(each) for word in simple.words for each in expand(word, scope)]
    match words:
        case ["echo", *rest]:
            return _echo(rest)
        case ["printf", form, *rest]:
            return _printf(form, rest)
        case ["cat"] | ["cat", "-"] | ["tee", *_]:
            return text
        case ["base64", *options] if text and {"-d", "--decode", "-D"} & set(options):
            return _decoded(text)
        case _:
            return None


def _echo(words: list[str]) -> str:
    escapes = False
    while words and re.fullmatch("-[neE]+", words[0]):
        escapes = escapes or "e" in words[0]
        words = words[1:]
    text = " ".join(words) + "\n"
    return unescape(text) if escapes else text


def _printf(form: str, words: list[str]) -> str:
    """The form again and again, as long as there are words for its places."""
    form = unescape(form)
    places = len(_PLACE.findall(form))
    text = ""
    while True:
        text += _fill(form, words[:places])
        words = words[places:]
        if not words or not places or len(text) > MAX_SIZE:
            return text


def _fill(form: str, words: list[str]) -> str:
    left = iter(words)
    return _PLACE.sub(lambda _: next(left, ""), form).replace("%%", "%")


def _decoded(text: str) -> str | None:
    import binascii

    try:
        return binascii.a2b_base64(text).decode(errors="replace")
    except binascii.Error:
        return None
