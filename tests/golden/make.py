"""Makes queue-NNNN.db: a store of the newest schema with tasks in every status.

Run once when a schema is released, and keep the file for ever: `python -m tests.golden.make`.
"""

import os
from pathlib import Path

from acode.clock import ManualClock
from acode.model.ending import Exited, TimedOut, Usage
from acode.model.priority import Priority
from acode.model.task import Lease, Result, Submission, TaskSpec
from acode.model.verdict import Cancel, Complete, Fail, Release, Report, RetryAt, Verdict
from acode.store.sqlite import SqliteStore
from acode.store.sqlite.connection import newest_version
from tests.conformance.kit import FAILURE, PLENTY, TIMEOUT, at_once, wish

HERE = Path(__file__).parent
HOUR = 3_600_000


class Maker:
    """A store that is filled step by step."""

    def __init__(self, path: Path) -> None:
        self.clock = ManualClock()
        self.store = SqliteStore.open(str(path), self.clock, grouped=False)
        self.made = 0

    def add(self, title: str, **spec: object) -> str:
        self.made += 1
        task_id = f"01HF7YAT00{self.made:016}"
        task = Submission(task_id, TaskSpec(command="true", title=title, **spec))  # type: ignore[arg-type]
        at_once(self.store.add([task], actor="user", queue_size=PLENTY))
        return task_id

    def lease(self) -> Lease:
        (lease,) = at_once(self.store.claim(wish()))
        return lease

    def finish(self, lease: Lease, verdict: Verdict) -> None:
        self.clock.advance(1000)
        report = Report(
            task_id=lease.task.id,
            token=lease.token,
            ending=TimedOut(1.0) if isinstance(verdict, RetryAt) else Exited(0),
            ended_at=self.clock.now(),
            verdict=verdict,
            usage=Usage(cpu_seconds=0.5, max_memory_bytes=1024),
        )
        at_once(self.store.finish(report))

    def step(self, lease: Lease, step: str, value: object) -> None:
        at_once(self.store.save_step(lease.task.id, lease.token, step, value))


def fill(maker: Maker) -> None:
    """One task for everything that can have happened to one."""
    maker.add("archived")
    maker.finish(maker.lease(), Complete(Result(exit_code=0)))
    maker.clock.advance(HOUR)
    at_once(maker.store.tidy(finished_before=maker.clock.now(), steps_before=0))
    completed = maker.add("completed", key="golden", metadata={"deep": [1, None]}, env={"A": "b"})
    maker.finish(maker.lease(), Complete(Result(exit_code=0, value={"ok": True})))
    maker.add("failed", workstream_id="docs", retry_limit=1)
    first = maker.lease()
    maker.step(first, "fetch", {"pages": 3})
    maker.finish(first, RetryAt(maker.clock.now(), TIMEOUT, "once more"))
    maker.finish(maker.lease(), Fail(FAILURE, "retries exhausted after 2 attempts"))
    maker.add("cancelled")
    cancelled = maker.lease()
    maker.step(cancelled, "half", 0.5)
    maker.finish(cancelled, Cancel())
    maker.add("released", priority=Priority.LOW)
    maker.finish(maker.lease(), Release("drained"))
    maker.add("running, to be cancelled", priority=Priority.HIGH)
    running = maker.lease()
    at_once(maker.store.cancel(running.task.id, actor="user", force=True))
    maker.add("blocked", dependencies=(completed, running.task.id))
    maker.add("delayed", priority=Priority.BACKGROUND, delay_seconds=60.0)
    at_once(maker.store.pause(True, actor="user"))


def main() -> None:
    path = HERE / f"queue-{newest_version():04}.db"
    path.unlink(missing_ok=True)
    maker = Maker(path)
    fill(maker)
    at_once(maker.store.close())
    os.chmod(path, 0o644)


if __name__ == "__main__":
    main()
