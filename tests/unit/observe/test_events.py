from acode.model.event import PoolEvent, PoolNote, WorkerStopped
from acode.observe.events import Events

NOTE, STOPPED = PoolNote("info", "hello"), WorkerStopped("01JWORKER")


def test_who_hears_no_more_is_not_told_and_nothing_is_stated_for_nobody() -> None:
    events = Events()
    heard: list[PoolEvent] = []
    events.subscribe(heard.append, PoolNote)
    events.emit(NOTE)
    events.emit(STOPPED)
    assert heard == [NOTE]
    assert [events.is_heard(kind) for kind in (PoolNote, WorkerStopped)] == [True, False]
    events.unsubscribe(heard.append)
    events.emit(NOTE)
    assert heard == [NOTE]
    assert not events.is_heard(PoolNote)


def test_a_listener_that_fails_is_not_told_again_and_others_are() -> None:
    events = Events()
    heard: list[PoolEvent] = []
    told = 0

    def fail(_event: PoolEvent) -> None:
        nonlocal told
        told += 1
        raise ZeroDivisionError

    events.subscribe(fail)
    events.subscribe(heard.append)
    events.emit(NOTE)
    events.emit(STOPPED)
    assert (told, heard) == (1, [NOTE, STOPPED])
