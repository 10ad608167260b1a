"""Where other hosts find the gateway of this one, if they can find it at all."""

import ipaddress
import socket
from urllib.parse import parse_qsl, urlsplit

from acode.settings import Settings

EVERYWHERE = ("0.0.0.0", "::")  # noqa: S104 -- what was set
USUAL_PORT = 5432


def reachable(url: str | None, settings: Settings) -> str | None:
    """The gateway's address as others see it; None where it listens to this machine only."""
    host = settings.api.host
    if url is None or not settings.store.is_shared or _is_loopback(host):
        return None
    if host not in EVERYWHERE:
        return url
    # Wherever the database is reached from, the others can reach us too.
    own = _own_address(settings.store.url or "")
    port = urlsplit(url).port
    return (
        None if own is None else f"http://[{own}]:{port}" if ":" in own else f"http://{own}:{port}"
    )


def _own_address(store_url: str) -> str | None:
    server = _server_in(store_url)
    if server is None:
        return "127.0.0.1"  # a socket file: everybody is on this machine
    try:
        family, kind, number, _, place = socket.getaddrinfo(
            server, USUAL_PORT, type=socket.SOCK_DGRAM
        )[0]
        with socket.socket(family, kind, number) as wire:
            wire.connect(place)  # sends nothing, but finds the way
            return str(wire.getsockname()[0])
    except OSError:
        return None


def _server_in(store_url: str) -> str | None:
    """The first server that an address names, before its path or behind it."""
    parts = urlsplit(store_url)
    named = parts.hostname or dict(parse_qsl(parts.query)).get("host", "").partition(",")[0]
    return None if not named or named.startswith("/") else named


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
