"""A small document service on the loopback interface, so that the example has something to call.

    GET  /documents/ID             the document
    POST /documents/ID/content     {"text": …}
    POST /documents/ID/terms       {"terms": […]}
    POST /documents/ID/collection  {"name": …}
    POST /documents/ID/comments    {"text": …}

`service.fail("/documents/doc-1/terms", 503, times=2)` makes the next two such requests fail.
"""

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

TEXTS = {
    "doc-1": "The pool runs tasks. Tasks that fail are tried again. /summarise",
    "doc-2": "A step that is done is not done again. Its value is kept. /summarise",
    "doc-3": "A dead letter keeps its checkpoint. It goes on after it. /summarise",
}


class DocumentService:
    """Keeps documents in memory and serves them at `url`."""

    def __init__(self, texts: dict[str, str] | None = None) -> None:
        self.documents: dict[str, dict[str, Any]] = {
            id_: {"id": id_, "text": text, "terms": [], "collection": "inbox", "comments": []}
            for id_, text in (texts or TEXTS).items()
        }
        self.requests: list[str] = []
        """What was asked for, in order: `POST /documents/doc-1/terms`."""
        self._faults: dict[str, list[int]] = {}
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._request_handler())
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def fail(self, path: str, status: int, times: int = 1) -> None:
        """Let the next requests to this path fail."""
        with self._lock:
            self._faults.setdefault(path, []).extend([status] * times)

    def __enter__(self) -> "DocumentService":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """Status and body of the answer to a request."""
        with self._lock:
            self.requests.append(f"{method} {path}")
            if self._faults.get(path):
                return self._faults[path].pop(0), {"error": "as you wished"}
            match = re.fullmatch(r"/documents/([\w-]+)(?:/(\w+))?", path)
            document = self.documents.get(match[1]) if match else None
            if match is None or document is None:
                return 404, {"error": "there is no such document"}
            return 200, self._changed(document, match[2], body)

    def _changed(self, document: dict[str, Any], part: str | None, body: Any) -> Any:
        match part:
            case "content":
                document["text"] = body["text"]
            case "terms":
                document["terms"] = body["terms"]
            case "collection":
                document["collection"] = body["name"]
            case "comments":
                document["comments"].append(body["text"])
        return document

    def _request_handler(self) -> type[BaseHTTPRequestHandler]:
        service = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._reply(*service.answer("GET", self.path, None))

            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                self._reply(*service.answer("POST", self.path, json.loads(self.rfile.read(length))))

            def _reply(self, status: int, body: Any) -> None:
                data = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
                """Say nothing."""

        return Handler
