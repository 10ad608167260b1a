"""From an order to a workspace."""

import os

from acode.workspace.base import Order, Workspace
from acode.workspace.scratch import InProject, Scratch


def open_workspace(order: Order) -> Workspace:
    """Make what was ordered. Raises InvalidTask, DiskFull or WorkspaceFailed."""
    if order.kind == "project":
        return InProject(order)
    return Scratch(order, free_place(order))


def free_place(order: Order) -> str:
    """Where the workspace goes; a kept one of an earlier attempt stays as it is."""
    place = os.path.join(order.trees, order.task_id)
    return f"{place}-{order.number}" if os.path.lexists(place) else place
