"""What this machine cannot keep tasks from, although the settings ask for it."""

import os
from collections.abc import Iterator, Sequence
from typing import Literal

from acode.runner import landlock, namespaces, seccomp
from acode.runner.sandbox import Level, Network, lies_within

NetworkWay = Literal["namespace", "user namespace", "Landlock", "nothing"]


def network_way() -> NetworkWay:
    """What closes the network on this machine."""
    if namespaces.may_make():
        return "namespace"
    if namespaces.users_may():
        return "user namespace"
    return "Landlock" if landlock.abi() >= landlock.ABI_NETWORK else "nothing"


def can_seal() -> bool:
    """Whether places within a writable directory can be kept from changes."""
    return namespaces.may_make() or namespaces.users_may()


def sandbox_gaps(
    level: Level, network: Network, root: str, write_paths: Sequence[str]
) -> Iterator[str]:
    """Everything that tasks of a project are not kept from, one reason each."""
    if level == "off":
        return
    for path in write_paths:
        if lies_within(root, os.path.join(root, os.path.expanduser(path))):
            yield f"changing the project, git's hooks and acode's own files ({path} is writable)"
    yield from landlock.missing(landlock.abi())
    if not seccomp.works():
        yield "limits for other programs (no filter for system calls can be set here)"
        if level == "strict":
            yield "sockets of other programs (no filter for system calls can be set here)"
    if not can_seal():
        yield "changes to git's hooks and settings by tasks that work in the project itself"
    if network == "none":
        match network_way():
            case "Landlock":
                yield "network traffic other than TCP (namespaces cannot be made)"
            case "nothing":
                yield "the network (neither namespaces nor Landlock 4 are there)"
