"""Clocks that disagree: the store's own counts, whatever a machine believes."""

from pathlib import Path

import pytest

from acode.model.ending import Exited
from tests.hosts.conftest import Company
from tests.pool.checker import check

pytestmark = pytest.mark.needs("postgresql", "network namespaces")

HOUR_MS = 3_600_000


def test_no_machine_has_to_know_what_time_it_is(company: Company, tmp_path: Path) -> None:
    for machine, skew in zip(company.machines.values(), (HOUR_MS, -HOUR_MS, 0), strict=True):
        machine.env["PYTHONPATH"] = str(Path(__file__).parent / "skew")
        machine.env["CLOCK_SKEW_MS"] = str(skew)
    company.start()
    failed = f'{tmp_path}/"$ACODE_TASK_ID"'
    command = f"sleep 0.2; [ -e {failed} ] || {{ touch {failed}; exit 1; }}"
    specs = [{"command": command, "retries": 1, "delay": 0.5} for _ in range(18)]
    tasks = [task for machine in company.machines.values() for task in machine.add_all(specs[:6])]
    assert company.pluto.wait(*tasks).code == 0
    records = company.records(tasks)
    hosts = {attempt.host_id for record in records for attempt in record.attempts}
    assert len(hosts) == 3
    for record in records:
        check(record)
        assert [attempt.ending for attempt in record.attempts] == [Exited(1), Exited(0)]
        moments = [move.at for move in record.history]
        assert moments == sorted(moments)
        for attempt in record.attempts:
            assert 0 <= (attempt.ended_at or 0) - attempt.started_at < HOUR_MS / 2
    assert not [host for host in company.pluto.pool()["hosts"] if host.get("lostAt")]
