"""From shell text to words: quotes, escapes, variables and substitutions."""

import re

from acode.policy.shell.syntax import (
    Output,
    Part,
    Redirect,
    Script,
    Text,
    TooDeep,
    Unknown,
    Variable,
    Word,
)

MAX_DEPTH = 40
BLANKS = " \t\r"

_BLANK = re.compile(r"(?:[ \t\r]|\\\n)+")
_PLAIN = re.compile(r"[^\s;&|<>()\\'\"$`?*+@!]+")
_PLAIN_QUOTED = re.compile(r"[^\\\"$`]+")
_NAME = re.compile(r"[A-Za-z_]\w*|[0-9@*#?$!-]")
_BRACED = re.compile(r"([A-Za-z_]\w*|\d+|[@*])(\[[@*]\])?(:?[-=+?])?")
_ESCAPES = re.compile(r"\\(x[0-9A-Fa-f]{1,2}|u[0-9A-Fa-f]{1,4}|0?[0-7]{1,3}|c?.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "a": "\a", "b": "\b", "e": "\x1b", "f": "\f"}


def unescape(text: str) -> str:
    r"""What `$'…'`, `printf` and `echo -e` make of `\n` and `\x41`."""
    return _ESCAPES.sub(_unescaped, text)


def _unescaped(match: re.Match[str]) -> str:
    what = match[1]
    if what[0] in "xu" and len(what) > 1:
        return chr(int(what[1:], 16))
    if what[0] in "01234567":
        return chr(int(what, 8) % 256)
    return _ESCAPED.get(what, what)


class WordReader:
    """Reads words. `at` is where it is, `awaited` what the next line has to bring."""

    def __init__(self, text: str, depth: int = 0) -> None:
        self.text = text
        self.at = 0
        self.depth = depth
        self.awaited: list[Redirect] = []

    def script(self, end: str) -> Script:
        """Commands up to the bracket that closes them."""
        raise NotImplementedError

    def deeper(self) -> None:
        """One more level."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise TooDeep

    def blanks(self) -> bool:
        """Pass over blanks and comments; always true, for loops."""
        if match := _BLANK.match(self.text, self.at):
            self.at = match.end()
        if self.text.startswith("#", self.at) and self._begins_word():
            self.skip_comment()
        return True

    def _begins_word(self) -> bool:
        return self.at == 0 or self.text[self.at - 1] in " \t\r\n;&|()"

    def skip_comment(self) -> None:
        """Go to the end of the line."""
        end = self.text.find("\n", self.at)
        self.at = len(self.text) if end < 0 else end

    def newline(self) -> None:
        """Pass over the end of a line and the here-documents that it promised."""
        self.at += 1
        awaited, self.awaited = self.awaited, []
        for redirect in awaited:
            redirect.text = self._here_document(redirect)

    def _here_document(self, redirect: Redirect) -> Word:
        quoted = any(isinstance(part, Text) and part.quoted for part in redirect.target)
        end = "".join(part.text for part in redirect.target if isinstance(part, Text))
        lines: list[str] = []
        while self.at < len(self.text):
            stop = self.text.find("\n", self.at)
            stop = len(self.text) if stop < 0 else stop
            line = self.text[self.at : stop]
            self.at = min(stop + 1, len(self.text))
            line = line.lstrip("\t") if redirect.operator == "<<-" else line
            if line == end:
                break
            lines.append(line + "\n")
        text = "".join(lines)
        return (Text(text, True),) if quoted else self._inside(text).quoted_text()

    def _inside(self, text: str) -> "WordReader":
        """A reader of a text within this one."""
        self.deeper()
        self.depth -= 1
        return type(self)(text, self.depth + 1)

    def quoted_text(self) -> Word:
        """All of the text as between double quotes, in which quotes stand for themselves."""
        parts: list[Part] = []
        while self.at < len(self.text):
            if self.text[self.at] == '"':
                self.at += 1
                parts.append(Text('"', True))
            else:
                parts += self._until_quote()
        return tuple(parts)

    def word(self) -> Word:
        """The next word; at least one letter is read."""
        parts: list[Part] = []
        start = self.at
        while self.at < len(self.text):
            here = self.text[self.at]
            if here.isspace() or here in ";&|)" or (here in "<>(" and not self._goes_on(start)):
                break
            parts += self._part(here)
        if self.at == start:
            self.at += 1
        return tuple(parts)

    def _goes_on(self, start: int) -> bool:
        """Whether a bracket belongs to the word: a file of output, or a pattern."""
        if self.text[self.at] in "<>":
            return self.at_file()
        return self.at > start + 1 and self.text[self.at - 1] in "?*+@!"

    def at_file(self) -> bool:
        """Whether the output of commands stands here as a file."""
        return self.text.startswith(("<(", ">("), self.at)

    def _part(self, here: str) -> list[Part]:
        if match := _PLAIN.match(self.text, self.at):
            self.at = match.end()
            return [Text(match[0])]
        self.at += 1
        match here:
            case "\\":
                return self._escape()
            case "'":
                return [Text(self._until("'"), True)]
            case '"':
                return self._double_quoted()
            case "$":
                return self._dollar(quoted=False)
            case "`":
                return [Output(self._backquoted())]
            case "<" | ">":
                self.at += 1
                return [Output(self.script(")"), as_file=True)]
            case "(":
                self._balanced(")")
                return [Text("*")]
            case _:
                return [Text(here)]

    def _escape(self) -> list[Part]:
        escaped = self.text[self.at : self.at + 1]
        self.at += 1
        return [] if escaped == "\n" else [Text(escaped or "\\", True)]

    def _until(self, end: str) -> str:
        stop = self.text.find(end, self.at)
        stop = len(self.text) if stop < 0 else stop
        text = self.text[self.at : stop]
        self.at = stop + len(end)
        return text

    def _double_quoted(self) -> list[Part]:
        parts: list[Part] = [Text("", True)]
        while self.at < len(self.text) and self.text[self.at] != '"':
            parts += self._until_quote()
        self.at += 1
        return parts

    def _until_quote(self) -> list[Part]:
        if match := _PLAIN_QUOTED.match(self.text, self.at):
            self.at = match.end()
            return [Text(match[0], True)]
        here = self.text[self.at]
        self.at += 1
        if here == "$":
            return self._dollar(quoted=True)
        if here == "`":
            return [Output(self._backquoted(), quoted=True)]
        escaped = self.text[self.at : self.at + 1]
        if escaped not in ("", *'$`"\\\n'):
            return [Text("\\", True)]
        return self._escape()

    def _backquoted(self) -> Script:
        start = self.at
        while self.at < len(self.text) and self.text[self.at] != "`":
            self.at += 2 if self.text[self.at] == "\\" else 1
        inner = re.sub(r"\\([`$\\])", r"\1", self.text[start : self.at])
        self.at += 1
        return self._inside(inner).script("")

    def _dollar(self, *, quoted: bool) -> list[Part]:
        rest = self.text[self.at : self.at + 2]
        if rest == "((" and (inside := self.arithmetic()) is not None:
            return [Unknown(inside.quoted_text())]
        match rest[:1]:
            case "(":
                self.at += 1
                return [Output(self.script(")"), quoted)]
            case "{":
                self.at += 1
                return [self._braced(quoted)]
            case "'" if not quoted:
                self.at += 1
                return [Text(unescape(self._ansi_quoted()), True)]
            case '"' if not quoted:
                self.at += 1
                return self._double_quoted()
        if match := _NAME.match(self.text, self.at):
            self.at = match.end()
            return [Variable(match[0], quoted)]
        return [Text("$", quoted)]

    def _ansi_quoted(self) -> str:
        start = self.at
        while self.at < len(self.text) and self.text[self.at] != "'":
            self.at += 2 if self.text[self.at] == "\\" else 1
        self.at += 1
        return self.text[start : self.at - 1]

    def _braced(self, quoted: bool) -> Part:
        text = self._balanced("}")
        inside = self._inside(text)
        match = _BRACED.match(text)
        if match is None or (match.end() < len(text) and not match[3]):
            return Unknown(inside.quoted_text())
        inside.at = match.end()
        other = inside.quoted_text() if quoted else inside.whole()
        return Variable(match[1], quoted, (match[3] or "").lstrip(":"), other)

    def whole(self) -> Word:
        """All of the text as one word."""
        parts: list[Part] = []
        while self.at < len(self.text):
            parts += self._part(self.text[self.at])
        return tuple(parts)

    def _balanced(self, end: str) -> str:
        """The text up to the bracket that closes it; brackets in quotes do not count."""
        start, open_ = self.at, 1
        begin = "{" if end == "}" else "("
        while self.at < len(self.text) and open_:
            here = self.text[self.at]
            self.at += 2 if here == "\\" else 1
            if here in "'\"":
                self._until(here)
            open_ += (here == begin) - (here == end)
        return self.text[start : self.at if open_ else self.at - 1]

    def arithmetic(self) -> "WordReader | None":
        """A reader of what `((…))` holds; None if the brackets are no pair."""
        start = self.at
        self.at += 2
        inner = self._balanced(")")
        if not self.text.startswith(")", self.at):
            self.at = start
            return None
        self.at += 1
        return self._inside(inner)
