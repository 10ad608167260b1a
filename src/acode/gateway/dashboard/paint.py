"""Pieces of HTML, made of facts. Whatever comes from outside is escaped here and nowhere else."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

from acode.clock import from_iso, iso
from acode.human import ago, number, size, span
from acode.model.state import Status, WorkerStatus
from acode.model.task import Task
from acode.views import View, label

_TONES = {
    Status.RUNNING: "busy", Status.COMPLETED: "good", Status.FAILED: "bad",
    WorkerStatus.BUSY: "busy", WorkerStatus.IDLE: "good", WorkerStatus.CRASHED: "bad",
    WorkerStatus.STARTING: "warn", WorkerStatus.STOPPING: "warn", Status.BLOCKED: "warn",
    "healthy": "good", "degraded": "warn", "unhealthy": "bad", "open": "bad", "halfOpen": "warn",
    "error": "bad", "assigned": "busy",
}  # fmt: skip
_SGR = re.compile(r"\x1b\[([0-9;]*)m")
_OTHER = re.compile(r"\x1b\[[0-9;?]*[A-Za-ln-z]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[@-Z\\-_]")
_COLOURS = ("#6b7684", "#ff8a80", "#8fd694", "#f4d06f", "#8ab4ff", "#d7a6ff", "#7fdbda", "#e6edf3")
MAX_DIFF_LINES = 5_000
MANY_WORKERS = 24


def tone(word: str) -> str:
    """How a status looks; never the only sign of it."""
    return _TONES.get(word, "")


def badge(word: str) -> str:
    """A status."""
    return f'<span class="badge {tone(word)}">{escape(str(word))}</span>'


def moment(text: str | None, now: int) -> str:
    """When, as people say it, and exactly for those who point at it."""
    if text is None:
        return "-"
    return f'<time datetime="{text}" title="{text}">{ago(from_iso(text), now)}</time>'


class Tile(NamedTuple):
    """A number at a glance."""

    name: str
    value: str
    more: str
    tone: str = ""
    link: str = ""


def tiles(found: Iterable[Tile]) -> str:
    """Numbers at a glance."""
    cells = (
        f'<div class="tile {each.tone}"><dt>{_linked(each)}</dt><dd>{escape(each.value)} '
        f"<small>{escape(each.more)}</small></dd></div>"
        for each in found
    )
    return f'<dl class="tiles">{"".join(cells)}</dl>'


def _linked(tile: Tile) -> str:
    name = escape(tile.name)
    return f'<a href="{tile.link}">{name}</a>' if tile.link else name


def worker_cards(
    workers: Sequence[View], tasks: Mapping[str, Task], now: int, *, several: bool
) -> str:
    """The workers as a grid, with their host where there are several; many have small cards."""
    look = "workers many" if len(workers) > MANY_WORKERS else "workers"
    cards = (
        _worker(each, tasks.get(each["currentTaskId"] or ""), now, each["host"] if several else "")
        for each in workers
    )
    return f'<ul class="{look}">{"".join(cards)}</ul>'


def _worker(worker: View, task: Task | None, now: int, host: str) -> str:
    used, id_ = worker["resources"], worker["currentTaskId"]
    doing = "waits for a task"
    if id_:
        name = label(task.spec)[:80] if task else id_
        since = f"<small>{span(max(0, now - (task.started_at or now)))}</small>" if task else ""
        doing = f'<a href="/tasks/{id_}">{escape(name)}</a>{since}'
    share = min(100, round(used["cpuPercent"]))
    return (
        f'<li class="worker {tone(worker["status"])}">'
        f'<header><code title="worker-{worker["id"]}">'
        f"{worker['id'][-8:]}</code>{escape(host)}{badge(worker['status'])}</header>"
        f'<p class="doing">{doing}</p><i class="meter" style="--share:{share}%"></i>'
        f'<p class="figures"><span>{used["cpuPercent"]:.0f} % cpu</span>'
        f"<span>{size(round(used['memoryBytes']))}</span>"
        f"<span>{worker['tasksCompleted']:,} done</span>"
        f"<span>{worker['tasksFailed']:,} failed</span></p></li>"
    )


def task_table(tasks: Sequence[Task], now: int) -> str:
    """Tasks as rows; each leads to its page."""
    rows = "".join(_task_row(task, now) for task in tasks)
    return (
        '<div class="scroll"><table class="list"><thead><tr><th scope="col">Task</th>'
        '<th scope="col">Status</th><th scope="col" class="hide">Priority</th>'
        '<th scope="col" class="hide">Workstream</th><th scope="col" class="hide">Attempts</th>'
        '<th scope="col" class="hide">Took</th><th scope="col">Created</th></tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def _task_row(task: Task, now: int) -> str:
    spec = task.spec
    took = "-"
    if task.started_at is not None:
        took = span(max(0, (task.completed_at or now) - task.started_at))
    return (
        f'<tr><td class="what"><a href="/tasks/{task.id}" title="{task.id}">'
        f"{escape(label(spec)[:200])}</a></td><td>{badge(task.status)}</td>"
        f'<td class="quiet hide">{spec.priority}</td>'
        f'<td class="quiet hide">{escape(spec.workstream_id or "-")}</td>'
        f'<td class="quiet hide">{task.attempt_count}</td><td class="quiet hide">{took}</td>'
        f'<td class="quiet">{ago(task.created_at, now)}</td></tr>'
    )


def facts(pairs: dict[str, str | None]) -> str:
    """Names and values; what is nothing is left out. Values are HTML."""
    rows = (f"<dt>{escape(name)}</dt><dd>{value}</dd>" for name, value in pairs.items() if value)
    return f'<dl class="facts">{"".join(rows)}</dl>'


def timeline(view: View, now: int) -> str:
    """Moves and attempts of a task in one line of time."""
    items = [
        (
            move["at"],
            tone(move["to"]),
            f"<b>{escape(move['to'])}</b> {escape(move['reason'])}"
            f"<small>{moment(move['at'], now)} by {escape(move['actor'])}</small>",
        )
        for move in view["history"]
    ]
    items += [
        (
            attempt["endedAt"],
            "",
            f"attempt {attempt['number']}: {escape(ending(attempt))}{_usage(attempt)}",
        )
        for attempt in view["attempts"]
        if attempt["endedAt"]
    ]
    cells = (f'<li class="{look}">{words}</li>' for _, look, words in sorted(items, key=_when))
    return f'<ol class="timeline">{"".join(cells)}</ol>'


def _when(item: tuple[str, str, str]) -> str:
    return item[0]


def ending(attempt: View) -> str:
    """How an attempt ended, in words."""
    words = [str(attempt["ending"])]
    if attempt["exitCode"] is not None:
        words.append(f"with {attempt['exitCode']}")
    if attempt["signal"] is not None:
        words.append(f"by signal {attempt['signal']}")
    if attempt["oom"]:
        words.append("(out of memory)")
    return " ".join(words)


def _usage(attempt: View) -> str:
    usage = attempt["usage"]
    if not usage:
        return ""
    cpu, memory = span(round(usage["cpuSeconds"] * 1000)), size(usage["maxMemoryBytes"])
    return f"<small>{cpu} of processor time, {memory} of memory</small>"


def log_line(record: Any, search: str) -> str:
    """One line of a log, with its colours, and with what was looked for marked."""
    kind = {"stderr": "err", "system": "sys"}.get(record.stream, "")
    clock, text = (iso(record.at) or "")[11:19], marked(ansi(record.text), search)
    return f'<div class="{kind}"><time>{clock}</time><span>{text}</span></div>'


def ansi(text: str) -> str:
    """Terminal colours as HTML; whatever else moves a cursor is left out."""
    parts = _SGR.split(_OTHER.sub("", text))
    out, is_open = [], False
    for index, part in enumerate(parts):
        if index % 2 == 0:
            out.append(escape("".join(c for c in part if c.isprintable() or c == "\t")))
            continue
        if is_open:
            out.append("</span>")
        style = _style(part)
        is_open = bool(style)
        if style:
            out.append(f'<span style="{style}">')
    return "".join(out) + ("</span>" if is_open else "")


def _style(codes: str) -> str:
    found = []
    for code in codes.split(";"):
        value = int(code or 0) if len(code) < 4 else 0
        if value == 1:
            found.append("font-weight:700")
        elif 30 <= value <= 37 or 90 <= value <= 97:
            found.append(f"color:{_COLOURS[value % 10]}")
    return ";".join(found)


def marked(html: str, search: str) -> str:
    """Mark what was looked for, outside of tags."""
    if not search:
        return html
    pattern = re.compile(re.escape(escape(search)), re.IGNORECASE)
    parts = re.split(r"(<[^>]*>)", html)
    return "".join(
        part if index % 2 else pattern.sub(lambda m: f"<mark>{m[0]}</mark>", part)
        for index, part in enumerate(parts)
    )


def diff(text: str) -> str:
    """A patch with its lines told apart, by their first letter and by colour."""
    lines, more = text.splitlines(), 0
    if len(lines) > MAX_DIFF_LINES:
        lines, more = lines[:MAX_DIFF_LINES], len(lines) - MAX_DIFF_LINES
    shown = "".join(
        f'<span class="{kind}">{escape(line) or " "}</span>' for kind, line in _kinds(lines)
    )
    rest = f'<span class="hunk">… {more:,} more lines</span>' if more else ""
    return f'<pre class="diff" tabindex="0" aria-label="changes">{shown}{rest}</pre>'


def diff_size(text: str) -> str:
    """How much a patch changes, in words."""
    count = Counter(kind for kind, _ in _kinds(text.splitlines()))
    return f"{number(count['file'], 'file')}, +{count['add']:,} -{count['del']:,} lines"


def _kinds(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Each line with what it is. What a file holds may look like a heading, so place matters."""
    inside = False
    for line in lines:
        if line.startswith("diff --git "):
            inside = False
            yield "file", line
        elif line.startswith("@@"):
            inside = True
            yield "hunk", line
        elif inside:
            yield {"+": "add", "-": "del"}.get(line[:1], ""), line
        else:
            yield "meta", line
