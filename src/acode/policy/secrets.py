"""Which environment variables hold secrets, told by their names."""

import re
from collections.abc import Mapping
from typing import Final

MASK: Final = "***"

_ANYWHERE: Final = ("PASSWORD", "PASSWD", "PASSPHRASE", "CONNECTION_STRING")
"""Secret even inside a word: PGPASSWORD."""

_ANY_WORD: Final = frozenset({"SECRET", "SECRETS", "CREDENTIAL", "CREDENTIALS", "CREDS"})
"""Secret wherever the word stands: CLIENT_SECRET_V2."""

_LAST_WORD: Final = frozenset(
    {
        "TOKEN", "KEY", "PASS", "PWD", "PAT", "AUTH", "JWT",
        "ACCESSKEY", "ACCESSTOKEN", "APIKEY", "APITOKEN", "AUTHTOKEN", "CLIENTSECRET",
        "PRIVATEKEY", "SECRETKEY",
    }
)  # fmt: skip
"""Secret at the end only: GITHUB_TOKEN, but not TOKEN_LIMIT; MY_KEY, but not MY_KEY_PATH."""

_HARMLESS_ALONE: Final = frozenset({"PASS", "PAT", "AUTH", "PWD"})
"""Words that need another before them: PWD is a directory, MYSQL_PWD a password."""

_QUALIFIERS: Final = frozenset({"B64", "BASE64", "PEM", "VALUE", "OLD", "NEW"})
"""Words after a secret's name that leave it a secret: SIGNING_KEY_BASE64."""

_URL_PASSWORD: Final = re.compile(r"://([^\s/?#:@]*):[^\s/?#]+@")


def looks_secret(name: str) -> bool:
    """Whether a variable of this name should be kept from tasks and from the screen."""
    name = name.upper()
    words = [word for word in re.split(r"[^A-Z0-9]+", name) if word]
    return (
        any(part in name for part in _ANYWHERE)
        or name.startswith("AWS_")
        or not _ANY_WORD.isdisjoint(words)
        or _ends_secretly(words)
    )


def _ends_secretly(words: list[str]) -> bool:
    while len(words) > 1 and (words[-1].isdigit() or words[-1] in _QUALIFIERS):
        words = words[:-1]
    if not words:
        return False
    last = words[-1].rstrip("0123456789")
    return last in _LAST_WORD and (len(words) > 1 or last not in _HARMLESS_ALONE)


def mask(env: Mapping[str, str]) -> dict[str, str]:
    """The variables as they may be shown."""
    return {name: MASK if looks_secret(name) else _mask_urls(env[name]) for name in env}


def _mask_urls(value: str) -> str:
    """The value without the passwords of the addresses in it."""
    return _URL_PASSWORD.sub(rf"://\1:{MASK}@", value)
