from acode.engine.monitor import WINDOW_SECONDS, Watched, with_peak
from acode.engine.roster import Peak, Roster
from acode.model.ending import Exited, Usage
from acode.model.task import Mode
from acode.observe.events import Events
from acode.runner.usage import TreeUse
from acode.worker.messages import Ended


def use(cpu_seconds: float, memory: int = 0) -> TreeUse:
    return TreeUse(cpu_seconds, 0, memory, ())


def test_a_share_of_the_processor_is_a_difference_over_the_window() -> None:
    watched = Watched()
    for second in range(20):
        watched.see("t", use(second * 0.5), float(second))
    assert watched.cpu_percent() == 50.0
    # What was long ago is forgotten.
    for second in range(20, 30):
        watched.see("t", use(10.0), float(second))
    assert watched.cpu_percent() == 0.0


def test_one_sample_says_nothing_yet() -> None:
    watched = Watched()
    watched.see("t", use(1000.0), 0.0)
    assert watched.cpu_percent() == 0.0
    assert watched.latest_cpu_percent() == 0.0
    assert watched.lasting_cpu_percent() is None


def test_an_attempt_is_judged_by_its_own_time_only() -> None:
    watched = Watched()
    for second in range(10):
        watched.see("one", use(second), float(second))
    assert watched.lasting_cpu_percent() == 100.0
    watched.told.add("cpuPercent")
    for second in range(10, 10 + int(WINDOW_SECONDS)):
        watched.see("two", use(9 + (second - 9) * 0.1), float(second))
        assert watched.lasting_cpu_percent() is None
    assert watched.told == set()
    watched.see("two", use(9.7), 16.0)
    assert watched.lasting_cpu_percent() is not None


def test_a_peak_is_that_of_its_attempt() -> None:
    watched = Watched()
    watched.see("one", use(0, 500), 0.0)
    watched.see("one", use(0, 100), 1.0)
    assert watched.peak_bytes == 500
    watched.see("two", use(0, 200), 2.0)
    assert watched.peak_bytes == 200


def test_what_was_seen_counts_only_for_workers_that_cannot_count() -> None:
    slot = Roster(Events()).add("w", Mode.PROCESS)
    ended = Ended(
        task_id="t", token="k", number=1, ending=Exited(0), ended_at=0, usage=Usage(1, 100)
    )
    slot.peak = Peak("k", 500)
    assert with_peak(slot, ended).usage == Usage(1, 500)
    slot.peak = Peak("other", 500)
    assert with_peak(slot, ended).usage == Usage(1, 100)
    slot.peak, slot.counts = Peak("k", 500), True
    assert with_peak(slot, ended).usage == Usage(1, 100)
