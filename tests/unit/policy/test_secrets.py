from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acode.policy.secrets import looks_secret, mask

SECRET = [
    "GITHUB_TOKEN", "HF_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "TOKEN", "NPM_CONFIG__AUTHTOKEN",
    "ACCESSTOKEN",
    "SECRET", "SECRETS", "CLIENT_SECRET", "CLIENT_SECRET_V2", "SECRET_KEY_BASE", "APP_SECRETS",
    "DJANGO_SECRET_KEY",
    "ANTHROPIC_API_KEY", "OPENAI_API_KEY_2", "STRIPE_KEY1", "KEY", "APIKEY", "PRIVATE_KEY",
    "PRIVATEKEY", "PUBLIC_KEY",
    "SSH_KEY", "SIGNING_KEY_BASE64", "DEPLOY_KEY_PEM", "GITHUB_TOKEN_OLD",
    "PASSWORD", "PGPASSWORD", "DB_PASSWORD", "PASSWORD_FOR_ROOT", "MYPASSWORDS", "PASSWD",
    "MYSQL_PASSWD", "DB_PASS",
    "MYSQL_PWD", "PASSPHRASE", "GPG_PASSPHRASE", "SSH_PASSPHRASE_2",
    "GOOGLE_APPLICATION_CREDENTIALS", "MY_CREDENTIALS_FILE", "CREDENTIALS", "GIT_CREDENTIAL",
    "DB_CREDS",
    "AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN", "AWS_REGION", "AWS_PROFILE",
    "AZURE_DEVOPS_EXT_PAT", "SESSION_JWT", "REDISCLI_AUTH", "AZURE_STORAGE_CONNECTION_STRING",
    "my-api-token", "my.secret",
]  # fmt: skip

HARMLESS = [
    "PATH", "HOME", "USER", "SHELL", "TERM", "LANG", "LC_ALL", "PWD", "OLDPWD", "EDITOR",
    "LS_COLORS", "SHLVL", "_", "CI",
    "TOKENIZERS_PARALLELISM", "MAX_TOKENS", "CLAUDE_CODE_MAX_OUTPUT_TOKENS", "TOKEN_LIMIT",
    "TOKENIZER",
    "MONKEY", "DONKEY_KONG", "KEYBOARD_LAYOUT", "KEYRING_BACKEND", "GNOME_KEYRING_CONTROL",
    "HOTKEYS", "KEY_REPEAT",
    "PUBLIC_KEY_PATH", "SSH_KEY_FILE", "SECRETARY", "SECRETARIAT_NAME",
    "SSH_AUTH_SOCK", "SSH_ASKPASS", "GIT_ASKPASS", "XAUTHORITY", "AUTHOR", "GIT_AUTHOR_NAME",
    "AUTH", "PASS", "PAT",
    "PASSENGER_COUNT", "COMPASS", "BYPASS_CACHE", "PATCH_LEVEL", "LAWS_OF_NATURE", "AWS", "AWSOME",
    "DATABASE_URL",
    "ACODE_TASK_ID", "ACODE_WORKER_ID", "ACODE_CHECKPOINT", "NODE_ENV", "NPM_CONFIG_CACHE",
]  # fmt: skip


@pytest.mark.parametrize("name", SECRET)
def test_a_secret_is_known_by_its_name(name: str) -> None:
    assert looks_secret(name)


@pytest.mark.parametrize("name", HARMLESS)
def test_a_harmless_name_passes(name: str) -> None:
    assert not looks_secret(name)


@pytest.mark.parametrize("name", ["", "___", "2", "_2_", "OLD"])
def test_a_name_without_words_passes(name: str) -> None:
    assert not looks_secret(name)


@given(st.sampled_from(SECRET + HARMLESS), st.randoms(use_true_random=False))
def test_case_does_not_matter(name: str, random: Random) -> None:
    mixed = "".join(random.choice((letter.upper(), letter.lower())) for letter in name)
    assert looks_secret(mixed) == looks_secret(name)


WORDS = st.from_regex(r"[A-Z]{1,8}", fullmatch=True)


@given(WORDS, st.sampled_from(["TOKEN", "KEY", "SECRET", "PASSWORD", "CREDENTIALS"]))
def test_a_secret_word_at_the_end_is_enough(word: str, last: str) -> None:
    assert looks_secret(f"{word}_{last}")


@given(WORDS, WORDS)
def test_secret_and_credentials_count_wherever_they_stand(before: str, after: str) -> None:
    assert looks_secret(f"{before}_SECRET_{after}")
    assert looks_secret(f"{before}_CREDENTIALS_{after}")


@given(WORDS)
def test_everything_of_aws_is_secret(word: str) -> None:
    assert looks_secret(f"AWS_{word}")


def test_the_mask_hides_secrets_and_nothing_else() -> None:
    env = {"GITHUB_TOKEN": "ghp_1", "EMPTY_TOKEN": "", "LANG": "C"}
    assert mask(env) == {"GITHUB_TOKEN": "***", "EMPTY_TOKEN": "***", "LANG": "C"}


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("postgresql://ann:pw@db:5432/app", "postgresql://ann:***@db:5432/app"),
        ("redis://:pw@cache/0", "redis://:***@cache/0"),
        ("amqp://a:p@ss:word@host", "amqp://a:***@host"),
        (
            "git+https://x-access-token:ghp_1@github.com/a/b",
            "git+https://x-access-token:***@github.com/a/b",
        ),
        ("http://a:b@one,http://c:d@two", "http://a:***@one,http://c:***@two"),
        ("see http://a:b@one and http://c:d@two", "see http://a:***@one and http://c:***@two"),
        ("https://localhost:8080/@scope/pkg", "https://localhost:8080/@scope/pkg"),
        ("https://host/path?to=a:b@c", "https://host/path?to=a:b@c"),
        ("ssh://git@github.com/a/b", "ssh://git@github.com/a/b"),
        ("git@github.com:a/b", "git@github.com:a/b"),
        ("plain", "plain"),
    ],
)
def test_the_mask_hides_the_password_of_an_address(value: str, shown: str) -> None:
    assert mask({"SERVICE": value}) == {"SERVICE": shown}


SAFE = st.text(st.characters(categories=["L", "N"]), min_size=1)


@given(SAFE, SAFE, SAFE)
def test_no_password_of_an_address_is_shown(user: str, password: str, host: str) -> None:
    shown = mask({"SERVICE": f"scheme://{user}:{password}@{host}"})["SERVICE"]
    assert shown == f"scheme://{user}:***@{host}"


@given(st.dictionaries(st.text(), st.text()))
def test_the_mask_keeps_every_name(env: dict[str, str]) -> None:
    assert list(mask(env)) == list(env)
