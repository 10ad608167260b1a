"""Summarises documents: update, search terms, move, then markers and a comment if they can be had.

    python -m examples.documents.summariser [QUEUE.db]

Kill it at any moment and start it again with the same file: no finished step is repeated.
"""

import asyncio
import json
import os
import re
import sys
from dataclasses import dataclass
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import acode

SERVICE = "DOCUMENT_SERVICE"
MARKER = "/summarise"


@dataclass
class Document:
    """A document as the service tells it."""

    id: str
    text: str
    terms: list[str]
    collection: str
    comments: list[str]


# The service's client. Errors are those of urllib; acode knows what their status codes mean.


def call(path: str, body: Any = None) -> Any:
    """Ask the service."""
    data = None if body is None else json.dumps(body).encode()
    headers = {"Content-Type": "application/json"}
    request = Request(os.environ[SERVICE] + path, data, headers)  # noqa: S310 -- our own address
    try:
        with urlopen(request, timeout=10) as answer:  # noqa: S310
            return json.load(answer)
    except HTTPError as error:
        error.close()  # it holds the connection
        raise


def fetch(document_id: str) -> dict[str, Any]:
    """The document as it is."""
    document: dict[str, Any] = call(f"/documents/{document_id}")
    return document


def update(document_id: str, text: str) -> None:
    """Put a summary on top of the text."""
    summary = text.split(".")[0]
    call(f"/documents/{document_id}/content", {"text": f"Summary: {summary}.\n\n{text}"})


def add_terms(document_id: str, text: str) -> list[str]:
    """The longest words, for the search."""
    terms = sorted(set(re.findall(r"\w{5,}", text.lower())))
    call(f"/documents/{document_id}/terms", {"terms": terms})
    return terms


def move(document_id: str, collection: str) -> None:
    """Put the document into a collection."""
    call(f"/documents/{document_id}/collection", {"name": collection})


def remove_markers(document_id: str) -> None:
    """Take the command out of the text."""
    text = fetch(document_id)["text"].replace(MARKER, "").strip()
    call(f"/documents/{document_id}/content", {"text": text})


def comment(document_id: str, text: str) -> None:
    """Tell the people who read the document."""
    call(f"/documents/{document_id}/comments", {"text": text})


async def on_failure(task: acode.Task, error: acode.TaskFailed) -> None:
    """Clean up after a task that failed for good; if this fails too, acode only warns."""
    document_id = task.metadata["documentId"]
    text = f"Task {task.id} failed and needs a look: {error}"
    await asyncio.to_thread(comment, document_id, text)


# The handlers.


@acode.handler("summarise", on_failure=on_failure)
def summarise(ctx: acode.SyncContext, document_id: str) -> list[str]:
    """Background work: a document by its id."""
    text = ctx.step("fetch", fetch, document_id)["text"]
    ctx.step("update", update, document_id, text)
    terms = ctx.step("terms", add_terms, document_id, text)
    try:
        ctx.step("move", move, document_id, "summaries")
    except HTTPError as error:
        if error.code != 409:
            raise
        raise acode.PartialError(
            "the document is summarised but could not be moved",
            failed_step="move",
            hint="somebody edits it; the next attempt only moves it",
        ) from error
    ctx.step("markers", remove_markers, document_id, critical=False)
    ctx.step("comment", comment, document_id, "Summarised.", critical=False)
    return terms


@acode.handler("command", on_failure=on_failure)
def process(ctx: acode.SyncContext, document: Document, command: str, guidance: str) -> str:
    """A command of a user: the whole document, what to do, and how."""
    answer = f"{command} of {document.id}: {len(document.text.split())} words. {guidance}"
    ctx.step("comment", comment, document.id, answer)
    return answer


async def submit_document(
    pool: acode.Pool, handler: Any, document_id: str, type_: str
) -> acode.TaskHandle[Any]:
    """A document task; its key is TYPE-DOCUMENT, so a second one is the first one."""
    return await pool.submit(
        handler,
        document_id,
        key=f"{type_}-{document_id}",
        metadata={"documentId": document_id},
    )


async def submit_command(
    pool: acode.Pool, document: Document, command: str, guidance: str
) -> acode.TaskHandle[str]:
    """A command task, more urgent than background work; its key is cmd-COMMAND-DOCUMENT."""
    return await pool.submit(
        process,
        document,
        command,
        guidance,
        priority="high",
        key=f"cmd-{command}-{document.id}",
        metadata={"documentId": document.id},
    )


async def main(store: str) -> None:
    """Summarise every document of the service, and obey one command."""
    from examples.documents.service import DocumentService

    with DocumentService() as service:
        os.environ[SERVICE] = service.url
        service.fail("/documents/doc-2/terms", 503)  # tried again, by itself
        async with acode.Pool(store=store, retry=acode.Retry(initial_delay_ms=50)) as pool:
            handles = [
                await submit_document(pool, summarise, id_, "summarise")
                for id_ in service.documents
            ]
            document = Document(**await asyncio.to_thread(fetch, "doc-1"))
            handles.append(await submit_command(pool, document, "count", "Be brief."))
            for handle in handles:
                task_result = await handle.result(timeout=60)
                task = await pool.get(handle.id)
                print(f"{task.key}: {task_result} (attempts: {task.attempt_count})")
            stats = pool.stats()
            print(f"{stats.completed_tasks} completed, {stats.average_exec_time_ms:.1f} ms each")


if __name__ == "__main__":
    asyncio.run(main(f"sqlite:///{sys.argv[1]}" if len(sys.argv) > 1 else "memory"))
