"""Goes through shell text command by command, into whatever a command runs in turn."""

from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from acode.policy.blocked.bombs import is_bomb
from acode.policy.blocked.rules import (
    INTERPRETERS,
    in_code,
    rule_of,
    shell_in_code,
    to_disk,
)
from acode.policy.blocked.wrappers import (
    SHELLS,
    TEXT_FIRST,
    TEXT_OPTIONS,
    ShellCall,
    inner,
    option_value,
)
from acode.policy.shell.meaning import (
    SELF,
    Scope,
    assign,
    expand,
    incoming,
    literal,
    of_file,
    passed_on,
)
from acode.policy.shell.reader import read_script
from acode.policy.shell.syntax import (
    Command,
    Function,
    Group,
    Loop,
    Output,
    Part,
    Pipeline,
    Redirect,
    Script,
    Simple,
    TooDeep,
    Unknown,
    Variable,
    Word,
)

MAX_DEPTH = 30
MAX_CALLS = 200
_WRITING = frozenset({">", ">>", ">|", "&>", "&>>", ">&", "<>"})


class Blocked(NamedTuple):
    """A command that is refused: its words, and what it would do."""

    command: str
    would: str


class Walk:
    """One look at a command; keeps count, so that no text can keep it busy for ever."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = patterns
        self._depth = 0
        self._calls = 0

    def text(self, text: str, scope: Scope) -> Blocked | None:
        """Look at shell text."""
        if self._depth >= MAX_DEPTH:
            raise TooDeep
        self._depth += 1
        try:
            return self._script(read_script(text), scope)
        finally:
            self._depth -= 1

    def _script(self, script: Script, scope: Scope) -> Blocked | None:
        found = (self._pipeline(pipeline, scope) for pipeline in script)
        return next(filter(None, found), None)

    def _pipeline(self, pipeline: Pipeline, scope: Scope) -> Blocked | None:
        if self._repeats_itself(pipeline, scope):
            return Blocked("$0 | $0", _FORKS)
        text: str | None = None
        for command in pipeline.commands:
            found = self._command(command, scope, text)
            if found:
                return found
            if command is not pipeline.commands[-1]:
                text = passed_on(command, text, scope)
        return None

    def _repeats_itself(self, pipeline: Pipeline, scope: Scope) -> bool:
        """Whether a script starts itself twice over."""
        firsts = [
            expand(command.words[0], scope)
            for command in pipeline.commands
            if isinstance(command, Simple) and command.words
        ]
        return sum(1 for words in firsts if words and SELF in words[0]) > 1

    def _command(self, command: Command, scope: Scope, text: str | None) -> Blocked | None:
        match command:
            case Simple():
                return self._simple(command, scope, text)
            case Group(script, redirects):
                return self._redirects(redirects, scope) or self._script(script, scope)
            case Function(name, body):
                scope.functions[name] = body
                if is_bomb(scope.functions, name):
                    return Blocked(f"{name}()", _FORKS)
                return self._script(body, scope.inner())
            case Loop(name, words):
                found = self._substitutions(words, scope)
                scope.values[name] = tuple(each for word in words for each in expand(word, scope))
                return found

    def _simple(self, simple: Simple, scope: Scope, text: str | None) -> Blocked | None:
        values = [word for _, words in simple.assignments for word in words]
        found = self._substitutions((*values, *simple.words), scope)
        found = found or self._redirects(simple.redirects, scope)
        if found:
            return found
        if not simple.words:
            assign(simple, scope)
            return None
        within = scope.inner() if simple.assignments else scope
        assign(simple, within)
        words = [each for word in simple.words for each in expand(word, scope)]
        text = incoming(simple.redirects, scope, text)
        if text is None and len(simple.words) > 1:
            text = of_file(simple.words[-1], scope)
        return self.words(words, within, text)

    def _substitutions(self, words: Iterable[Word], scope: Scope) -> Blocked | None:
        found = (self._part(part, scope) for word in words for part in word)
        return next(filter(None, found), None)

    def _part(self, part: Part, scope: Scope) -> Blocked | None:
        match part:
            case Output(script):
                return self._script(script, scope.inner())
            case Variable(other=other):
                return self._substitutions((other,), scope)
            case Unknown(inside):
                return self._substitutions((inside,), scope)
            case _:
                return None

    def _redirects(self, redirects: Iterable[Redirect], scope: Scope) -> Blocked | None:
        for redirect in redirects:
            words = (redirect.target, redirect.text or ())
            if found := self._substitutions(words, scope):
                return found
            if redirect.operator in _WRITING:
                targets = expand(redirect.target, scope)
                if would := to_disk(targets):
                    return Blocked(f"{redirect.operator} {literal(targets[0])}", would)
        return None

    def words(self, words: Sequence[str], scope: Scope, text: str | None = None) -> Blocked | None:
        """Look at a program with its words, and at what it reads."""
        if not words:
            return None
        if self._depth >= MAX_DEPTH:
            raise TooDeep
        self._depth += 1
        try:
            return self._program(words, scope, text)
        finally:
            self._depth -= 1

    def _program(self, words: Sequence[str], scope: Scope, text: str | None) -> Blocked | None:
        program, rest = literal(words[0]).rpartition("/")[2], list(words[1:])
        if found := self._pattern(program, rest):
            return found
        rule = rule_of(program)
        would = rule(rest, scope.directory) if rule else None
        if would:
            return Blocked(literal(" ".join([program, *rest])), would)
        self._builtin(program, rest, scope)
        if program in scope.functions:
            return self._call(program, rest, scope)
        return self._started(program, rest, scope, text)

    def _pattern(self, program: str, rest: Sequence[str]) -> Blocked | None:
        line = literal(" ".join([program, *rest]))
        for pattern in self._patterns:
            if fnmatchcase(line, pattern) or fnmatchcase(line, f"{pattern} *"):
                return Blocked(line, f"match {pattern!r} of sandbox.blockedCommands")
        return None

    def _builtin(self, program: str, rest: Sequence[str], scope: Scope) -> None:
        """What a command of the shell itself changes for those after it."""
        match program, rest:
            case (("cd" | "pushd"), [directory, *_]) if directory.startswith("/"):
                scope.directory = directory
            case (("cd" | "pushd"), _):
                scope.directory = ""
            case "set", ["--", *parameters]:
                scope.bind(parameters)
            case (("export" | "readonly" | "local" | "declare" | "typeset"), settings):
                for setting in settings:
                    name, equals, value = setting.partition("=")
                    if equals:
                        scope.values[name] = (value,)

    def _call(self, name: str, rest: Sequence[str], scope: Scope) -> Blocked | None:
        self._calls += 1
        if self._calls > MAX_CALLS or self._depth > MAX_DEPTH // 2:
            return None
        within = scope.inner()
        # A function that calls itself is looked at once.
        body = within.functions.pop(name)
        within.bind(rest)
        return self._script(body, within)

    def _started(
        self, program: str, rest: list[str], scope: Scope, text: str | None
    ) -> Blocked | None:
        """What a program starts in turn."""
        if program in SHELLS:
            return self._shell(ShellCall(rest), scope, text)
        if program in ("source", ".") and text is not None:
            return self.text(text, scope)
        option = option_value(rest, TEXT_OPTIONS.get(program, ()))
        if option is not None:
            return self.text(literal(option), scope.inner())
        if program in TEXT_FIRST and (found := self.text(_joined(program, rest), scope)):
            return found
        if INTERPRETERS.fullmatch(program):
            return self._code(option_value(rest, ("-c", "-e", "-r", "-E", "--eval")) or text, scope)
        if program == "find":
            return self._found(rest, scope)
        wrapped = inner(program, rest)
        if wrapped and program in ("xargs", "parallel") and text is not None:
            wrapped += text.split()
        return self.words(wrapped, scope, text) if wrapped else None

    def _shell(self, call: ShellCall, scope: Scope, text: str | None) -> Blocked | None:
        if call.text is not None:
            text = literal(call.text)
        elif call.file is not None and text is None:
            return None
        if text is None:
            return None
        within = scope.inner()
        within.bind(call.parameters)
        return self.text(text, within)

    def _code(self, code: str | None, scope: Scope) -> Blocked | None:
        if code is None:
            return None
        code = literal(code)
        if would := in_code(code):
            return Blocked(code.strip(), would)
        found = (self.text(text, scope.inner()) for text in shell_in_code(code))
        return next(filter(None, found), None)

    def _found(self, rest: Sequence[str], scope: Scope) -> Blocked | None:
        """What `find` starts for each file."""
        for place, word in enumerate(rest):
            if word in ("-exec", "-execdir", "-ok", "-okdir"):
                found = self.words(rest[place + 1 :], scope)
                if found:
                    return found
        return None


_FORKS = "fork without end"


def _joined(program: str, rest: Sequence[str]) -> str:
    return literal(TEXT_FIRST[program](rest))
