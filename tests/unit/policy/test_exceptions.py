import errno
import http.client
import socket
import urllib.error
from datetime import timedelta
from email.message import Message
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acode.model.failure import Category, Failure, FailureCode
from acode.policy.exceptions import LONGEST_MESSAGE, classify_exception
from acode.policy.failures import LONGEST_WAIT_MS

NOW = 1_700_000_000_000  # Tue, 14 Nov 2023 22:13:20 GMT


class OddError(Exception):
    """An exception of some library, with whatever attributes it likes to have."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__("odd")
        self.__dict__.update(attributes)


def classify(error: BaseException) -> Failure:
    return classify_exception(error, NOW)


def summary(failure: Failure) -> tuple[str, str, bool]:
    return failure.code, failure.category, failure.final


def http_error(status: int, headers: dict[str, str]) -> urllib.error.HTTPError:
    message = Message()
    for name, value in headers.items():
        message[name] = value
    error = urllib.error.HTTPError("http://service", status, "no", message, None)
    error.close()
    return error


TIMEOUT = ("TIMEOUT", "transient", False)
TRANSIENT = ("EXIT_CODE", "transient", False)
DENIED = ("PERMISSION_DENIED", "permanent", True)
INVALID = ("INVALID_TASK", "permanent", True)
NOT_FOUND = ("EXIT_CODE", "permanent", True)
UNCLASSIFIED = ("EXIT_CODE", "permanent", False)
EXHAUSTED = ("RESOURCE_EXHAUSTED", "permanent", False)

BY_STATUS = {
    400: INVALID,
    401: DENIED,
    402: UNCLASSIFIED,
    403: DENIED,
    404: NOT_FOUND,
    405: NOT_FOUND,
    408: TIMEOUT,
    409: UNCLASSIFIED,
    410: NOT_FOUND,
    418: UNCLASSIFIED,
    422: INVALID,
    425: TRANSIENT,
    429: TRANSIENT,
    500: TRANSIENT,
    502: TRANSIENT,
    503: TRANSIENT,
    504: TIMEOUT,
    529: TRANSIENT,
    599: TRANSIENT,
}


@pytest.mark.req("lld-14")
@pytest.mark.parametrize(
    "shape",
    [
        lambda status: OddError(status_code=status),
        lambda status: OddError(status=status),
        lambda status: OddError(code=HTTPStatus(status) if status == 404 else status),
        lambda status: OddError(response=SimpleNamespace(status_code=status)),
        lambda status: OddError(response=SimpleNamespace(status=status)),
        lambda status: OddError(status_code=None, code="denied", status=status),
        lambda status: http_error(status, {}),
    ],
    ids=[
        "status_code",
        "status",
        "code",
        "response.status_code",
        "response.status",
        "mixed",
        "urllib",
    ],
)
@pytest.mark.parametrize(("status", "expected"), BY_STATUS.items())
def test_an_http_status_decides(status: int, expected: tuple[str, str, bool], shape: Any) -> None:
    assert summary(classify(shape(status))) == expected


class Timeout(OSError):
    """As `requests` calls it."""


class ReadTimeout(Timeout):
    """As `requests` calls it."""


class RateLimitExceeded(Exception):
    """As many clients call it."""


@pytest.mark.req("lld-14")
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (TimeoutError("slow"), TIMEOUT),
        (OSError(errno.ETIMEDOUT, "slow"), TIMEOUT),
        (ReadTimeout("slow"), TIMEOUT),
        (urllib.error.URLError(TimeoutError("slow")), TIMEOUT),
        (ConnectionResetError("cut"), TRANSIENT),
        (ConnectionRefusedError("no"), TRANSIENT),
        (BrokenPipeError("cut"), TRANSIENT),
        (http.client.RemoteDisconnected("cut"), TRANSIENT),
        (http.client.IncompleteRead(b""), TRANSIENT),
        (urllib.error.URLError(socket.gaierror(-3, "no name")), TRANSIENT),
        (OSError(errno.ENETUNREACH, "no way"), TRANSIENT),
        (RateLimitExceeded(), TRANSIENT),
        (OddError(retry_after=5), TRANSIENT),
        (PermissionError(errno.EACCES, "no"), DENIED),
        (FileNotFoundError(errno.ENOENT, "no"), NOT_FOUND),
        (MemoryError(), EXHAUSTED),
        (OSError(errno.ENOSPC, "full"), EXHAUSTED),
        (OSError(errno.EIO, "bad"), UNCLASSIFIED),
        (ValueError("bad"), UNCLASSIFIED),
        (KeyError("bad"), UNCLASSIFIED),
        (SystemExit(1), UNCLASSIFIED),
        (KeyboardInterrupt(), UNCLASSIFIED),
        (urllib.error.URLError("unknown url type"), UNCLASSIFIED),
    ],
    ids=repr,
)
def test_the_type_decides_without_a_status(
    error: BaseException, expected: tuple[str, str, bool]
) -> None:
    assert summary(classify(error)) == expected


@pytest.mark.parametrize(
    ("wish", "wait_ms"),
    [
        (7, 7000),
        (0.25, 250),
        (0, 0),
        (timedelta(minutes=2), 120_000),
        ("7", 7000),
        (" 1.5 ", 1500),
        ("Tue, 14 Nov 2023 22:14:20 GMT", 60_000),
        ("Tuesday, 14-Nov-23 22:14:20 GMT", 60_000),
        ("Tue Nov 14 22:14:20 2023", 60_000),
        ("Tue, 14 Nov 2023 22:00:00 GMT", 0),
        (10**400, LONGEST_WAIT_MS),
        ("9" * 400, LONGEST_WAIT_MS),
        (float("inf"), LONGEST_WAIT_MS),
        (float("nan"), None),
        (-1, None),
        (True, None),
        ("soon", None),
        ("", None),
        ("Tue, 14 Nov 99999 22:14:20 GMT", None),
        (b"7", None),
        (None, None),
    ],
)
def test_a_service_can_ask_to_wait(wish: object, wait_ms: int | None) -> None:
    assert classify(OddError(status=503, retry_after=wish)).retry_after_ms == wait_ms
    headers = {"retry-after": wish}
    assert classify(OddError(status=503, headers=headers)).retry_after_ms == wait_ms
    response = SimpleNamespace(status_code=429, headers=headers)
    assert classify(OddError(response=response)).retry_after_ms == wait_ms


def test_retry_after_is_read_from_real_headers() -> None:
    assert classify(http_error(429, {"Retry-After": "3"})).retry_after_ms == 3000


def test_a_wish_to_wait_does_not_make_a_refusal_curable() -> None:
    failure = classify(OddError(status=403, retry_after=5))
    assert summary(failure) == DENIED
    assert failure.retry_after_ms is None


def test_an_exception_that_carries_its_failure_speaks_for_itself() -> None:
    failure = Failure(
        FailureCode.EXIT_CODE, Category.PARTIAL, "moved, not tagged", failed_step="tag"
    )
    assert classify(OddError(failure=failure, status=500)) is failure
    assert summary(classify(OddError(failure="of nerve"))) == UNCLASSIFIED


def test_a_group_is_as_grave_as_its_gravest_member() -> None:
    slow, busy = TimeoutError("slow"), OddError(status=429, retry_after=9)
    broken, denied = ValueError("bad"), PermissionError("no")
    assert classify(ExceptionGroup("all", [slow, busy])).retry_after_ms == 9000
    assert summary(classify(ExceptionGroup("all", [slow, broken]))) == UNCLASSIFIED
    nested = ExceptionGroup("all", [slow, ExceptionGroup("some", [denied, broken])])
    assert summary(classify(nested)) == DENIED


def test_the_message_names_the_exception() -> None:
    assert classify(ValueError("bad id")).message == "ValueError: bad id"
    assert classify(ValueError()).message == "ValueError"


class HostileError(Exception):
    """Breaks whoever looks at it."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    def __getattr__(self, name: str) -> object:
        raise RuntimeError("no attributes")


def test_a_hostile_exception_is_classified_too() -> None:
    failure = classify(HostileError())
    assert summary(failure) == UNCLASSIFIED
    assert failure.message == "HostileError"


def test_a_message_can_always_be_stored() -> None:
    failure = classify(ValueError("bad\udcff"))
    assert failure.message == "ValueError: bad\\udcff"
    assert msgspec.json.decode(msgspec.json.encode(failure), type=Failure) == failure
    assert len(classify(ValueError("x" * 10_000)).message) == LONGEST_MESSAGE


ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(),
    st.binary(),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.sampled_from(["Retry-After", "retry-after"]), st.text()),
    st.builds(SimpleNamespace, status_code=st.integers(), headers=st.none()),
)
NAMES = st.sampled_from(
    ["status", "status_code", "code", "response", "headers", "retry_after", "errno", "reason"]
)


@given(st.dictionaries(NAMES, ANYTHING))
def test_no_attribute_confuses_it_and_the_result_can_be_stored(attributes: dict[str, Any]) -> None:
    failure = classify(OddError(**attributes))
    assert msgspec.json.decode(msgspec.json.encode(failure), type=Failure) == failure
    assert failure.retry_after_ms is None or 0 <= failure.retry_after_ms <= LONGEST_WAIT_MS


@given(st.text())
def test_any_retry_after_header_is_survived(text: str) -> None:
    wait = classify(OddError(status=429, headers={"Retry-After": text})).retry_after_ms
    assert wait is None or 0 <= wait <= LONGEST_WAIT_MS
