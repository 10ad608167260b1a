"""Commands that are refused again before they are executed."""

import pytest

from tests.pool.conftest import PoolProject


@pytest.mark.req("forge-29")
def test_a_command_that_is_blocked_by_now_is_not_executed(pool_project: PoolProject) -> None:
    witness = pool_project.root / "witness"
    task = pool_project.add(f"sh -c 'touch {witness}'", "--retries", "3")
    pool_project.configure(sandbox={"level": "off", "blockedCommands": ["touch"]})
    pool_project.start(count=1)
    assert pool_project.wait(task).code == 1
    shown = pool_project.show(task)
    assert shown["error"]["code"] == "BLOCKED_COMMAND"
    assert shown["error"]["category"] == "permanent"
    assert "touch" in shown["error"]["message"]
    assert [attempt["ending"] for attempt in shown["attempts"]] == ["notStarted"]
    assert not witness.exists()
    assert pool_project.wait(pool_project.add("true")).code == 0
