"""What tasks left on other hosts that share the queue, for commands that look at it here."""

from collections.abc import Iterator

from acode import peers
from acode.cli.context import Context, drive
from acode.cli.render import complain
from acode.errors import HostUnreachable
from acode.hosts import known_host_id
from acode.model.host import Host
from acode.model.task import Record
from acode.observe.logparse import Record as Line
from acode.observe.logread import read


def record_of(context: Context, task_id: str) -> Record:
    """Everything that the store knows of a task."""
    return drive(context.app.reader().record(task_id))


def own_id(context: Context) -> str | None:
    """Who we are among the hosts."""
    return known_host_id(context.app.project)


def holder(context: Context, record: Record) -> Host | None:
    """The host that has what the last attempt left; None if it is this one."""
    if not context.app.settings.store.is_shared:
        return None
    place = peers.last_place(record, own_id(context))
    return None if place is None else host_of(context, place)


def host_of(context: Context, host_id: str) -> Host:
    """A host that can be asked."""
    return peers.find(drive(context.app.reader().hosts()), host_id)


def printed(context: Context, task_id: str, since: int, number: int | None) -> Iterator[Line]:
    """Everything that a task printed, wherever that was; what cannot be read is told."""
    path = context.app.project.task_log(task_id)
    if not context.app.settings.store.is_shared:
        yield from read(path, since)
        return
    record = record_of(context, task_id)
    if number is not None:
        wanted = tuple(each for each in record.attempts if each.number == number)
        record = Record(record.task, wanted, ())
    found = peers.places(record, own_id(context))
    for place in found:
        if place is None:
            yield from read(path, since)
        elif len(found) == 1:
            yield from peers.log_lines(host_of(context, place), task_id)
        else:
            yield from _elsewhere(context, place, task_id)


def _elsewhere(context: Context, place: str, task_id: str) -> Iterator[Line]:
    try:
        yield from peers.log_lines(host_of(context, place), task_id)
    except HostUnreachable as error:
        complain(error)  # another host may have more


def followed(context: Context, record: Record, host: Host) -> Iterator[Line]:
    """What a task prints on another host, until it is finished; and then what it printed since."""
    task_id = record.task.id
    yield from peers.log_lines(host, task_id, follow=True)
    after = record_of(context, task_id)
    seen = {host.id, *(each.host_id for each in record.attempts)}
    later = tuple(each for each in after.attempts if each.host_id not in seen)
    for place in dict.fromkeys(each.host_id for each in later):
        if place == own_id(context):
            yield from read(context.app.project.task_log(task_id))
        elif place is not None:
            yield from _elsewhere(context, place, task_id)


def refuse_elsewhere(context: Context, prefix: str) -> None:
    """Say where a worker is that is not here; its log is there, too."""
    if not prefix or not context.app.settings.store.is_shared:
        return
    for state in drive(context.app.reader().hosts()):
        for worker in (state.pool or {}).get("workers", ()):
            if worker["id"].startswith(prefix) and state.host.id != own_id(context):
                raise HostUnreachable(
                    f"worker-{worker['id']} is on {state.host.name}",
                    "run this there; acode task logs reads what a task printed anywhere",
                )
