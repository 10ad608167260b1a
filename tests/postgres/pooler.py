"""A real PgBouncer before the server, with a certificate of our own if it is to speak TLS."""

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg

from acode.clock import Deadline
from tests.postgres.server import START_SECONDS, Server, free_port

_SETTINGS = """
[databases]
* = host=127.0.0.1 port={server}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
unix_socket_dir =
auth_type = trust
auth_file = {directory}/users
pool_mode = {mode}
default_pool_size = {size}
"""
_TLS = """
client_tls_sslmode = require
client_tls_key_file = {directory}/server.key
client_tls_cert_file = {directory}/server.crt
"""


@contextmanager
def pooler(server: Server, mode: str, *, tls: Path | None = None, size: int = 3) -> Iterator[int]:
    """The port of a pooler, which lends the server's processes in this mode."""
    directory, port = Path(tempfile.mkdtemp(prefix="acode-pooler-")), free_port()
    settings = _SETTINGS + (_TLS if tls else "")
    values = {"server": server.port, "port": port, "mode": mode, "size": size}
    (directory / "settings").write_text(settings.format(directory=directory, **values))
    (directory / "users").write_text('"postgres" ""\n')
    for name in ("server.key", "server.crt") if tls else ():
        shutil.copy(tls / name, directory / name)  # type: ignore[operator]
    with (directory / "log").open("wb") as log:
        process = subprocess.Popen(
            ["pgbouncer", str(directory / "settings")], stdout=log, stderr=log, **_nobody(directory)
        )
    try:
        _wait(f"postgresql://postgres@127.0.0.1:{port}/postgres", directory / "log")
        yield port
    finally:
        process.terminate()
        process.wait(START_SECONDS)
        shutil.rmtree(directory)


def _nobody(directory: Path) -> dict[str, Any]:
    """It does not run as root."""
    if os.geteuid() != 0:
        return {}
    nobody = pwd.getpwnam("nobody")
    for path in (directory, *directory.iterdir()):
        os.chown(path, nobody.pw_uid, nobody.pw_gid)
    return {"user": nobody.pw_uid, "group": nobody.pw_gid, "extra_groups": []}


def _wait(url: str, log: Path) -> None:
    deadline = Deadline(START_SECONDS)
    while True:
        try:
            psycopg.connect(url, connect_timeout=5).close()
        except psycopg.OperationalError:
            assert deadline.rest(0.02), log.read_text()
        else:
            return


def certify(directory: Path, name: str) -> Path:
    """An authority (`ca.crt`), and a server's key and certificate for this name."""
    directory.mkdir()
    curve = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2")
    _openssl(directory, "req", "-x509", *curve, "-subj", "/CN=authority",
             "-keyout", "ca.key", "-out", "ca.crt")  # fmt: skip
    _openssl(directory, "req", *curve[:-2], "-subj", f"/CN={name}",
             "-keyout", "server.key", "-out", "request")  # fmt: skip
    (directory / "names").write_text(f"subjectAltName=DNS:{name}\n")
    _openssl(directory, "x509", "-req", "-in", "request", "-CA", "ca.crt", "-CAkey", "ca.key",
             "-CAcreateserial", "-days", "2", "-extfile", "names",
             "-out", "server.crt")  # fmt: skip
    return directory


def _openssl(directory: Path, *words: str) -> None:
    done = subprocess.run(["openssl", *words], cwd=directory, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
