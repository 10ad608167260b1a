"""An address is understood, and nothing of its secrets is ever shown."""

import pytest

from acode.errors import ConfigError
from acode.store.postgres.address import parse


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://h/d", "postgresql://h/d"),
        ("postgresql://u:geheim@h:5433/d", "postgresql://u@h:5433/d"),
        ("postgresql://u:ge%40heim@h/d", "postgresql://u@h/d"),
        ("postgresql://u@h/d?password=geheim", "postgresql://u@h/d?password=***"),
        ("postgresql:///d?host=/run/pg&sslmode=require", "postgresql:///d?host=/run/pg&sslmode=require"),
        ("postgresql://u:geheim@one,two:5433/d", "postgresql://u@one,two:5433/d"),
    ],
)  # fmt: skip
def test_an_address_is_shown_without_its_secrets(url: str, shown: str) -> None:
    address = parse(url)
    assert address.shown == shown
    for text in (repr(address), address.shown, address.hide(f"FATAL: {url}")):
        assert "heim" not in text


def test_a_secret_is_hidden_as_it_is_written_and_as_it_is_meant() -> None:
    address = parse("postgresql://u:ge%40heim@h/d?sslpassword=other")
    assert address.hide("ge%40heim, ge@heim, other") == "***, ***, ***"


@pytest.mark.parametrize(
    "url",
    [
        "mysql://u:geheim@h/d",
        "geheim",
        "postgresql://u:ge@heim@h/d",
        "postgresql://u:ge/heim@h/d",
        "postgresql://u:geheim@h:port/d",
        "postgresql://u:geheim@[h/d",
        "postgresql://u:geheim@h/d?nonsense=1",
        "postgresql://u:%zzgeheim@h/d",
    ],
)
def test_what_cannot_be_read_is_refused_without_being_quoted(url: str) -> None:
    with pytest.raises(ConfigError) as refused:
        parse(url)
    assert "heim" not in f"{refused.value} {refused.value.hint}"
    assert refused.value.__suppress_context__ or refused.value.__context__ is None
