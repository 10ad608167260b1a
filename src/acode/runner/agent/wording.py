"""An agent's events as lines that people read."""

from collections.abc import Iterator
from typing import Final

import msgspec

from acode.clock import iso
from acode.runner.agent.event import Event, number, part, parts, text
from acode.runner.agent.limit import limit_of

LINE_CHARACTERS: Final = 200
"""What a tool is given and gives back is shown so far."""
TEXT_CHARACTERS: Final = 20_000
"""What the agent itself says is shown so far."""

_TELLING: Final = (
    "command",
    "file_path",
    "path",
    "pattern",
    "url",
    "query",
    "description",
    "prompt",
)
"""What says most about the use of a tool, the most telling first."""

SILENT: Final = frozenset({"stream_event", "keep_alive", "control_request", "control_response"})
"""Events that nobody needs to read."""

KNOWN: Final = frozenset({"system", "assistant", "user", "result", "rate_limit_event", *SILENT})


def wording(event: Event) -> Iterator[str]:
    """The lines of an event."""
    match event["type"]:
        case "assistant":
            yield from _indented(event, _said(event))
        case "user":
            yield from _indented(event, _given_back(event))
        case "system":
            yield from _system(event)
        case "rate_limit_event":
            yield from _limit(event)
        case "result":
            yield _result(event)


def _indented(event: Event, lines: Iterator[str]) -> Iterator[str]:
    """What an agent's agent says stands a little aside."""
    margin = "  " if text(event, "parent_tool_use_id") else ""
    return (f"{margin}{line}" for line in lines)


def _said(event: Event) -> Iterator[str]:
    for block in parts(event, "message", "content"):
        match text(block, "type"):
            case "text":
                yield from _lines(text(block, "text"))
            case "tool_use" | "server_tool_use":
                yield f"→ {text(block, 'name') or 'tool'}: {_use(part(block, 'input'))}".rstrip(
                    ": "
                )


def _use(given: Event) -> str:
    for name in _TELLING:
        if words := text(given, name):
            return shortened(words)
    return shortened(msgspec.json.encode(given).decode()) if given else ""


def _given_back(event: Event) -> Iterator[str]:
    for block in parts(event, "message", "content"):
        if text(block, "type") == "tool_result":
            sign = "✗" if block.get("is_error") is True else "←"
            words = "\n".join(text(piece, "text") for piece in parts(block, "content"))
            yield f"{sign} {shortened(words) or '(nothing)'}"


def _system(event: Event) -> Iterator[str]:
    match text(event, "subtype"):
        case "init":
            yield f"session {text(event, 'session_id')}, model {text(event, 'model')}"
        case "api_retry":
            yield _retry(event)
        case "compact_boundary":
            yield "the conversation was shortened"


def _retry(event: Event) -> str:
    wait = (number(event, "retry_delay_ms") or 0) / 1000
    count, most = number(event, "attempt") or 0, number(event, "max_retries") or 0
    status = number(event, "error_status")
    why = text(event, "error") + (f" ({status:g})" if status else "")
    return f"the service did not answer, {why}: retry {count:g} of {most:g} in {wait:.1f} s"


def _limit(event: Event) -> Iterator[str]:
    limit = limit_of(event)
    if limit is not None:
        until = f" until {iso(limit.resets_at)}" if limit.resets_at else ""
        yield f"✗ {limit.message}{until}"


def _result(event: Event) -> str:
    facts = ", ".join(_facts(event))
    if not is_error(event):
        return f"✓ done: {facts}" if facts else "✓ done"
    return f"✗ failed: {shortened(failure_text(event))}" + (f" ({facts})" if facts else "")


def _facts(event: Event) -> Iterator[str]:
    turns, cost = number(event, "num_turns"), number(event, "total_cost_usd")
    took = number(event, "duration_ms")
    if turns is not None:
        yield f"{turns:g} turn{'' if turns == 1 else 's'}"
    if cost is not None:
        yield f"${cost:.4f}"
    if took is not None:
        yield f"{took / 1000:.1f} s"


def is_error(event: Event) -> bool:
    """Whether a result says that the agent did not succeed, in either of the two ways."""
    return event.get("is_error") is True or text(event, "subtype").startswith("error")


def failure_text(event: Event) -> str:
    """What a result says of its failure."""
    errors = event.get("errors")
    told = [each for each in errors if isinstance(each, str)] if isinstance(errors, list) else []
    return text(event, "result") or "; ".join(told) or text(event, "subtype") or "no reason given"


def _lines(words: str) -> Iterator[str]:
    left_out = len(words) - TEXT_CHARACTERS
    yield from words[:TEXT_CHARACTERS].strip("\r\n").splitlines()
    if left_out > 0:
        yield f"… ({left_out:,} more characters)"


def shortened(words: str) -> str:
    """The first line, and how much is left out."""
    lines = words.strip().splitlines() or [""]
    first = lines[0]
    if len(first) > LINE_CHARACTERS:
        first = f"{first[:LINE_CHARACTERS]}…"
    return f"{first} (+{len(lines) - 1} lines)" if len(lines) > 1 else first
