"""The short way into a container: the worker starts the command there by itself."""

import os

from acode.model.ending import Usage
from acode.runner.children import Tree
from acode.worker.direct import Direct
from acode.worker.inside import Inside, environment_inside, hand_over_places
from acode.worker.places import Places, checkpoint, environment
from acode.worker.reports import Gone, Refused, Remark, Spent, Vanished


class Contained(Direct):
    """A command in the worker's container, with nothing to do before and after."""

    _inside: Inside | None = None
    _used = Usage()

    def _begin(self, places: Places, workspace: str) -> int:
        task, seat = self._task, self._task.seat
        if seat is None:
            raise AssertionError("a contained command without a seat")
        hand_over_places(seat, places, checkpoint(task, self._config))
        own = environment(task, self._config, places, workspace)
        self._inside = Inside(seat)
        directory = os.path.join(workspace, task.cwd or ".")
        env = environment_inside(task.env, own)
        self._listener.on_begin()
        return self._inside.start(task.argv, env, directory, self.pipes)

    def _over(self, tree: Tree) -> None:
        if self._inside is None:
            return
        listener = self._listener
        for report in self._inside.reports(self._task.argv, self._task.cwd, tree.status or 0):
            match report:
                case Spent():
                    listener.on_spent()
                case Remark(tag, text):
                    listener.on_remark(tag, text)
                case Refused():
                    listener.on_refused(report)
                case Vanished(why):
                    listener.on_lost(why)
                case Gone(status, usage, oom):
                    self._used = usage
                    listener.on_over(status, oom=oom)

    @property
    def usage(self) -> Usage:
        """What the command and all below it used, as their container counted."""
        return self._used
