import re
import shlex

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acode.policy.blocked import blocked, is_watched
from acode.policy.blocked.rules import RULES
from acode.policy.blocked.walk import Blocked, Walk
from acode.policy.blocked.wrappers import _VALUED, SHELLS, TEXT_FIRST, TEXT_OPTIONS
from acode.policy.shell.meaning import Scope
from tests.unit.policy.spellings import DANGEROUS, HARMLESS


def look(text: str, *patterns: str) -> Blocked | None:
    """What is refused in a line for the shell."""
    return blocked(("/bin/sh", "-c", text), patterns)


@pytest.mark.req("forge-29")
@pytest.mark.parametrize("text", DANGEROUS)
def test_a_dangerous_command_is_refused_however_it_is_spelled(text: str) -> None:
    assert look(text)


@pytest.mark.parametrize("text", HARMLESS)
def test_a_command_that_only_looks_dangerous_is_not(text: str) -> None:
    assert look(text) is None


def test_there_are_enough_of_both() -> None:
    assert len(set(DANGEROUS)) >= 60
    assert len(set(HARMLESS)) >= 60


@pytest.mark.parametrize(
    ("argv", "would"),
    [
        (("rm", "-rf", "/"), "delete /"),
        (("sudo", "rm", "-rf", "/usr", "/etc"), "delete /usr"),
        (("bash", "-c", "dd if=x of=/dev/sda"), "write over /dev/sda"),
        (("mkfs.ext4", "/dev/sda1"), "format a disk"),
        (("bash", "-c", ":(){ :|:& };:"), "fork without end"),
    ],
)
def test_words_that_no_shell_sees_are_looked_at_too(argv: tuple[str, ...], would: str) -> None:
    found = blocked(argv)
    assert found
    assert found.would == would


def test_words_that_are_data_are_not_commands() -> None:
    assert blocked(("echo", "rm -rf /")) is None
    assert blocked(("git", "commit", "-m", "rm -rf /; :(){ :|:& };:")) is None


def test_the_refusal_names_the_command_inside() -> None:
    assert look("make && sudo sh -c 'cd x; rm -rf /'") == ("rm -rf /", "delete /")


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("terraform destroy", "terraform destroy"),
        ("terraform destroy", "cd infra && terraform destroy -auto-approve"),
        ("git push * --force", "git push origin main --force"),
        ("git push*--force*", "sudo env A=1 git push --force origin"),
        ("curl", "sh -c '/usr/bin/curl http://example.com'"),
        ("npm publish", 'x=publish; npm "$x"'),
    ],
)
def test_patterns_of_the_user_are_added(pattern: str, text: str) -> None:
    found = look(text, pattern)
    assert found
    assert pattern in found.would
    assert look(text) is None


@pytest.mark.parametrize("text", ["echo curl", "curling", "git push origin main", "terraform plan"])
def test_patterns_match_commands_and_not_letters(text: str) -> None:
    assert look(text, "curl", "git push * --force", "terraform destroy") is None


def test_patterns_do_not_replace_the_list() -> None:
    assert look("rm -rf /", "curl")


def test_nesting_without_end_is_refused() -> None:
    deep = "$(" * 500 + "true" + ")" * 500
    found = look(deep)
    assert found
    assert "nested too deeply" in found.would


def test_the_quick_look_knows_every_program_that_the_thorough_one_does() -> None:
    names = {*RULES, *_VALUED, *SHELLS, *TEXT_FIRST, *TEXT_OPTIONS, "env", "mkfs.ext4", "python3"}
    assert not [name for name in names if not is_watched(name)]


COMMANDS = ["echo", "cat", "rm", "-rf", "/", "|", ";", "&", "a", "1", "=", "etc"]
ARROWS = [">", ">>", "<", "<>", "<<", "&>", "2>", ">|", ">&"]
TARGETS = ["x.txt", "/dev/sda", "/dev//sda", "/dev/null", "/etc/passwd", "../dev/sda", "dev/sda"]
TARGETS += ["/etc/../dev/sda", "/proc/sysrq-trigger", "/dev/null/../sda"]
PIECES = st.sampled_from([*COMMANDS, *ARROWS, *TARGETS])


@given(st.lists(st.tuples(PIECES, st.sampled_from(["", " "]))))
def test_the_quick_look_lets_nothing_pass_that_the_thorough_one_refuses(
    pieces: list[tuple[str, str]],
) -> None:
    argv = ("/bin/sh", "-c", "".join(f"{piece}{gap}" for piece, gap in pieces))
    assert blocked(argv) or not Walk(()).words(argv, Scope())


QUOTES = st.sampled_from(["{}", "'{}'", '"{}"', "\\{}", "$'{}'"])


@st.composite
def quoted(draw: st.DrawFn, words: list[str]) -> str:
    """The same words for a shell, with quotes wherever they may be."""
    return " ".join("".join(draw(QUOTES).format(letter) for letter in word) for word in words)


@given(quoted(["rm", "-rf", "/"]))
def test_quotes_hide_nothing(text: str) -> None:
    assert look(text)


@given(quoted(["rm", "-rf", "./build"]))
def test_quotes_make_nothing_dangerous(text: str) -> None:
    assert look(text) is None


NESTS = st.sampled_from(
    [
        lambda text: f"sh -c {shlex.quote(text)}",
        lambda text: f"bash -lc {shlex.quote(text)}",
        lambda text: f"sudo -u root env A=1 nice timeout 5 sh -ec {shlex.quote(text)}",
        lambda text: f"({text})",
        lambda text: f"{{ {text}\n}}",
        lambda text: f"true && {text}",
        lambda text: f"cat x | grep y; {text}",
        lambda text: f"if true; then\n{text}\nfi",
        lambda text: f"for x in 1 2; do {text}\ndone",
        lambda text: f"echo $({text}\n)",
        lambda text: f'echo "$({text}\n)"',
        lambda text: f"eval {shlex.quote(text)}",
        lambda text: f"echo {shlex.quote(text)} | sh",
        lambda text: f"sh <<'END {len(text)}'\n{text}\nEND {len(text)}\n",
        lambda text: f"f() {{ {text}\n}}; f",
        lambda text: f"X={shlex.quote(text)}; sh -c \"$X\"",
        lambda text: f"nohup sh -c {shlex.quote(text)} > log 2>&1 &",
    ]
)  # fmt: skip


@given(st.lists(NESTS, max_size=4), st.sampled_from(["rm -rf /", "dd of=/dev/sda", ": > /dev/sda"]))
def test_nothing_hides_a_command(nests: list[object], text: str) -> None:
    for nest in nests:
        text = nest(text)  # type: ignore[operator]
    assert look(text)


@given(st.lists(NESTS, max_size=4), st.sampled_from(["rm -rf ./build", "dd of=x.img", ": > log"]))
def test_nests_make_nothing_dangerous(nests: list[object], text: str) -> None:
    for nest in nests:
        text = nest(text)  # type: ignore[operator]
    assert look(text) is None


PIECES = st.sampled_from(
    [*re.findall(r".", "(){}[]<>|&;$`'\"\\#!~*?=:-+/%@ \t\n\r"), "<<", "<<<", "$((", "${", "$(",
     "<(", "((", "))", "[[", "]]", "rm", "-rf", "/", "x", "EOF", "for", "in", "do", "done", "case",
     "esac", "function", "f()", "sh -c", "echo", "eval", "a=(", "xargs", "env -S", "$1", "${x:-",
     "printf", "%s", "\x00", "é", "\ue000"]
)  # fmt: skip


@given(st.lists(PIECES, max_size=60).map("".join) | st.text())
def test_no_text_upsets_it(text: str) -> None:
    look(text, "x*")
    blocked(tuple(text.split("x")), ())
