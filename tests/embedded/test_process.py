"""Handler processes: what kills them, what hangs in them, and what they must not leave behind."""

import asyncio
import ctypes
import faulthandler
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

import psutil
import pytest

import acode
from tests.embedded.conftest import Bench, Program, note, until


def is_gone(number: int) -> bool:
    """Whether it has ended; an orphan's new parent may be slow to take notice."""
    try:
        return psutil.Process(number).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@acode.handler("pid")
def pid(ctx: acode.SyncContext) -> int:
    return os.getpid()


@acode.handler("die")
def die(ctx: acode.SyncContext, path: str, how: str, times: int = 1) -> str:
    note(path, how)
    if ctx.attempt <= times:
        if how == "exit":
            os._exit(3)
        if how == "segfault":
            faulthandler.disable()  # pytest's; nobody wants to read it
            ctypes.string_at(0)
        os.kill(os.getpid(), signal.SIGKILL)
    return "alive"


@pytest.mark.parametrize("how", ["exit", "segfault", "kill"])
async def test_a_task_whose_process_dies_is_tried_again(process: Bench, how: str) -> None:
    async with process.pool(workers=1) as pool:
        handle = await pool.submit(die, process.path("x"), how)
        behind = await pool.submit_many(pid, [()] * 5)
        assert await handle.result(timeout=60) == "alive"
        await asyncio.gather(*(one.result(timeout=60) for one in behind))
        task = await pool.get(handle.id)
        assert task.attempt_count == 2
        assert task.attempts[0].error is not None
        assert task.attempts[0].error.code == "WORKER_CRASH"
        assert {(await pool.get(one.id)).attempt_count for one in behind} == {1}


async def test_a_task_that_always_kills_its_process_is_set_aside(process: Bench) -> None:
    async with process.pool(workers=1) as pool:
        handle = await pool.submit(die, process.path("x"), "exit", 100, retries=50)
        with pytest.raises(acode.TaskFailed, match="died"):
            await handle.result(timeout=60)
        assert "killed its worker 3 times" in (await pool.get(handle.id)).history[-1].reason
        assert len(process.lines("x")) == 3
        assert await (await pool.submit(pid)).result(timeout=60)


@acode.handler("deadlock")
def deadlock(ctx: acode.SyncContext) -> None:
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


@acode.handler("deaf")
def deaf(ctx: acode.SyncContext, path: str) -> None:
    """Cannot be interrupted: it swallows everything."""
    note(path, str(os.getpid()))
    while True:
        try:
            time.sleep(3600)
        except BaseException:
            note(path, "not listening")


@acode.handler("recursion")
def recursion(ctx: acode.SyncContext) -> Any:
    return recursion(ctx)


async def test_a_deadlock_ends_with_the_time_of_the_attempt(process: Bench) -> None:
    async with process.pool(workers=1) as pool:
        handle = await pool.submit(deadlock, timeout=0.2, retries=0)
        with pytest.raises(acode.TaskTimeout):
            await handle.result(timeout=60)
        assert await (await pool.submit(pid)).result(timeout=60)


async def test_a_handler_that_does_not_listen_is_killed(
    process: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("acode.embedded.process.GRACE", 0.1)
    async with process.pool(workers=1) as pool:
        handle = await pool.submit(deaf, process.path("x"), timeout=0.2, retries=0)
        with pytest.raises(acode.TaskTimeout):
            await handle.result(timeout=60)
        assert await (await pool.submit(pid)).result(timeout=60) != int(process.lines("x")[0])


async def test_endless_recursion_is_an_error_like_any_other(process: Bench) -> None:
    async with process.pool(workers=1) as pool:
        handle = await pool.submit(recursion)
        with pytest.raises(acode.TaskFailed) as caught:
            await handle.result(timeout=60)
        assert isinstance(caught.value.__cause__, RecursionError)


@pytest.mark.req("lld-20")
async def test_a_process_that_stalls_is_noticed_and_replaced(process: Bench) -> None:
    async with process.pool(workers=1, stall_timeout=0.4) as pool:
        events = pool.events()
        stalled = await (await pool.submit(pid)).result()
        os.kill(stalled, signal.SIGSTOP)
        handle = await pool.submit(pid)
        assert await handle.result(timeout=60) != stalled
        told = [event async for event in _until_stopped(pool, events)]
    (event,) = [event for event in told if event.type == "worker.stalled"]
    assert event.payload["silentMs"] >= 300
    assert event.payload["taskId"] == handle.id


async def _until_stopped(pool: acode.Pool, events: Any) -> Any:
    await pool.stop()
    async for event in events:
        yield event


@acode.handler("silent")
async def silent(ctx: acode.Context, seconds: float) -> None:
    await asyncio.sleep(seconds)


@pytest.mark.req("lld-20")
async def test_an_inline_worker_that_is_silent_is_noticed(inline: Bench) -> None:
    async with inline.pool(stall_timeout=0.1) as pool:
        events = pool.events()
        quick = await pool.submit(silent, 0)
        handle = await pool.submit(silent, 0.5)
        await asyncio.gather(quick.result(), handle.result())
        told = [event async for event in _until_stopped(pool, events)]
    stalled = [event.payload["taskId"] for event in told if event.type == "worker.stalled"]
    assert stalled == [handle.id]


@acode.handler("block")
async def block(ctx: acode.Context, path: str) -> None:
    note(path, "began")
    time.sleep(0.8)  # noqa: ASYNC251 -- the mistake that is to be noticed


@pytest.mark.req("lld-20")
async def test_a_handler_that_blocks_the_event_loop_is_noticed_while_it_does(
    inline: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    async with inline.pool(stall_timeout=0.2) as pool:
        events = pool.events()
        handle = await pool.submit(block, inline.path("x"))
        await handle.result()
        told = [event async for event in _until_stopped(pool, events)]
    assert "the event loop is blocked" in caplog.text
    assert "in block" in caplog.text, "the log shows where"
    notes = [event.payload["message"] for event in told if event.type == "pool.note"]
    assert any("blocked the event loop" in message for message in notes)


@acode.handler("spawn")
def spawn(ctx: acode.SyncContext, path: str) -> None:
    """Starts a process that would live on, and dies."""
    child = os.fork()
    if child == 0:
        os.setsid()
        note(path, str(os.getpid()))
        time.sleep(3600)
    while not os.path.exists(path):
        time.sleep(0.005)
    os._exit(1)


async def test_what_a_handler_left_behind_ends_with_its_process(process: Bench) -> None:
    async with process.pool() as pool:
        handle = await pool.submit(spawn, process.path("x"), retries=0)
        with pytest.raises(acode.TaskFailed):
            await handle.result(timeout=60)
        orphan = int(process.lines("x")[0])
        await until(lambda: not psutil.pid_exists(orphan))


async def test_workers_are_copies_of_a_quiet_template_not_of_a_busy_program(
    process: Bench,
) -> None:
    """Threads that hold locks when a worker is started again cannot harm it."""
    lock = threading.Lock()

    @acode.handler("take-the-lock")
    def take_the_lock(ctx: acode.SyncContext) -> str:
        with lock:
            return "taken"

    async with process.pool(workers=1) as pool:
        with lock:  # from now on every fork of the program itself would inherit it taken
            died = await pool.submit(die, process.path("x"), "exit")
            await died.result(timeout=60)
            assert await (await pool.submit(take_the_lock)).result(timeout=60) == "taken"


async def test_a_template_that_is_killed_is_made_anew(process: Bench) -> None:
    async with process.pool(workers=2) as pool:
        before = {await (await pool.submit(pid)).result() for _ in range(4)}
        (template,) = {psutil.Process(each).ppid() for each in before}
        os.kill(template, signal.SIGKILL)
        handle = await pool.submit(die, process.path("x"), "exit")
        assert await handle.result(timeout=60) == "alive"
        after = {await (await pool.submit(pid)).result() for _ in range(4)}
        await pool.stop()
        await until(lambda: all(map(is_gone, {*before, *after})))
        assert not psutil.pid_exists(template)


@acode.handler("wait-for-a-file")
def wait_for_a_file(ctx: acode.SyncContext, path: str) -> None:
    note(f"{path}.began", "")
    while not os.path.exists(path):
        time.sleep(0.005)


async def warm(pool: acode.Pool) -> None:
    """Short tasks, until workers have several at once in their hands."""
    while pool._heart is None or pool._heart.crew.lanes.most < 4:
        handles = await pool.submit_many(pid, [()] * 50)
        await asyncio.gather(*(handle.result(timeout=60) for handle in handles))


async def test_nothing_waits_behind_an_attempt_that_takes_long(on_disk: Bench) -> None:
    async with on_disk.pool(workers=2) as pool:
        await warm(pool)
        slow = await pool.submit(wait_for_a_file, on_disk.path("go"))
        quick = await pool.submit_many(pid, [()] * 60)
        await asyncio.gather(*(handle.result(timeout=60) for handle in quick))
        assert {(await pool.get(handle.id)).attempt_count for handle in quick} == {1}
        (on_disk.place / "go").touch()
        await slow.result(timeout=60)


async def test_what_waits_with_a_worker_that_dies_is_not_blamed(process: Bench) -> None:
    async with process.pool(workers=1) as pool:
        await warm(pool)
        handles = await pool.submit_many(pid, [()] * 5)
        died = await pool.submit(die, process.path("x"), "exit")
        handles += await pool.submit_many(pid, [()] * 20)
        assert await died.result(timeout=60) == "alive"
        await asyncio.gather(*(handle.result(timeout=60) for handle in handles))
        assert {len((await pool.get(handle.id)).attempts) for handle in handles} == {1}
        assert (await pool.get(died.id)).attempt_count == 2


async def test_stop_releases_what_has_not_begun(on_disk: Bench) -> None:
    pool = acode.Pool(workers=1, store=on_disk.url, isolation=on_disk.kind.isolation)  # type: ignore[arg-type]
    await pool.start()
    await warm(pool)
    slow = await pool.submit(wait_for_a_file, on_disk.path("go"))
    await until(lambda: on_disk.lines("go.began"))
    waiting = await pool.submit_many(pid, [()] * 30)
    await asyncio.sleep(0.05)
    stopping = asyncio.create_task(pool.stop(timeout=60))
    (on_disk.place / "go").touch()
    await stopping
    assert await slow.result() is None
    async with on_disk.pool() as again:
        for handle in waiting:
            await again.handle(handle.id).result(timeout=60)
            assert (await again.get(handle.id)).attempt_count == 1


@acode.handler("bind")
def bind(ctx: acode.SyncContext, port: int) -> str:
    """Whether somebody listens at the port when the program itself has closed it."""
    with socket.socket() as wire:
        try:
            wire.connect(("127.0.0.1", port))
        except ConnectionRefusedError:
            return "refused"
        return "connected"


async def test_workers_do_not_keep_the_ports_of_the_program(process: Bench) -> None:
    listener = socket.create_server(("127.0.0.1", 0))
    async with process.pool(workers=1) as pool:
        port = listener.getsockname()[1]
        assert await (await pool.submit(bind, port)).result() == "connected"
        listener.close()
        assert await (await pool.submit(bind, port)).result() == "refused"


PROGRAM = """
    import asyncio, os, signal, sys, time
    import acode

    @acode.handler("work")
    def work(ctx, seconds):
        open("began", "a").write(f"{os.getpid()}\\n")
        time.sleep(seconds)
        open("ended", "a").write("ended\\n")
        return os.getpid()

    async def main():
        store = "sqlite:///queue.db"
        if sys.argv[2] == "serve":
            pool = acode.Pool(store=store, isolation=sys.argv[1])
            await pool.start()
            serving = asyncio.create_task(pool.serve())
            await asyncio.sleep(0)  # it hears signals from here on
            await pool.submit(work, 0.5)
            await serving
        else:
            async with acode.Pool(store=store, isolation=sys.argv[1]) as pool:
                handle = await pool.submit(work, float(sys.argv[3]))
                open("submitted", "a").write("yes\\n")
                await handle.result()
        print("done")

    asyncio.run(main())
"""


@pytest.mark.parametrize("isolation", ["inline", "process"])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_lets_a_serving_program_finish_what_runs(
    program: Callable[[str], Program], isolation: str, number: int
) -> None:
    one = program(PROGRAM)
    running = one.start(isolation, "serve")
    wait_for(lambda: one.lines("began"))
    running.send_signal(number)
    out, err = running.communicate(timeout=60)
    assert (running.returncode, out, err) == (0, "done\n", "")
    assert one.lines("ended") == ["ended"]
    wait_for(lambda: not one.processes())


@pytest.mark.parametrize("isolation", ["inline", "process"])
def test_ctrl_c_stops_the_pool_on_the_way_out(
    program: Callable[[str], Program], isolation: str
) -> None:
    one = program(PROGRAM)
    running = one.start(isolation, "run", "0.5")
    wait_for(lambda: one.lines("began") and one.lines("submitted"))
    running.send_signal(signal.SIGINT)
    _, err = running.communicate(timeout=60)
    assert running.returncode != 0
    assert "KeyboardInterrupt" in err
    assert one.lines("ended") == ["ended"], "what ran was let finish"
    wait_for(lambda: not one.processes())


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_program_that_is_ended_leaves_no_process(
    program: Callable[[str], Program], number: int
) -> None:
    one = program(PROGRAM)
    running = one.start("process", "run", "3600")
    wait_for(lambda: one.lines("began"))
    assert len(one.processes()) > 3
    running.send_signal(number)
    running.communicate(timeout=60)
    wait_for(lambda: not one.processes())


def wait_for(condition: Callable[[], Any]) -> None:
    asyncio.run(until(condition))
