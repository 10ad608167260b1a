"""Programs that run another program: which of their words are that program's."""

import re
from collections.abc import Callable, Sequence

Words = Sequence[str]

_VALUED = {
    "sudo": "-u -g -h -p -C -T -D -R -r -t -U --user --group --host --prompt --chdir --chroot",
    "doas": "-u -C",
    "nice": "-n --adjustment",
    "ionice": "-c -n -p --class --classdata",
    "timeout": "-k -s --kill-after --signal",
    "stdbuf": "-i -o -e --input --output --error",
    "setsid": "",
    "nohup": "",
    "time": "-f -o --format --output",
    "command": "",
    "builtin": "",
    "exec": "-a",
    "chrt": "-T -P -D",
    "taskset": "",
    "xargs": "-a -d -E -I -L -n -P -s --arg-file --delimiter --max-args --max-procs --replace",
    "parallel": "-a -j -n --jobs --delay --timeout",
    "busybox": "",
    "toybox": "",
    "strace": "-e -o -p -s -u -E",
    "ltrace": "-e -o -p -s -u",
    "watch": "-n --interval",
    "unshare": "-R -S -G -w --root --setuid --setgid --wd",
    "chroot": "--userspec --groups",
    "nsenter": "-t -S -G --target",
    "systemd-run": "-u -p -E -M --unit --property --setenv --uid --gid --slice",
    "firejail": "",
    "catchsegv": "",
    "chronic": "",
    "caffeinate": "-t -w",
    "proot": "-r -b -w",
    "fakeroot": "-l -i -s",
    "setarch": "",
    "linux64": "",
    "prlimit": "-p --pid",
    "setpriv": "--reuid --regid --groups --inh-caps --bounding-set",
    "cgexec": "-g",
    "torsocks": "",
    "proxychains": "-f",
    "dbus-run-session": "",
    "xvfb-run": "-s -n -e -f -p -w --server-args --server-num",
    "ssh-agent": "-a -t",
    "unbuffer": "",
    "entr": "",
}
_FIRST = {"timeout": 1, "chroot": 1, "taskset": 1, "chrt": 1, "flock": 1, "setarch": 1}
"""How many words of their own come before the program."""
_SETTING = re.compile(r"[A-Za-z_]\w*=")


def inner(program: str, words: Words) -> list[str] | None:
    """The words of the program that a wrapper runs; None if it is no wrapper."""
    if program == "env":
        return _env(words)
    valued = _VALUED.get(program)
    if valued is None:
        return None
    rest = _after_options(words, frozenset(valued.split()))[_FIRST.get(program, 0) :]
    while rest and program in ("sudo", "doas") and _SETTING.match(rest[0]):
        rest = rest[1:]
    return list(rest)


def _after_options(words: Words, valued: frozenset[str]) -> Words:
    while words and words[0].startswith("-") and words[0] != "-":
        option, words = words[0], words[1:]
        if option == "--":
            break
        if option in valued:
            words = words[1:]
    return words


def _env(words: Words) -> list[str]:
    words = list(words)
    while words:
        first = words.pop(0)
        if first in ("-S", "--split-string") and words:
            return _env([*words[0].split(), *words[1:]])
        if first.startswith(("-S", "--split-string=")):
            text = first.removeprefix("--split-string=").removeprefix("-S")
            return _env([*text.split(), *words])
        if first in ("-u", "--unset", "-C", "--chdir", "--argv0", "-a") and words:
            words.pop(0)
        elif not first.startswith("-") and not _SETTING.match(first):
            return [first, *words]
    return []


def option_value(words: Words, names: Sequence[str]) -> str | None:
    """What follows an option, or is written behind it."""
    for place, word in enumerate(words):
        if word in names:
            return words[place + 1] if place + 1 < len(words) else None
        for name in names:
            if name.startswith("--") and word.startswith(f"{name}="):
                return word[len(name) + 1 :]
    return None


SHELLS = frozenset({"sh", "bash", "dash", "ash", "zsh", "ksh", "mksh", "yash", "fish", "rbash"})


class ShellCall:
    """The words of `sh`: a text to run, or whatever comes in; then its parameters."""

    def __init__(self, words: Words) -> None:
        self.text: str | None = None
        self.file: str | None = None
        self.parameters: list[str] = []
        wants_text = False
        rest = list(words)
        while rest and len(rest[0]) > 1 and rest[0][0] in "-+":
            option = rest.pop(0)
            if option == "--":
                break
            if option in ("-o", "+o", "-O", "+O", "--rcfile", "--init-file") and rest:
                rest.pop(0)
            wants_text = wants_text or (option[0] == "-" and option[1] != "-" and "c" in option)
            wants_text = wants_text or option == "--command"
        if wants_text and rest:
            self.text, self.parameters = rest[0], rest[2:]
        elif rest and rest[0] != "-":
            self.file, self.parameters = rest[0], rest[1:]


_SSH = frozenset({f"-{letter}" for letter in "bcDEeFIiJLlmOopQRSWw"})
_WATCH = frozenset({"-n", "--interval"})

TEXT_OPTIONS: dict[str, Sequence[str]] = {
    "su": ("-c", "--command"),
    "runuser": ("-c", "--command"),
    "script": ("-c", "--command"),
    "flock": ("-c", "--command"),
    "wsl": ("-e",),
}
"""Programs with an option whose value is shell text."""

TEXT_FIRST: dict[str, Callable[[Words], str]] = {
    "eval": " ".join,
    "trap": lambda words: words[0] if words else "",
    "alias": lambda words: "\n".join(word.partition("=")[2] for word in words),
    "watch": lambda words: " ".join(_after_options(words, _WATCH)),
    "ssh": lambda words: " ".join(_after_options(words, _SSH)[1:]),
    "batch": " ".join,
}
"""Programs whose words are shell text."""
