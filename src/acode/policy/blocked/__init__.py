"""Commands that nobody means: recognised by reading them as a shell does, not by their letters.

It is a seat belt. Whoever wants to get around it can; the wall is the sandbox.
"""

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from acode.policy.blocked.walk import Blocked

_SHELL = "/bin/sh"
_LONGEST = 128 * 1024
"""A longer word cannot be executed: the kernel refuses it."""


def blocked(argv: Sequence[str], patterns: Sequence[str] = ()) -> "Blocked | None":
    """What is refused in the words that are to be executed, if anything."""
    if not argv or (not patterns and _is_harmless(argv)) or max(map(len, argv)) > _LONGEST:
        return None
    from acode.policy.blocked.walk import Blocked, Walk
    from acode.policy.shell.meaning import Scope
    from acode.policy.shell.syntax import TooDeep

    try:
        return Walk(patterns).words(argv, Scope())
    except (TooDeep, RecursionError):
        return Blocked(argv[-1], "be nested too deeply to be checked")


# Most commands are plain words of harmless programs. To see that takes no parsing.
_PLAIN = re.compile(r"[\w ./=:,@%+;&|<>\n-]*", re.ASCII)
_BETWEEN = str.maketrans(";&|<>\n/", "       ")
_NOWHERE = re.compile(r"/dev/null(?![\w./=:,@%+-])")
_SPARED = frozenset({"dev", "etc", "proc"})
"""Whatever must not be written over lies in one of these."""
_WATCHED = frozenset(
    """
    rm find chmod chown chgrp setfacl mv cp install tee truncate sponge dd dcfldd dc3dd ddrescue
    mkfs mke2fs mkswap mkdosfs newfs shred wipe srm scrub fdisk sfdisk cfdisk gdisk sgdisk parted
    wipefs blkdiscard hdparm badblocks nvme cryptsetup pvremove vgremove lvremove zpool mdadm rsync
    curl wget shutdown reboot halt poweroff init telinit systemctl loginctl kill killall5
    env sudo doas nice ionice timeout stdbuf setsid nohup time command builtin exec chrt taskset
    xargs parallel busybox toybox strace ltrace watch unshare chroot nsenter systemd-run firejail
    catchsegv chronic caffeinate proot fakeroot setarch linux64 prlimit setpriv cgexec torsocks
    proxychains dbus-run-session xvfb-run ssh-agent unbuffer entr
    sh bash dash ash zsh ksh mksh yash fish rbash su runuser script flock wsl eval trap alias ssh
    batch source . cd pushd set export readonly local declare typeset
    """.split()  # noqa: SIM905 -- a list of names
)
_WATCHED_BEGINNINGS = ("mkfs", "newfs", "python", "perl", "ruby", "node", "php", "lua", "pypy",
                       "bun", "deno")  # fmt: skip


def is_watched(program: str) -> bool:
    """Whether a command with this word in it has to be read."""
    return program in _WATCHED or program.startswith(_WATCHED_BEGINNINGS)


def _is_harmless(argv: Sequence[str]) -> bool:
    words = argv[2:] if tuple(argv[:2]) == (_SHELL, "-c") else argv
    return all(map(_is_plain, words))


def _is_plain(text: str) -> bool:
    if not _PLAIN.fullmatch(text):
        return False
    writes = ">" in text
    words = (_NOWHERE.sub(" ", text) if writes else text).translate(_BETWEEN).split()
    if writes and not _SPARED.isdisjoint(words):
        return False
    return not any(map(is_watched, words))
