"""Programs that share a queue in PostgreSQL: each is a host, and none loses what another ran."""

import subprocess
import sys
from pathlib import Path

import pytest

import acode
from acode.embedded import company
from tests.embedded.conftest import PATIENCE, until
from tests.postgres.server import clean_database

pytestmark = pytest.mark.needs("postgresql")

ROOT = Path(__file__).parents[2]
PROGRAM = """
import asyncio, sys
import acode
from acode.embedded import company
company.LEASE_SECONDS = 2.0

@acode.handler("company-slow")
async def slow(ctx: acode.Context, place: str) -> str:
    with open(place, "a") as file:
        file.write("begun there\\n")
    await asyncio.sleep(600)
    return "never"

async def main() -> None:
    async with acode.Pool(workers=1, store=sys.argv[1]) as pool:
        handle = await pool.submit(slow, sys.argv[2], retries=2)
        print(handle.id, flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


@acode.handler("company-slow")
def slow(ctx: acode.SyncContext, place: str) -> str:
    with open(place, "a", encoding="utf-8") as file:
        file.write("begun here\n")
    return f"attempt {ctx.attempt}"


@acode.handler("company-double")
async def double(_ctx: acode.Context, number: int) -> int:
    return number * 2


async def test_what_one_pool_submits_another_may_run() -> None:
    url = clean_database()
    async with (
        acode.Pool(workers=2, store=url) as one,
        acode.Pool(workers=2, store=url) as other,
    ):
        handles = [await one.submit(double, number) for number in range(40)]
        assert [await handle.result(PATIENCE) for handle in handles] == list(range(0, 80, 2))
        done = one.stats().completed_tasks, other.stats().completed_tasks
        assert sum(done) == 40


def another_program(*words: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-c", PROGRAM, *words]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


async def test_what_a_dead_program_ran_runs_in_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, place = clean_database(), tmp_path / "traces"
    monkeypatch.setattr(company, "LEASE_SECONDS", 2.0)
    with another_program(url, str(place)) as program:
        assert program.stdout is not None
        task_id = program.stdout.readline().strip()
        await until(lambda: place.exists() and place.read_text())
        async with acode.Pool(workers=1, store=url) as pool:
            assert (await pool.get(task_id)).status == "running", "it is somebody else's"
            program.kill()
            assert await pool.handle(task_id).result(PATIENCE) == "attempt 2"
    assert place.read_text() == "begun there\nbegun here\n"
