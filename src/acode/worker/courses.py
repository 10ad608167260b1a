"""Which course an attempt takes."""

from acode.worker.bounds import Bounds
from acode.worker.config import WorkerConfig
from acode.worker.course import Course, Listener
from acode.worker.direct import Direct
from acode.worker.guided import Guided
from acode.worker.loop import Loop
from acode.worker.messages import Assignment
from acode.worker.places import Shelves
from acode.worker.stewards import Stewards

Common = tuple[Assignment, WorkerConfig, Shelves, dict[str, str], set[int], Listener, Bounds]
"""What every course is given."""


def course_of(common: Common, loop: Loop, stewards: Stewards) -> Course:
    """The short way where there is nothing to do before and after; as a process or inside."""
    task, _, shelves, _, _, listener, bounds = common
    if task.is_plain and task.seat is None:
        return Direct(*common)
    if not task.is_plain or (task.seat is not None and not task.seat.has_shell):
        return Guided(task, shelves, listener, bounds, loop, stewards)
    from acode.worker.contained import Contained  # a pool of processes does without

    return Contained(*common, loop)
