"""From shell text to commands. Whatever the text is, it is read to its end: nothing is an error.

Keywords that only say when a command runs (`if`, `while`, `then`) are passed over, because a
command that is there may run.
"""

import re

from acode.policy.shell.syntax import (
    Command,
    Function,
    Group,
    Loop,
    Pipeline,
    Redirect,
    Script,
    Simple,
    Text,
    Word,
)
from acode.policy.shell.words import BLANKS, WordReader

_PASSED_OVER = frozenset(
    {"if", "then", "elif", "else", "fi", "while", "until", "do", "done", "!", "time", "coproc",
     "esac", "in", "}"}
)  # fmt: skip
_SEPARATORS = re.compile(r"(?:[;&|)\n]|[ \t\r]|\\\n)")
_REDIRECT = re.compile(r"(?:\d+|\{\w+\})?(&>>|&>|<<<|<<-|<<|<>|<&|>&|>>|>\||<(?!\()|>(?!\())")
_ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)(?:\[[^]=]*\])?\+?=")
_IN = re.compile(r"in\b")
_EMPTY_BRACKETS = re.compile(r"[ \t]*\([ \t]*\)")


def read_script(text: str) -> Script:
    """All commands of a text."""
    return Reader(text).script("")


class Reader(WordReader):
    """Reads commands."""

    def script(self, end: str) -> Script:
        """Commands up to the bracket that closes them, or to the end of the text."""
        self.deeper()
        found: list[Pipeline] = []
        while self.skip_separators(end):
            pipeline = self._pipeline(end)
            if pipeline.commands:
                found.append(pipeline)
        self.at += len(end)
        self.depth -= 1
        return tuple(found)

    def skip_separators(self, end: str) -> bool:
        """Go to the next command; whether there is one."""
        while self.at < len(self.text):
            here = self.text[self.at]
            if here == end and (here == ")" or self._is_alone(here)):
                return False
            if here == "\n":
                self.newline()
            elif self.text.startswith("&>", self.at):
                return True
            elif match := _SEPARATORS.match(self.text, self.at):
                self.at = match.end()
            elif here == "#":
                self.skip_comment()
            else:
                return True
        return False

    def _is_alone(self, here: str) -> bool:
        after = self.text[self.at + 1 : self.at + 2]
        return here == "}" and (not after or after in " \t\n;&|)<>")

    def _pipeline(self, end: str) -> Pipeline:
        commands: list[Command] = []
        while True:
            command = self._command(end)
            if command is not None:
                commands.append(command)
            self.blanks()
            if not self.text.startswith("|", self.at) or self.text.startswith("||", self.at):
                break
            self.at += 2 if self.text.startswith("|&", self.at) else 1
            while self.blanks() and self.text.startswith("\n", self.at):
                self.newline()
        background = self.text.startswith("&", self.at) and self.text[self.at + 1 :][:1] != "&"
        return Pipeline(tuple(commands), background)

    def _command(self, end: str) -> Command | None:
        self.blanks()
        if self.text.startswith("((", self.at) and (inside := self.arithmetic()) is not None:
            # A number for bash, but commands for a plain sh.
            return Group(inside.script(""))
        if self.text.startswith("(", self.at):
            self.at += 1
            return self._group(")")
        return self._simple(end)

    def _group(self, end: str) -> Group:
        script = self.script(end)
        redirects: list[Redirect] = []
        while self.blanks() and (redirect := self._redirect()):
            redirects.append(redirect)
        return Group(script, tuple(redirects))

    def _simple(self, end: str) -> Command | None:
        assignments: list[tuple[str, tuple[Word, ...]]] = []
        words: list[Word] = []
        redirects: list[Redirect] = []
        while self.blanks() and self.at < len(self.text):
            redirect = self._redirect()
            if redirect is not None:
                redirects.append(redirect)
                continue
            if self.text[self.at] in "\n;&|)":
                break
            if self.text[self.at] == "(":
                # A bracket in the middle of words; the next command begins here.
                break
            if not words and end == "}" and self._is_alone(self.text[self.at]):
                break
            if not words and (assignment := self._assignment()):
                assignments.append(assignment)
                continue
            word = self.word()
            if words or redirects or assignments:
                words.append(word)
                continue
            special = self._special(word)
            if special is _AGAIN:
                continue
            if special is not None:
                return special
            words.append(word)
        return Simple(tuple(assignments), tuple(words), tuple(redirects))

    def _special(self, word: Word) -> Command | None:
        """What a word at the beginning of a command makes of it."""
        name = plain(word)
        if name in _PASSED_OVER:
            return _AGAIN
        match name:
            case "{":
                return self._group("}")
            case "for" | "select":
                return self._loop()
            case "case":
                self.blanks()
                self.word()
                return _AGAIN
            case "[[":
                return self._test()
            case "function":
                self.blanks()
                return self._function(plain(self.word()) or "?")
        return self._function(name) if name and self._at_empty_brackets() else None

    def _at_empty_brackets(self) -> bool:
        return _EMPTY_BRACKETS.match(self.text, self.at) is not None

    def _function(self, name: str) -> Function:
        if match := _EMPTY_BRACKETS.match(self.text, self.at):
            self.at = match.end()
        self.blanks()
        while self.text.startswith("\n", self.at):
            self.newline()
            self.blanks()
        if self.text.startswith(("{", "("), self.at):
            bracket = ")" if self.text[self.at] == "(" else "}"
            self.at += 1
            return Function(name, (Pipeline((self._group(bracket),)),))
        return Function(name, ())

    def _loop(self) -> Command | None:
        """`for name in words`; the `do` after it is passed over."""
        self.blanks()
        if self.text.startswith("((", self.at):
            inside = self.arithmetic()
            return _AGAIN if inside is None else Group(inside.script(""))
        name = plain(self.word()) or "?"
        self.blanks()
        if not _IN.match(self.text, self.at):
            return _AGAIN
        self.at += 2
        words: list[Word] = []
        while self.blanks() and self.text[self.at : self.at + 1] not in ("", *"\n;&|()<>"):
            words.append(self.word())
        return Loop(name, tuple(words))

    def _test(self) -> Command:
        """`[[ … ]]`, where < compares and << is no here-document; a plain sh redirects."""
        words: list[Word] = []
        redirects: list[Redirect] = []
        while self.blanks() and self.at < len(self.text):
            if redirect := self._redirect():
                redirects.append(redirect)
            elif self.text[self.at] in "\n;&|()":
                self.at += 1
            else:
                words.append(self.word())
            if words and plain(words[-1]) == "]]":
                break
        self.awaited = [each for each in self.awaited if each not in redirects]
        return Simple((), ((Text("[["),), *words), tuple(redirects))

    def _assignment(self) -> tuple[str, tuple[Word, ...]] | None:
        match = _ASSIGNMENT.match(self.text, self.at)
        if match is None:
            return None
        self.at = match.end()
        if not self.text.startswith("(", self.at):
            ends = self.text[self.at : self.at + 1] in ("", *BLANKS, *"\n;&|<>)")
            return match[1], ((),) if ends else (self.word(),)
        self.at += 1
        words: list[Word] = []
        while self.blanks() and self.text[self.at : self.at + 1] not in ("", ")"):
            if self.text[self.at] in "\n;&|<>(":
                self.at += 1
            else:
                words.append(self.word())
        self.at += 1
        return match[1], tuple(words)

    def _redirect(self) -> Redirect | None:
        match = _REDIRECT.match(self.text, self.at)
        if match is None:
            return None
        self.at = match.end()
        self.blanks()
        if self.text[self.at : self.at + 1] in ("", *"\n;|&()<>") and not self.at_file():
            return Redirect(match[1], ())
        redirect = Redirect(match[1], self.word())
        if match[1] in ("<<", "<<-"):
            self.awaited.append(redirect)
        return redirect


_AGAIN = Simple((), (), ())
"""Says that the word was passed over and the command begins after it."""


def plain(word: Word) -> str | None:
    """A word without quotes and expansions, as keywords have to be."""
    match word:
        case (Text(text, False),):
            return text
        case _:
            return None
