"""What each program must not be told to do. A rule says what would happen, or nothing."""

import re
from collections.abc import Callable, Iterable, Sequence

from acode.policy.blocked.paths import disk, precious, vital
from acode.policy.shell.meaning import literal

Words = Sequence[str]
Rule = Callable[[Words, str], str | None]


def options(words: Words) -> list[str]:
    """The words that are options: all with a dash, up to `--`."""
    before = words[: words.index("--")] if "--" in words else words
    return [word for word in before if len(word) > 1 and word.startswith("-")]


def operands(words: Words) -> list[str]:
    """The words that are no options."""
    if "--" not in words:
        return [word for word in words if not (len(word) > 1 and word.startswith("-"))]
    place = list(words).index("--")
    return [*operands(words[:place]), *words[place + 1 :]]


def has(words: Words, letters: str, *names: str) -> bool:
    """Whether an option is among them: as a letter, alone or with others, or by its name."""
    for word in options(words):
        if word.startswith("--"):
            name = word.partition("=")[0]
            if len(name) > 3 and any(each.startswith(name) for each in names):
                return True
        elif set(word[1:]) & set(letters):
            return True
    return False


def _first(verb: str, words: Iterable[str], directory: str) -> str | None:
    found = (precious(word, directory) for word in words)
    return next((f"{verb} {path}" for path in found if path), None)


def to_disk(words: Iterable[str]) -> str | None:
    """Writes over a disk, or over a file that the machine cannot do without."""
    for word in words:
        if path := disk(word) or vital(word):
            return f"write over {path}"
    return None


def _rm(words: Words, directory: str) -> str | None:
    if not has(words, "rR", "--recursive"):
        return to_disk(operands(words))
    return _first("delete", operands(words), directory)


def _find(words: Words, directory: str) -> str | None:
    deletes = "-delete" in words or any(
        word in ("-exec", "-execdir", "-ok") and _removes(words[place + 1 :])
        for place, word in enumerate(words)
    )
    places = []
    for word in words:
        if word.startswith(("-", "(", "!")):
            break
        places.append(word)
    narrowed = {"-name", "-iname", "-path", "-regex", "-mtime", "-mmin", "-empty", "-newer"}
    if not deletes or narrowed & set(words):
        return None
    return _first("delete", places, directory)


def _removes(words: Words) -> bool:
    return bool(words) and words[0].rpartition("/")[2] in ("rm", "shred", "unlink")


def _change(words: Words, directory: str) -> str | None:
    if not has(words, "R", "--recursive"):
        return None
    return _first("change the permissions of", operands(words)[1:], directory)


def _move(words: Words, directory: str) -> str | None:
    targets = operands(words)
    if literal(" ".join(words)).startswith(("--version", "--help")):
        return None
    return to_disk(targets[-1:]) or _first("move away", targets[:-1], directory)


def _copy(words: Words, _directory: str) -> str | None:
    return to_disk(operands(words)[-1:])


def _all_operands(words: Words, _directory: str) -> str | None:
    return to_disk(operands(words))


def _dd(words: Words, _directory: str) -> str | None:
    return to_disk(word[3:] for word in words if word.startswith("of="))


def _format(words: Words, _directory: str) -> str | None:
    if not operands(words) or set(words) & {"--help", "-V", "--version", "-n"}:
        return None
    return "format a disk"


def _shred(words: Words, directory: str) -> str | None:
    return to_disk(operands(words)) or _first("delete", operands(words), directory)


def _partition(words: Words, _directory: str) -> str | None:
    looks = {"-l", "--list", "-d", "--dump", "-J", "--json", "-p", "--print", "print", "-V", "-v",
             "--version", "-h", "--help", "-s", "--show-size", "-F"}  # fmt: skip
    if set(words) & (looks - {"-s"} if "mklabel" in words or "rm" in words else looks):
        return None
    found = next(filter(None, map(disk, operands(words))), None)
    return f"change the partitions of {found}" if found else None


def _wipe(words: Words, _directory: str) -> str | None:
    if not options(words):
        return None  # it only lists
    found = next(filter(None, map(disk, operands(words))), None)
    return f"wipe {found}" if found else None


def _verbs(what: str, *verbs: str) -> Rule:
    def rule(words: Words, _directory: str) -> str | None:
        return what if set(words) & set(verbs) else None

    return rule


def _always(what: str) -> Rule:
    def rule(words: Words, _directory: str) -> str | None:
        return None if set(words) & {"--help", "--version", "-c"} else what

    return rule


def _init(words: Words, _directory: str) -> str | None:
    return _OFF if set(words) & {"0", "6"} else None


def _kill(words: Words, _directory: str) -> str | None:
    signals = [word for word in words if not re.fullmatch(r"-[A-Z]*|-\d{1,2}|-[sn]|[A-Z]+", word)]
    everybody = bool(words) and words[-1] == "-1" and (len(words) > 1 or not signals)
    return "signal every process" if everybody and words != ["-l", "-1"] else None


def _rsync(words: Words, directory: str) -> str | None:
    if not any(word.startswith("--del") for word in words):
        return None
    return _first("delete what is in", operands(words)[-1:], directory)


def _download(words: Words, _directory: str) -> str | None:
    after = [words[place + 1 : place + 2] for place, word in enumerate(words)
             if word in ("-o", "-O", "--output", "--output-document")]  # fmt: skip
    return to_disk(word for words in after for word in words)


_OFF = "shut the machine down"
_DESTROY = "destroy a volume"

RULES: dict[str, Rule] = {
    "rm": _rm,
    "find": _find,
    "chmod": _change,
    "chown": _change,
    "chgrp": _change,
    "setfacl": _change,
    "mv": _move,
    "cp": _copy,
    "install": _copy,
    "tee": _all_operands,
    "truncate": _all_operands,
    "sponge": _all_operands,
    "dd": _dd,
    "dcfldd": _dd,
    "dc3dd": _dd,
    "ddrescue": _copy,
    "mkfs": _format,
    "mke2fs": _format,
    "mkswap": _format,
    "mkdosfs": _format,
    "newfs": _format,
    "shred": _shred,
    "wipe": _shred,
    "srm": _shred,
    "scrub": _shred,
    "fdisk": _partition,
    "sfdisk": _partition,
    "cfdisk": _partition,
    "gdisk": _partition,
    "sgdisk": _partition,
    "parted": _partition,
    "wipefs": _wipe,
    "blkdiscard": _always("wipe a disk"),
    "hdparm": _verbs("wipe a disk", "--security-erase", "--security-erase-enhanced"),
    "badblocks": _verbs("write over a disk", "-w", "-wsv", "-wv", "-sw", "-svw", "-wvs"),
    "nvme": _verbs("wipe a disk", "format", "sanitize"),
    "cryptsetup": _verbs("destroy a volume", "luksFormat", "luksErase", "erase", "reencrypt"),
    "pvremove": _always(_DESTROY),
    "vgremove": _always(_DESTROY),
    "lvremove": _always(_DESTROY),
    "zpool": _verbs(_DESTROY, "destroy", "labelclear"),
    "mdadm": _verbs(_DESTROY, "--zero-superblock"),
    "rsync": _rsync,
    "curl": _download,
    "wget": _download,
    "shutdown": _always(_OFF),
    "reboot": _always(_OFF),
    "halt": _always(_OFF),
    "poweroff": _always(_OFF),
    "init": _init,
    "telinit": _init,
    "systemctl": _verbs(_OFF, "poweroff", "reboot", "halt", "kexec", "emergency", "rescue"),
    "loginctl": _verbs(_OFF, "poweroff", "reboot", "halt"),
    "kill": _kill,
    "killall5": _always("signal every process"),
}


def rule_of(program: str) -> Rule | None:
    """The rule for a program, by its name without the directory."""
    if program.startswith(("mkfs.", "newfs_", "mkfs_")):
        return _format
    return RULES.get(program)


_CODE = (
    (re.compile(r"\bfork\s+while\b|\bwhile\s*\(?\s*(?:1|true|fork)[^;\n]{0,20}\bfork\b"
                r"|\bloop\s*(?:\{|do)\s*fork"), "fork without end"),
    (re.compile(r"while\s*\(?(?:1|True)\)?\s*:\s*(?:\w+\.)?fork\(\)"), "fork without end"),
    (re.compile(r"(?:rmtree|rm_rf|rmSync|rmdirSync|remove_dir_all|remove_entry_secure)\s*\(?\s*"
                r"['\"]/+\*?['\"]"), "delete /"),
    (re.compile(r"open\s*\(\s*['\"]/dev/(?:[shv]d[a-z]|nvme\d)\w*['\"]\s*,\s*['\"][^'\"]*[wa+]"),
     "write over a disk"),
)  # fmt: skip
_CALLED = re.compile(
    r"(?:system|popen\w*|exec\w*|spawn\w*|run|call|check_\w+|getoutput|sh|backtick)\s*\(?\s*"
    r"(?P<q>['\"])(?P<text>(?:\\.|(?!(?P=q)).)*)(?P=q)",
    re.DOTALL,
)
INTERPRETERS = re.compile(r"(?:python|perl|ruby|node|nodejs|php|lua|pypy|bun|deno)[\d.]*")


def in_code(text: str) -> str | None:
    """What a program text of a scripting language would do, for the best-known ways."""
    return next((what for pattern, what in _CODE if pattern.search(text)), None)


def shell_in_code(text: str) -> list[str]:
    """The shell texts that a program text runs."""
    return [match["text"] for match in _CALLED.finditer(text)]
