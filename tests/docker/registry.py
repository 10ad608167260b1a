"""A registry stand-in with one small image, and answers that fail or come late.

python -m tests.docker.registry PORT FAILURES DELAY GATE, inside the engine's network: so many
requests for the manifest fail, each waits so long, and layers wait for the gate, if there is one.
"""

import gzip
import hashlib
import io
import json
import os
import sys
import tarfile
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.docker.images import BUSYBOX, archive

LAYER_BYTES = 100_000
"""More than anything else that is fetched."""
MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


class Image:
    """The parts of an image as a registry keeps them."""

    def __init__(self) -> None:
        layer = _unique(archive(BUSYBOX))
        packed = gzip.compress(layer, 1)
        config = json.dumps(
            {
                "architecture": "amd64",
                "os": "linux",
                "config": {"Env": ["PATH=/bin"], "Cmd": ["sh"]},
                "rootfs": {"type": "layers", "diff_ids": [_digest(layer)]},
                "history": [{"created_by": "tests"}],
            }
        ).encode()
        self.blobs = {_digest(packed): packed, _digest(config): config}
        self.manifest = json.dumps(
            {
                "schemaVersion": 2,
                "mediaType": MANIFEST,
                "config": {
                    "mediaType": "application/vnd.docker.container.image.v1+json",
                    "size": len(config),
                    "digest": _digest(config),
                },
                "layers": [
                    {
                        "mediaType": "application/vnd.docker.image.rootfs.diff.tar.gzip",
                        "size": len(packed),
                        "digest": _digest(packed),
                    }
                ],
            }
        ).encode()


def _unique(layer: bytes) -> bytes:
    """With one file more, or an engine would not fetch what it has under another name."""
    buffer = io.BytesIO(layer)
    with tarfile.open(fileobj=buffer, mode="a") as tar:
        tar.addfile(tarfile.TarInfo(f"made-by-{os.getpid()}-{time.time_ns()}"))
    return buffer.getvalue()


def _wait_for(gate: str) -> None:
    """Half of a layer is held back until this file is there."""
    while gate and not os.path.exists(gate):
        time.sleep(0.02)


def serve(port: int, failures: int, delay: float, gate: str) -> None:
    image, asked = Image(), [0]

    class Handler(BaseHTTPRequestHandler):
        def do_HEAD(self) -> None:
            self.do_GET()

        def do_GET(self) -> None:
            if "/manifests/" in self.path:
                asked[0] += 1
                _say(f"manifest {asked[0]}")
                time.sleep(delay)
                if asked[0] <= failures:
                    self._answer(500, b"{}", "application/json")
                else:
                    self._answer(200, image.manifest, MANIFEST)
            elif "/blobs/" in self.path:
                blob = image.blobs[self.path.rpartition("/")[2]]
                self._answer(200, blob, "application/octet-stream")
            else:
                self._answer(200, b"{}", "application/json")

        def _answer(self, status: int, body: bytes, kind: str) -> None:
            self.send_response(status)
            self.send_header("Docker-Distribution-Api-Version", "registry/2.0")
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            if kind == MANIFEST:
                self.send_header("Docker-Content-Digest", _digest(body))
            self.end_headers()
            if self.command == "GET":
                half = len(body) // 2 if gate and len(body) > LAYER_BYTES else 0
                self.wfile.write(body[:half])
                _wait_for(gate if half else "")
                self.wfile.write(body[half:])

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    _say("ready")  # connections wait from here on
    server.serve_forever()


if __name__ == "__main__":
    serve(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), sys.argv[4])
