"""The example: documents and commands on a service that fails as it likes."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import acode
from examples.documents import summariser
from examples.documents.service import DocumentService
from examples.documents.summariser import Document, submit_command, submit_document, summarise
from tests.embedded.conftest import Bench, until

ROOT = Path(__file__).parents[2]
STEPS = ["content", "terms", "collection"]


@pytest.fixture
def service(monkeypatch: pytest.MonkeyPatch) -> Iterator[DocumentService]:
    with DocumentService() as one:
        monkeypatch.setenv(summariser.SERVICE, one.url)
        yield one


def posts(service: DocumentService) -> list[str]:
    """The parts of doc-1 that were written, in order."""
    begin = "POST /documents/doc-1/"
    return [asked.removeprefix(begin) for asked in service.requests if asked.startswith(begin)]


@pytest.mark.req("lld-08", "lld-10")
async def test_a_document_goes_through_all_its_steps(
    bench: Bench, service: DocumentService
) -> None:
    async with bench.pool() as pool:
        handle = await submit_document(pool, summarise, "doc-1", "summarise")
        terms = await handle.result(timeout=60)
        task = await pool.get(handle.id)
        again = await submit_document(pool, summarise, "doc-1", "summarise")
    assert again.id == handle.id
    assert (task.key, task.args) == ("summarise-doc-1", ("doc-1",))
    document = service.documents["doc-1"]
    assert document["terms"] == terms == ["again", "summarise", "tasks", "tried"]
    assert document["text"].startswith("Summary: The pool runs tasks.")
    assert summariser.MARKER not in document["text"]
    assert (document["collection"], document["comments"]) == ("summaries", ["Summarised."])


@pytest.mark.req("lld-09", "lld-10")
async def test_a_command_gets_the_document_the_command_and_guidance(
    bench: Bench, service: DocumentService
) -> None:
    document = Document("doc-1", "three words here", [], "inbox", [])
    async with bench.pool() as pool:
        handle = await submit_command(pool, document, "count", "Be brief.")
        answer = await handle.result(timeout=60)
        task = await pool.get(handle.id)
    assert answer == "count of doc-1: 3 words. Be brief."
    assert (task.key, task.priority, task.type) == ("cmd-count-doc-1", "high", "command")
    assert service.documents["doc-1"]["comments"] == [answer]


@pytest.mark.req("lld-16")
async def test_only_the_step_that_failed_is_tried_again(
    bench: Bench, service: DocumentService
) -> None:
    service.fail("/documents/doc-1/terms", 503, times=2)
    service.fail("/documents/doc-1/collection", 409)
    service.fail("/documents/doc-1/comments", 500)
    async with bench.pool() as pool:
        handle = await submit_document(pool, summarise, "doc-1", "summarise")
        await handle.result(timeout=60)
        task = await pool.get(handle.id)
    errors = [attempt.error for attempt in task.attempts if attempt.error]
    assert [(error.category, error.failed_step) for error in errors] == [
        ("transient", "terms"),
        ("transient", "terms"),
        ("partial", "move"),
    ]
    assert posts(service) == [
        *("content", "terms", "terms", "terms"),
        *("collection", "collection"),
        *("content", "comments"),
    ], "each finished step once; the comment is not critical"
    assert service.documents["doc-1"]["comments"] == []


@pytest.mark.req("lld-18")
async def test_a_document_that_failed_for_good_gets_a_comment(
    bench: Bench, service: DocumentService
) -> None:
    service.fail("/documents/doc-1/terms", 403)
    async with bench.pool() as pool:
        handle = await submit_document(pool, summarise, "doc-1", "summarise")
        with pytest.raises(acode.TaskFailed):
            await handle.result(timeout=60)
        comments = service.documents["doc-1"]["comments"]
        await until(lambda: comments)
        (letter,) = await pool.dead_letters.list()
        assert letter.document_id == "doc-1"
        assert list(letter.checkpoint) == ["fetch", "update"]
        again = await pool.dead_letters.retry(handle.id)
        await again.result(timeout=60)
    assert handle.id in comments[0]
    assert posts(service).count("content") == 2, "once for the summary, once for the markers"


def test_the_program_runs_to_its_end(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "examples.documents.summariser", str(tmp_path / "queue.db")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "summarise-doc-2: " in done.stdout
    assert "(attempts: 2)" in done.stdout
    assert "cmd-count-doc-1: count of doc-1" in done.stdout
    assert "4 completed" in done.stdout
