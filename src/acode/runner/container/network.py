"""What a container is told about the network: ports, name servers and extra hosts."""

import re
from ipaddress import ip_address

LAST_PORT = 65535
_PORT = re.compile(
    r"(?:(?:(?P<address>\[[^]]*\]|[^:]+):)?(?P<outside>\d+(?:-\d+)?)?:)?"
    r"(?P<inside>\d+)(?:/(?P<protocol>tcp|udp|sctp))?"
)


def published(text: str) -> tuple[str, list[dict[str, str]]] | None:
    """`[[address:]port:]port[/protocol]` as the engine writes it; None if it is something else.

    A lone port gets a free one; of a range every container gets the next that is free.
    """
    found = _PORT.fullmatch(text)
    if found is None or text.startswith(":") or not all(_is_port(word) for word in _numbers(found)):
        return None
    address = (found["address"] or "127.0.0.1").strip("[]")
    if not is_address(address):
        return None
    inside = f"{found['inside']}/{found['protocol'] or 'tcp'}"
    return inside, [{"HostIp": address, "HostPort": found["outside"] or ""}]


def _numbers(found: re.Match[str]) -> list[str]:
    return [found["inside"], *(found["outside"].split("-") if found["outside"] else ())]


def _is_port(word: str) -> bool:
    return 0 < int(word) <= LAST_PORT


def is_address(text: str) -> bool:
    """Whether it is an address, of either kind; names are for others to look up."""
    try:
        ip_address(text)
    except ValueError:
        return False
    return True


def is_host(text: str) -> bool:
    """Whether it is `NAME:ADDRESS`; the engine knows one address by a name."""
    name, colon, address = text.partition(":")
    known = address == "host-gateway" or is_address(address.strip("[]"))
    return bool(name and colon and known) and not re.search(r"\s", name)
