"""A server that goes away: what was acknowledged stays, what was not is told, and it goes on."""

import asyncio
import socket
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, suppress
from functools import partial
from typing import TypeVar

import pytest

from acode.clock import Deadline
from acode.errors import StoreRefused, StoreUnavailable
from acode.model.state import Status
from acode.model.task import Submission
from acode.model.verdict import Complete
from acode.store.postgres import PostgresStore
from tests.conformance.kit import PLENTY, assert_sound, report, submission, wish
from tests.postgres.server import Server, free_port

T = TypeVar("T")


async def add(store: PostgresStore, task: Submission | None = None) -> str:
    (added,) = await store.add([task or submission()], actor="user", queue_size=PLENTY)
    return added.id


async def eventually(call: Callable[[], Awaitable[T]]) -> T:
    """The answer, as soon as the server is back."""
    deadline = Deadline(30)
    while True:
        try:
            return await call()
        except StoreUnavailable:
            assert deadline.left() > 0
            await asyncio.sleep(0.02)


def test_a_server_that_is_down_at_the_start_is_named(own_server: Server) -> None:
    own_server.stop()
    with pytest.raises(StoreUnavailable) as trouble:
        PostgresStore.open(own_server.url().replace("postgres@", "postgres:geheim@"))
    assert f"127.0.0.1:{own_server.port}" in str(trouble.value)
    assert "geheim" not in str(trouble.value)


async def test_what_was_acknowledged_outlives_a_kill_and_the_store_goes_on(
    own_server: Server,
) -> None:
    store = PostgresStore.open(own_server.url())
    ids = await asyncio.gather(*[add(store) for _ in range(50)])
    (lease,) = await store.claim(wish())
    own_server.kill_hard()
    with pytest.raises(StoreUnavailable):
        await store.counts()
    with pytest.raises(StoreUnavailable):
        await store.claim(wish())
    own_server.start()
    await eventually(store.counts)
    await eventually(lambda: store.finish(report(lease, Complete(), 1)))
    counts = await store.counts()
    assert counts.by_status[Status.PENDING] == len(ids) - 1
    assert counts.by_status[Status.COMPLETED] == 1
    await assert_sound(store)
    await store.close()


async def test_a_restart_between_two_calls_is_not_noticed(own_server: Server) -> None:
    store = PostgresStore.open(own_server.url())
    task_id = await add(store)
    await store.get(task_id)
    own_server.stop()
    own_server.start()
    assert (await store.get(task_id)).id == task_id
    await add(store)
    await store.close()


async def test_a_line_that_is_cut_in_the_middle_costs_nothing(
    store: PostgresStore, server: Server
) -> None:
    """An administrator ends every connection again and again while tasks are added and run."""
    over = threading.Event()

    def cut() -> None:
        while not over.wait(0.02):
            server.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = 'acode'"
            )

    knife = threading.Thread(target=cut)
    knife.start()
    try:
        ids = [await eventually(partial(add, store, submission())) for _ in range(40)]
    finally:
        over.set()
        knife.join()
    await eventually(store.counts)
    tasks = [(await store.get(task_id)).status for task_id in ids]
    assert tasks == [Status.PENDING] * 40
    assert (await store.counts()).by_status[Status.PENDING] == len(set(ids))


class Line:
    """One connection: our end and the server's."""

    def __init__(self, near: socket.socket, far: socket.socket) -> None:
        self.near = near
        self.far = far
        self.is_deaf = False
        self.is_over = threading.Event()

    def close(self) -> None:
        for end in (self.near, self.far):
            with suppress(OSError):  # somebody may be reading: that alone keeps it open
                end.shutdown(socket.SHUT_RDWR)
            end.close()


SYNC = b"S\0\0\0\4"
"""What the last that we send of a transaction ends with."""


class Wire:
    """Between store and server; cuts the line when a commit has gone through, or before it does."""

    def __init__(self, port: int) -> None:
        self._server = port
        self.cut_after_commit = False
        self.cut_before_commit = False
        self._listener = socket.create_server(("127.0.0.1", free_port()))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._server))
            line = Line(near, far)
            for carry in (self._ask, self._answer):
                threading.Thread(target=carry, args=(line,), daemon=True).start()

    def _ask(self, line: "Line") -> None:
        with suppress(OSError):
            while data := line.near.recv(65536):
                if SYNC in data and self._bites(line, data):
                    break
                line.far.sendall(data)
        line.close()

    def _answer(self, line: "Line") -> None:
        with suppress(OSError):
            while data := line.far.recv(65536):
                if not line.is_deaf:  # else nobody hears the rest
                    line.near.sendall(data)
        line.is_over.set()
        line.close()

    def _bites(self, line: "Line", data: bytes) -> bool:
        if self.cut_before_commit:
            self.cut_before_commit = False
            return True
        if self.cut_after_commit:
            self.cut_after_commit = False
            line.is_deaf = True
            line.far.sendall(data)
            line.far.shutdown(socket.SHUT_WR)
            line.is_over.wait(30)  # until the server is done with what it got
            return True
        return False

    def close(self) -> None:
        self._listener.close()


@pytest.fixture
def wire(server: Server) -> Iterator[Wire]:
    with closing(Wire(server.port)) as one:
        yield one


@pytest.fixture
def cut_store(url: str, wire: Wire) -> PostgresStore:
    return PostgresStore.open(
        f"postgresql://postgres@127.0.0.1:{wire.port}/{url.rpartition('/')[2]}"
    )


@pytest.mark.parametrize("moment", ["cut_before_commit", "cut_after_commit"])
async def test_a_commit_whose_answer_is_lost_is_done_once(
    cut_store: PostgresStore, wire: Wire, moment: str
) -> None:
    await add(cut_store)
    setattr(wire, moment, True)
    await add(cut_store)
    assert (await cut_store.counts()).by_status[Status.PENDING] == 2
    setattr(wire, moment, True)
    first, second = await cut_store.claim(wish(2))
    setattr(wire, moment, True)
    await cut_store.finish(report(first, Complete(), 1))
    await cut_store.finish(report(second, Complete(), 1))
    assert (await cut_store.counts()).by_status[Status.COMPLETED] == 2
    assert not getattr(wire, moment)
    await assert_sound(cut_store)
    await cut_store.close()


async def test_a_server_that_only_reads_is_named(url: str, server: Server) -> None:
    store = PostgresStore.open(url)
    name = url.rpartition("/")[2]
    server.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")
    try:
        store._book._hang_up()
        with pytest.raises(StoreRefused, match="only lets us read"):
            await add(store)
    finally:
        server.execute(f"ALTER DATABASE {name} RESET default_transaction_read_only")
    await store.close()


async def test_an_addition_whose_answer_is_lost_is_not_told_as_there_before(
    cut_store: PostgresStore, wire: Wire
) -> None:
    for moment in ("cut_before_commit", "cut_after_commit"):
        setattr(wire, moment, True)
        (added,) = await cut_store.add([submission()], actor="user", queue_size=PLENTY)
        assert not added.existed
        assert not getattr(wire, moment)
    await assert_sound(cut_store)
    await cut_store.close()
