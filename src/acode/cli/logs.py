"""`acode worker logs`, `acode worker attach` and `acode task logs`.

All of them only read files that workers write. A slow terminal, a full pipe or a stopped reader
never slows a worker.
"""

import os
import re
import sys
from argparse import Action, Namespace
from collections.abc import Iterator
from contextlib import closing, contextmanager
from time import sleep
from typing import TextIO

from acode.cli.context import Context, drive
from acode.cli.elsewhere import followed, holder, printed, record_of, refuse_elsewhere
from acode.cli.logs_format import FORMATS, Line, Look, line_of, moment_of
from acode.cli.parser import Parser, add_id, completes_ids, whole_number
from acode.errors import AlreadyThere, AmbiguousId, WorkerNotFound
from acode.human import number
from acode.ids import normalise
from acode.model.state import FINISHED
from acode.observe.logformat import LEVELS
from acode.observe.logparse import LINE_BYTES, Record
from acode.observe.logread import Tail, follow
from acode.observe.multiplex import Multiplexer, Source, Wanted, worker_source
from acode.project import Project

_WORKER_LOG = re.compile(r"worker-(.+?)\.log(?:\.\d+(?:\.gz)?)?")
SINCE = "only what came since so long ago (30s, 5m, 1h, 2d) or since an ISO time"


def worker_logs_arguments(parser: Parser) -> None:
    """What `worker logs` takes."""
    _completes_workers(
        parser.add_argument(
            "worker", metavar="WORKER", nargs="?", help="a worker id or a unique prefix; else all"
        )
    )
    _add_common(parser, "go on with what comes, until Ctrl-C")
    completes_ids(parser.add_argument("--task", metavar="ID", help="only what this task said"))
    parser.add_argument("--level", choices=LEVELS, default=LEVELS[0], help="this one and worse")
    parser.add_argument("--export", metavar="FILE", help="write to a new file instead")


def attach_arguments(parser: Parser) -> None:
    """What `worker attach` takes."""
    _completes_workers(
        parser.add_argument("worker", metavar="WORKER", help="a worker id or a unique prefix")
    )


def task_logs_arguments(parser: Parser) -> None:
    """What `task logs` takes."""
    add_id(parser)
    _add_common(parser, "go on with what comes, until the task is finished")
    parser.add_argument("--attempt", type=whole_number(1), metavar="N", help="only this attempt")


def _add_common(parser: Parser, follow_help: str) -> None:
    parser.add_argument("--follow", action="store_true", help=follow_help)
    parser.add_argument("--format", choices=FORMATS, help="how lines look")
    parser.add_argument("--since", metavar="WHEN", help=SINCE)


def worker_logs(context: Context) -> int:
    """Print what workers and their commands said, as one stream."""
    args, app = context.args, context.app
    worker_id = args.worker and _worker_here(context, args.worker)
    wanted = Wanted(
        since=_since(context),
        level=args.level,
        worker_id=worker_id,
        task_id=args.task and context.resolve(app.reader(), args.task),
    )
    _allow_many_files()
    mux = Multiplexer(lambda: _sources(app.project, worker_id), wanted)
    line = _line(context, _usual_format(context))
    with closing(mux), _destination(context) as output:
        for record in mux.follow(app.clock, output.rest) if args.follow else mux.read():
            output.write(line(record))
    return 0


def _since(context: Context) -> int:
    text = context.args.since
    return 0 if text is None else moment_of(text, context.app.clock.now())


def _usual_format(context: Context) -> str:
    return "colored" if context.screen.terminal and not context.args.export else "plain"


def _line(context: Context, usual: str) -> Line:
    screen, args = context.screen, context.args
    name = "json" if screen.json else args.format or usual
    terminal = screen.terminal and not getattr(args, "export", None)
    return line_of(name, Look(terminal, screen.colour))


def _sources(project: Project, worker_id: str | None) -> list[Source]:
    ids = worker_ids(project) if worker_id is None else [worker_id]
    return [worker_source(project.worker_log(each), each) for each in ids]


def _allow_many_files() -> None:
    """Every worker that ever was may have left a log."""
    import resource

    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


class Output:
    """Where lines go."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.lines = 0

    def write(self, line: str) -> None:
        """Write one line."""
        self._stream.write(line)
        self.lines += 1

    def rest(self, seconds: float) -> None:
        """Let the reader have what was written, and wait."""
        self._stream.flush()
        sleep(seconds)


@contextmanager
def _destination(context: Context) -> Iterator[Output]:
    """The screen, or the new file that was asked for."""
    path = context.args.export
    if path is None:
        output = Output(sys.stdout)
        yield output
        if not output.lines:
            context.screen.note("nothing was said")
        return
    with _new_file(path) as file:
        output = Output(file)
        try:
            yield output
        finally:
            context.screen.said(f"{number(output.lines, 'line')} written to {path}")


def _new_file(path: str) -> TextIO:
    try:
        return open(path, "x", encoding="utf-8")
    except FileExistsError:
        raise AlreadyThere(f"{path} is there already") from None


def attach(context: Context) -> int:
    """Print what a worker's command prints from now on. Ctrl-C ends only the looking."""
    worker_id = _worker_here(context, context.args.worker)
    tail = Tail(context.app.project.worker_log(worker_id), from_end=True, line_bytes=0)
    with closing(tail):
        try:
            context.screen.note(f"attached to worker-{worker_id}; Ctrl-C detaches")
            for record in follow(tail, lambda: False):
                _relay(context, record)
        except KeyboardInterrupt:
            return 0
    return 0


def _relay(context: Context, record: Record) -> None:
    """Pass output on to the stream that it was meant for."""
    if record.stream == "system":
        context.screen.note(f"acode: {record.text}")
        return
    stream = sys.stdout if record.stream == "stdout" else sys.stderr
    end = "" if record.more else "\n"
    if stream.isatty():
        look = Look(terminal=True, colour=context.screen.colour)
        stream.write(look.text(record, keep="\t\r") + end)
    else:
        stream.buffer.write(record.message + end.encode())
    stream.flush()


def task_logs(context: Context) -> int:
    """Print what a task printed."""
    task_id = context.resolve(context.app.reader(), context.args.id)
    wanted = Wanted(since=_since(context), attempt=context.args.attempt)
    output = Output(sys.stdout)
    bare = not context.screen.json and context.args.format in (None, "plain")
    line = _line(context, "plain")
    for record in filter(wanted.fits, _task_records(context, task_id, wanted.since, output, bare)):
        if bare:
            _print_bare(context, record, output)
        else:
            output.write(line(record))
    if not (output.lines or context.args.follow):
        context.screen.note(f"task {task_id} has printed nothing")
    return 0


def _task_records(
    context: Context, task_id: str, since: int, output: Output, bare: bool
) -> Iterator[Record]:
    path, store = context.app.project.task_log(task_id), context.app.reader()

    def ended() -> bool:
        return drive(store.get(task_id)).status in FINISHED

    if not context.args.follow:
        yield from printed(context, task_id, since, context.args.attempt)
        return
    if context.app.settings.store.is_shared:
        record = record_of(context, task_id)
        if (host := holder(context, record)) is not None:
            yield from followed(context, record, host)
            return
    # Where only the output is printed, half a line is worth having.
    with closing(Tail(path, since=since, line_bytes=0 if bare else LINE_BYTES)) as tail:
        yield from follow(tail, ended, output.rest)


def _print_bare(context: Context, record: Record, output: Output) -> None:
    """Only what the command itself printed; what acode has to say of it goes to stderr."""
    screen = context.screen
    if record.stream == "system":
        screen.note(f"acode: {record.text}")
    else:
        text = Look(screen.terminal, screen.colour).text(record)
        output.write(text if record.more else f"{text}\n")


def worker_ids(project: Project) -> list[str]:
    """The workers that have left a log, the oldest first."""
    try:
        names = os.listdir(os.path.dirname(project.worker_log("")))
    except FileNotFoundError:
        return []
    return sorted({match[1] for match in map(_WORKER_LOG.fullmatch, names) if match})


def _worker_here(context: Context, text: str) -> str:
    """The worker that the user means, if it is on this machine."""
    try:
        return resolve_worker(context.app.project, text)
    except WorkerNotFound:
        refuse_elsewhere(context, normalise(text))
        raise


def resolve_worker(project: Project, text: str) -> str:
    """The worker that the user means: a whole id or a unique prefix, with `worker-` or without."""
    prefix = normalise(text)
    found = [each for each in worker_ids(project) if prefix and each.startswith(prefix)]
    if not found:
        raise WorkerNotFound(f"no worker has an id that begins with {text!r}")
    if len(found) > 1 and prefix not in found:
        raise AmbiguousId(f"more than one worker has an id that begins with {prefix}")
    return found[0]


def _completes_workers(action: Action) -> None:
    action.completer = _offer  # type: ignore[attr-defined]  # what argcomplete looks for


def _offer(prefix: str, parsed_args: Namespace, **_: object) -> list[str]:
    names = [f"worker-{each}" for each in worker_ids(Context(parsed_args).app.project)]
    return [name for name in names if name.startswith(prefix)]
