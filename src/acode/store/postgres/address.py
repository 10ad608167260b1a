"""The address of a database: taken apart, and shown without its secrets."""

import re
from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, unquote, urlsplit

from acode.errors import ConfigError

SCHEME = "postgresql://"
HIDDEN = "***"
_SECRETS = re.compile("password|passfile|sslpassword|secret", re.IGNORECASE)
_HINT = "write it as postgresql://USER:PASSWORD@HOST:PORT/DATABASE; see the page on PostgreSQL"


class Address(NamedTuple):
    """Where a database is. Only `conninfo` holds secrets; it is for the driver alone."""

    conninfo: str
    shown: str
    secrets: tuple[str, ...]

    def hide(self, text: str) -> str:
        """A text without any of the secrets."""
        for secret in self.secrets:
            text = text.replace(secret, HIDDEN)
        return text

    def __repr__(self) -> str:
        """Without its secrets: tracebacks and test reports show this."""
        return f"Address({self.shown})"


def is_address(url: str) -> bool:
    """Whether this is meant for PostgreSQL."""
    return url.startswith(SCHEME)


def parse(url: str) -> Address:
    """An address from what the user wrote; never quoted where it is refused."""
    if not is_address(url):
        raise ConfigError("store.url is not an address of a PostgreSQL database", _HINT)
    try:
        parts = urlsplit(url)
        _ = parts.port
        query = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=False))
    except ValueError:
        raise ConfigError("store.url: host or port cannot be read", _HINT) from None
    if parts.netloc.count("@") > 1:
        raise ConfigError(
            "store.url: there is more than one @ before the path",
            "write @ in a password as %40, : as %3A, / as %2F",
        )
    secrets = tuple(_secrets(parts.password, query))
    _check(url)
    return Address(url, _shown(parts, query), secrets)


def _secrets(password: str | None, query: dict[str, str]) -> Iterator[str]:
    """Everything that must not be shown, as it is written and as it is meant, longest first."""
    values = [password, *(value for name, value in query.items() if _SECRETS.search(name))]
    found = {form for value in values if value for form in (value, unquote(value))}
    yield from sorted(found, key=len, reverse=True)


def _shown(parts: Any, query: dict[str, str]) -> str:
    user = f"{parts.username}@" if parts.username else ""
    place = parts.netloc.rpartition("@")[2]
    asked = [f"{n}={HIDDEN if _SECRETS.search(n) else v}" for n, v in query.items()]
    return f"postgresql://{user}{place}{parts.path}{'?' + '&'.join(asked) if asked else ''}"


def _check(url: str) -> None:
    """Let the driver's library read it, before anything is connected."""
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    try:
        conninfo_to_dict(url)
    except psycopg.Error:
        # What the library says quotes the address.
        raise ConfigError("store.url cannot be read", _HINT) from None
