"""A daemon looks at its store before it uses it."""

import sqlite3

from tests.pool.conftest import PoolProject


def test_what_is_wrong_with_the_store_is_in_the_report_of_the_recovery(
    pool_project: PoolProject,
) -> None:
    task = pool_project.add("true", "--delay", "3600")
    with sqlite3.connect(pool_project.agent / "queue.db") as store:
        store.execute("UPDATE tallies SET n = n + 5 WHERE status = 'pending'")
    store.close()
    pool_project.start(count=1)
    recovery = pool_project.run("queue", "status", "--json").json["recovery"]
    assert any("pending" in problem for problem in recovery["problems"])
    assert pool_project.status(task) == "pending"
