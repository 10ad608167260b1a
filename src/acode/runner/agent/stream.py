"""What an agent prints, read while it works: lines for people, and what it says of itself."""

from typing import Final

from msgspec.structs import replace

from acode.model.agent import AgentFormat, AgentRun, UsageLimit
from acode.runner.agent.event import Event, event_of, number, text
from acode.runner.agent.limit import limit_in, limit_of
from acode.runner.agent.lines import LineReader
from acode.runner.agent.wording import KNOWN, failure_text, is_error, wording

RESULT_CHARACTERS: Final = 20_000
"""The last words of an agent are kept so far."""


class AgentStream:
    """Fed with bytes in pieces of any size, it gives back what belongs into the log."""

    def __init__(self, format_: AgentFormat = AgentFormat.AUTO) -> None:
        self._format = format_
        self._lines = LineReader()
        self._limit: UsageLimit | None = None
        self.run = AgentRun()
        self.trouble = ""
        """The service's own word for what is wrong at the moment."""
        self.speaks_events = format_ is AgentFormat.STREAM_JSON
        """Whether it has shown that it reports in events, so that its result is due."""
        self.has_result = False

    def feed(self, data: bytes, now: int) -> bytes:
        """What has come, as lines for the log. Text passes as it is, a half event waits."""
        if self._format is AgentFormat.TEXT:
            return data
        return b"".join(self._read(line, now) for line in self._lines.feed(data))

    def close(self, now: int) -> bytes:
        """What came last and without a line end."""
        rest = self._lines.rest()
        return self._read(rest, now) if rest else b""

    def _read(self, line: bytes, now: int) -> bytes:
        event = event_of(line)
        if event is None or event["type"] not in KNOWN:
            return line + b"\n"
        self.speaks_events = True
        self._learn(event, now)
        return b"".join(_printable(words) for words in wording(event))

    def _learn(self, event: Event, now: int) -> None:
        session = text(event, "session_id") or self.run.session_id
        self.run = replace(self.run, session_id=session)
        match event["type"]:
            case "system":
                self.run = replace(self.run, model=text(event, "model") or self.run.model)
            case "rate_limit_event":
                self._limit = limit_of(event)
            case "assistant" | "user":
                # Another turn has begun; its result is still to come.
                self.has_result = False
                self.trouble = text(event, "error")
            case "result":
                self._finish(event, now)

    def _finish(self, event: Event, now: int) -> None:
        turns, took = number(event, "num_turns"), number(event, "duration_ms")
        failed = is_error(event)
        words = failure_text(event) if failed else text(event, "result")
        self.has_result = True
        self.run = replace(
            self.run,
            turns=None if turns is None else round(turns),
            cost_usd=number(event, "total_cost_usd"),
            duration_ms=None if took is None else round(took),
            is_error=failed,
            result=words[:RESULT_CHARACTERS] or None,
            limit=self._reached(words, now) if failed else None,
        )

    def _reached(self, words: str, now: int) -> UsageLimit | None:
        """Why the run failed, if it was a limit: the service says so, or the message does."""
        told = limit_in(words, now)
        if self._limit is not None:
            return replace(self._limit, message=told.message) if told else self._limit
        if told is None and self.trouble == "rate_limit":
            return UsageLimit(words[:300])
        return told


def _printable(words: str) -> bytes:
    """One line whatever was in it: half characters, and ends of lines that are not ours."""
    return words.replace("\r", " ").replace("\n", " ").encode("utf-8", "replace") + b"\n"
