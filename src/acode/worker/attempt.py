"""One attempt, from its first command to its ending."""

import os
import signal
from collections.abc import Callable
from functools import partial
from math import inf

from acode.clock import Clock, ticks
from acode.model.ending import (
    Ending,
    Exited,
    Lost,
    NotStarted,
    OverLimit,
    Released,
    Signalled,
    TimedOut,
    Usage,
)
from acode.model.failure import Failure
from acode.model.limits import Over, OverLimitAction
from acode.observe.log import OutputLog
from acode.policy.blocked.refusal import refusal
from acode.policy.failures import explain
from acode.policy.limits import walled
from acode.runner.pipes import read_available
from acode.runner.refusal import not_kept
from acode.worker.bounds import Bounds
from acode.worker.checks import Checks
from acode.worker.config import WorkerConfig
from acode.worker.course import Course
from acode.worker.courses import course_of
from acode.worker.hook import Hook, hook_of
from acode.worker.loop import Loop
from acode.worker.messages import Assignment, Ended, Exceeded, Why
from acode.worker.places import Shelves, drop_checkpoints, fetch_checkpoint, keep_checkpoint
from acode.worker.reports import Kept, Refused
from acode.worker.stewards import Stewards
from acode.worker.stopping import ending_of
from acode.worker.warden import Warden

STRAY_GRACE_SECONDS = 0.5
"""How long what a command left behind may take to end itself."""
HOPELESS_SECONDS = 10.0
"""After that long in vain, a process is stuck in the kernel and nobody can end it."""
COLLECT_SECONDS = 1800.0
"""Far beyond what keeping the largest result takes."""


Tell = Callable[[Exceeded], None]


class Attempt:
    """What an attempt is up to, when it has to be ended, and how it ended."""

    def __init__(
        self,
        assignment: Assignment,
        config: WorkerConfig,
        shelves: Shelves,
        output: OutputLog,
        clock: Clock,
        loop: Loop,
        bounds: Bounds,
        tell: Tell,
    ) -> None:
        self.assignment = assignment
        self.ended: Ended | None = None
        self._config = config
        self._shelves = shelves
        self._output = output
        self._clock = clock
        self._loop = loop
        self._bounds = bounds
        self._tell = tell
        directories = (config.trees, shelves.home)
        limits = walled(assignment.limits) if assignment.seat else assignment.limits
        self._warden = Warden(limits, bounds, directories, self, clock)
        self._course: Course | None = None
        self._stopped_as: Ending | None = None
        self._last: Ending = Exited(0)
        """How the last command ended."""
        self._over_at = 0
        """When the last command ended."""
        self._checks = Checks(assignment.checks)
        self._is_collecting = False
        self._is_spent = False
        self._timeout_at = ticks() + assignment.timeout_seconds
        self._kill_at: float | None = None
        self._hopeless_at: float | None = None
        self._hook = hook_of(assignment, clock)
        self._claim: Failure | None = None
        """What an agent or a function itself says went wrong."""

    def start(self, inherited: dict[str, str], stewards: Stewards) -> None:
        """Begin; a command that cannot be started ends at once."""
        task = self.assignment
        self._output.begin(task.task_id, task.number)
        if failure := refusal(task.argv, self._config.blocked_commands):
            self.on_refused(Refused(failure))
            return
        if task.number > 1:
            fetch_checkpoint(task, self._config)
        common = (task, self._config, self._shelves, inherited, stewards.pids, self, self._bounds)
        try:
            self._course = course_of(common, self._loop, stewards)
        except OSError as error:  # not even a pipe
            self.on_refused(Refused(None, str(error)))
            return
        for tag, descriptor in self._course.pipes.tagged:
            self._loop.watch(descriptor, partial(self._read, tag, descriptor))
        self._course.start()

    def _read(self, tag: str, descriptor: int) -> bool:
        """Write down what has come; says whether there was anything."""
        data = read_available(descriptor)
        if data:
            hook = None if self._checks.begun else self._hook
            self._write(tag, data if hook is None else hook.read(tag, data))
        return bool(data)

    def _write(self, tag: str, words: bytes) -> None:
        if words:
            self._output.write(tag, words, self._clock.now())

    # Time.

    @property
    def deadline(self) -> float | None:
        """When this attempt needs attention although nothing happens."""
        waits = [t for t in (self._kill_at, self._hopeless_at) if t is not None]
        if self._can_time_out():
            waits += (self._timeout_at, self._patience, self._warden.deadline)
        return min(waits, default=None)

    def _can_time_out(self) -> bool:
        is_over = self.ended is not None or self._is_collecting or self._is_leaving
        return self._stopped_as is None and not is_over

    @property
    def _is_leaving(self) -> bool:
        """Whether an agent that has done its work is being ended."""
        return self._hook is not None and self._hook.is_leaving and not self._checks.begun

    @property
    def _patience(self) -> float:
        """Until when an agent may go on like this."""
        return inf if self._hook is None or self._checks.begun else self._hook.deadline

    def on_time(self) -> None:
        """Do what is due."""
        now = ticks()
        if self._hopeless_at is not None and now >= self._hopeless_at:
            self._give_up()
        elif self._kill_at is not None and now >= self._kill_at:
            self._kill()
        elif self._can_time_out() and now >= self._timeout_at:
            self.on_remark("W", f"timed out after {self.assignment.timeout_seconds:g} s")
            self._stop(TimedOut(self.assignment.timeout_seconds), force=False)
        elif self._can_time_out() and self._hook is not None and now >= self._patience:
            why, ending = self._hook.due()
            self.on_remark("W", why)
            self._stop(ending, force=False)
        elif self._can_time_out() and now >= self._warden.deadline:
            self._warden.on_time()

    def _give_up(self) -> None:
        self._hopeless_at = None
        self.on_remark("X", "something of this attempt cannot be ended; giving it up")
        if self._course is not None:
            self._course.abandon()

    # Its limits.

    @property
    def disk_bytes(self) -> int:
        """What it has written, as far as is known."""
        return self._warden.disk_bytes

    def exceeded(self, over: Over, action: OverLimitAction) -> None:
        """The daemon saw it go over a limit."""
        if self._can_time_out():
            self._warden.exceeded(over, action)

    def on_over_limit(self, over: Over, action: OverLimitAction) -> None:
        """We saw it ourselves."""
        self._tell(Exceeded(self.assignment.task_id, over, action))

    def end_over_limit(self, ending: OverLimit) -> None:
        """It is to go on no longer, not even for a moment."""
        if self._bounds.group is None:
            # Whoever stands still begins no other process while we go from one to the next.
            self.signal(signal.SIGSTOP)
        self._stop(ending, force=True)

    def signal(self, number: signal.Signals) -> None:
        """Signal whatever runs."""
        if self._course is not None:
            self._course.signal(number)

    # Ending it before its time.

    def abort(self, why: Why, *, force: bool) -> None:
        """End the command because somebody wants so."""
        if self._is_collecting and not force:
            return  # it is over; what it did is worth the wait
        ending, remark = ending_of(why)
        self.on_remark("W", remark)
        self._stop(ending, force=force)

    def _stop(self, ending: Ending | None, *, force: bool) -> None:
        """End the command; without a reason it counts as if it had ended by itself."""
        if self._course is None or self.ended is not None:
            return
        # The first reason stands; a second one can only make it faster.
        self._stopped_as = self._stopped_as or ending
        self._warden.let_go()
        if force:
            self._kill()
        elif self._kill_at is None and self._hopeless_at is None:
            self.on_remark("I", "sent SIGTERM")
            self._course.signal(signal.SIGTERM)
            # A stopped process hears nothing but SIGKILL and SIGCONT.
            self._course.signal(signal.SIGCONT)
            self._kill_at = ticks() + self.assignment.kill_timeout_seconds

    def _kill(self) -> None:
        if self._course is not None:
            self.on_remark("W", "sent SIGKILL")
            self._kill_at = None
            # A collection may go on for a while after that, and has its own bound.
            self._hopeless_at = ticks() + HOPELESS_SECONDS
            self._bounds.kill()
            self._course.signal(signal.SIGKILL)

    # What the course tells.

    def on_child(self) -> None:
        """Some child of the worker has ended."""
        if self._course is not None and self.ended is None:
            self._course.on_child()

    def on_remark(self, tag: str, text: str) -> None:
        """Something that belongs into the task's log."""
        self._output.write(tag, text.encode() + b"\n", self._clock.now())

    def on_begin(self) -> None:
        """The workspace is ready; what is written from here on is the command's."""
        self._warden.begin()

    def on_refused(self, refused: Refused) -> None:
        """There will be no command, or no further one."""
        self._over_at = self._clock.now()
        if self._stopped_as is not None:
            self._end(self._stopped_as)
        elif refused.failure is not None:
            self._end(NotStarted(refused.failure))
        else:
            # A machine that is short of something is not the task's fault.
            self._end(Released("the machine could not start it"), setback=refused.setback)

    def on_strays(self) -> None:
        """The command is gone: what it left behind goes too, gently if it hurries."""
        if self._course is None:
            return
        if self._hopeless_at is not None:
            self._course.signal(signal.SIGKILL)
        elif self._kill_at is None or self._stopped_as is None:
            self.on_remark("W", "ending what the command left running")
            self._course.signal(signal.SIGTERM)
            self._kill_at = ticks() + STRAY_GRACE_SECONDS

    def on_over(self, status: int, *, oom: bool = False) -> None:
        """A command and everything below it is gone."""
        self._drain()
        self._kill_at = self._hopeless_at = None
        self._over_at = self._clock.now()
        seat = self.assignment.seat
        self._last = self._warden.cause(
            _ending_of(status),
            killed=self._stopped_as is not None,
            is_last=self.assignment.is_plain,
            container_mb=seat.memory_mb if oom and seat is not None else 0,
        )
        if self._course is None:
            return
        if self._checks.begun:
            self._note_check()
        elif self._hook is not None:
            self._judge(self._hook)
        if self._succeeded() and self._checks.has_more:
            self._check(self._course)
        else:
            self._is_collecting = True
            self._warden.let_go()
            self._hopeless_at = ticks() + COLLECT_SECONDS
            self._course.collect(success=self._succeeded())

    def _succeeded(self) -> bool:
        return self._stopped_as is None and self._last == Exited(0) and self._claim is None

    def _judge(self, hook: Hook) -> None:
        self._write("O", hook.rest())
        ending, self._claim = hook.judged(self._stopped_as or self._last)
        if self._stopped_as is None:
            self._last = ending

    def _check(self, course: Course) -> None:
        check = self._checks.begin()
        self.on_remark("I", f"{check.name}: {check.argv[-1]}")
        course.run_check(self._checks.begun - 1)

    def _note_check(self) -> None:
        name, code = self._checks.note(self._last)
        self.on_remark("I" if code == 0 else "W", f"{name}: exit code {code}")

    def on_kept(self, kept: Kept) -> None:
        """What is left of the attempt is in its place."""
        self._end(self._stopped_as or self._last, kept)

    def on_spent(self) -> None:
        """The container that the command ran in is of no more use."""
        self._is_spent = True

    def on_lost(self, why: str) -> None:
        """Nobody knows how far the work got."""
        self._over_at = self._over_at or self._clock.now()
        self._drain()
        if self._is_collecting and self._stopped_as is None:
            self._end(self._last, Kept(problem=why))
        else:
            self._end(self._stopped_as or Lost(why))

    def _drain(self) -> None:
        if self._course is not None:
            for tag, descriptor in self._course.pipes.tagged:
                while self._read(tag, descriptor):
                    pass

    # The end.

    def _end(self, ending: Ending, kept: Kept = Kept(), setback: str | None = None) -> None:  # noqa: B008 -- frozen
        task = self.assignment
        failure = self._failure(ending, kept)
        if ending != Exited(0) or failure is not None:
            keep_checkpoint(self._config, task.task_id)
        drop_checkpoints(self._config)
        self._kill_at = self._hopeless_at = None
        self.ended = Ended(
            task_id=task.task_id,
            token=task.token,
            number=task.number,
            ending=ending,
            ended_at=self._over_at,
            usage=self._warden.usage(self._course.usage) if self._course else Usage(),
            failure=failure,
            artifacts=kept.artifacts,
            branch=kept.branch,
            patch=kept.patch,
            push=kept.push,
            checks=self._checks.codes,
            agent=self._hook.run if self._hook else None,
            value=self._hook.value if self._hook else None,
            setback=setback,
            spent=self._is_spent,
        )

    def _failure(self, ending: Ending, kept: Kept) -> Failure | None:
        """What went wrong, where the ending alone does not tell."""
        if kept.problem is not None:
            self.on_remark("X", f"the result cannot be kept: {kept.problem}")
            if ending == Exited(0):
                return not_kept(kept.problem)
        if self._claim is not None:
            return self._claim
        if not self._checks.begun or ending is not self._last:
            return None
        failure = explain(ending)
        return failure and self._checks.blame(failure)

    def clean(self) -> None:
        """Remove what the attempt no longer needs."""
        self._output.end()
        if self._course is not None:
            for _, descriptor in self._course.pipes.tagged:
                self._loop.forget(descriptor)
            self._course.clean()


def _ending_of(status: int) -> Ending:
    code = os.waitstatus_to_exitcode(status)
    return Exited(code) if code >= 0 else Signalled(-code)
