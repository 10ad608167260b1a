"""The way to the server: statements leave together, when the first answer is wanted.

The driver's own pipeline sends each statement by itself, which costs both sides more than the
statement. So this speaks to libpq, by the functions that the driver offers for that.
"""

import re
import select
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from typing import Any, NamedTuple

import psycopg
from psycopg import Connection, pq
from psycopg.adapt import Transformer
from psycopg.errors import error_from_result

from acode.store.postgres.dumping import BINARY, dumped
from acode.store.sql.rows import Row

PREPARED = 200
"""Statements that the server keeps for a line. There are fewer but for listings with filters."""
_PLACE = re.compile(r"%\((\w+)\)s|%s")
_DONE = {pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK, pq.ExecStatus.PIPELINE_SYNC}


class Query(NamedTuple):
    """A statement as the server wants it: its parameters are numbered."""

    text: bytes
    names: tuple[str, ...]
    """What the parameters are called, in their order; none if they have no names."""

    def given(self, parameters: Mapping[str, Any] | Sequence[Any]) -> Sequence[Any]:
        """The parameters in their order."""
        if isinstance(parameters, Mapping):
            return [parameters[name] for name in self.names]
        return parameters


@cache
def query(text: str) -> Query:
    """Number the parameters of a statement; one name is one parameter, however often it stands."""
    places: dict[str, int] = {}

    def numbered(found: re.Match[str]) -> str:
        name = found[1] or f"#{len(places)}"
        return f"${places.setdefault(name, len(places) + 1)}"

    numbers = _PLACE.sub(numbered, text).encode()
    return Query(numbers, tuple(name for name in places if not name.startswith("#")))


class Answer:
    """What the server says to a statement; whoever looks waits until it is there."""

    __slots__ = ("_result", "_wire")

    def __init__(self, wire: "Wire") -> None:
        self._wire = wire
        self._result: pq.abc.PGresult | None = None

    def heard(self, result: pq.abc.PGresult) -> None:
        """Take what was said."""
        self._result = result

    def _there(self) -> pq.abc.PGresult:
        if self._result is None:
            self._wire.read(self)
        if self._result is None:
            raise psycopg.InterfaceError("the server did not answer a statement")
        return self._result

    def rows(self) -> list[Row]:
        """Every row; none of a statement that returns nothing."""
        return self._wire.loaded(self._there())

    def row(self) -> Row | None:
        """The first row, if there is one."""
        rows = self.rows()
        return rows[0] if rows else None

    def count(self) -> int:
        """How many rows it changed."""
        return self._there().command_tuples or 0


class Wire:
    """A connection on which statements travel together; for one thread."""

    def __init__(self, connection: Connection, *, prepares: bool) -> None:
        self._pg = connection.pgconn
        self._prepares = prepares
        self._prepared: dict[tuple[bytes, tuple[int, ...]], bytes] = {}
        self._due: deque[Answer | None] = deque()
        """Whom the next answers are for; None where nobody wants to know but that it went well."""
        self._transformer = Transformer(connection)
        self._encoding = connection.info.encoding
        self._poll = select.poll()

    @contextmanager
    def train(self) -> Iterator[None]:
        """Statements that belong together; at the end all answers are there."""
        self._pg.enter_pipeline_mode()
        try:
            yield
            self.sync()
            self.read(None)
        except psycopg.Error:
            raise  # what came behind it is not known: the line has to be made again
        except Exception:
            self._turn_back()
            raise
        except BaseException:
            self._pg.finish()
            raise
        self._pg.exit_pipeline_mode()

    def execute(self, statement: str, parameters: Mapping[str, Any] | Sequence[Any] = ()) -> Answer:
        """Send a statement with those that follow it."""
        asked = query(statement)
        values, types, formats = dumped(asked.given(parameters))
        name = self._name(asked.text, types) if self._prepares else None
        if name is None:
            self._pg.send_query_params(asked.text, values, types, formats, BINARY)
        else:
            self._pg.send_query_prepared(name, values, formats, BINARY)
        answer = Answer(self)
        self._due.append(answer)
        return answer

    def sync(self) -> None:
        """The end of what stands or falls together, unless a transaction was begun."""
        self._pg.pipeline_sync()
        self._due.append(None)

    def read(self, last: Answer | None) -> None:
        """Wait for the answers up to this one, or for all."""
        self._pg.send_flush_request()
        self._flush()
        while self._due:
            result = self._next()
            whom = self._due.popleft()
            if result.status not in _DONE:
                raise self._trouble(result)
            if whom is not None:
                whom.heard(result)
                if whom is last:
                    break

    def loaded(self, result: pq.abc.PGresult) -> list[Row]:
        """The rows of an answer as Python knows them."""
        self._transformer.set_pgresult(result)
        return self._transformer.load_rows(0, result.ntuples, tuple)

    def _name(self, text: bytes, types: Sequence[int]) -> bytes | None:
        """The name of a statement that the server knows; None if it knows enough of them."""
        key = (text, tuple(types))
        name = self._prepared.get(key)
        if name is None and len(self._prepared) < PREPARED:
            name = self._prepared[key] = b"acode_%d" % len(self._prepared)
            self._pg.send_prepare(name, text, types)
            self._due.append(None)
        return name

    def _trouble(self, result: pq.abc.PGresult) -> psycopg.Error:
        error = error_from_result(result, encoding=self._encoding)
        if error.diag.severity_nonlocalized in ("FATAL", "PANIC"):
            self._pg.finish()  # the server has hung up
        self._due.clear()
        return error

    def _turn_back(self) -> None:
        """Undo what was sent, or hang up if that cannot be done."""
        with suppress(psycopg.Error):
            self._pg.send_query_params(b"ROLLBACK", None)
            self._due.append(None)
            self.sync()
            self.read(None)
            self._pg.exit_pipeline_mode()
            return
        self._pg.finish()

    # libpq.

    def _flush(self) -> None:
        """Send everything; whoever does not read meanwhile may wait for a server that waits."""
        while self._pg.flush():
            if self._wait(select.POLLIN | select.POLLOUT) & select.POLLIN:
                self._pg.consume_input()

    def _next(self) -> pq.abc.PGresult:
        result = self._result()
        while result is None:  # the end of what the statement before has answered
            result = self._result()
        return result

    def _result(self) -> pq.abc.PGresult | None:
        while self._pg.is_busy():
            self._wait(select.POLLIN)
            self._pg.consume_input()
        return self._pg.get_result()

    def _wait(self, events: int) -> int:
        self._poll.register(self._pg.socket, events)
        ((_, happened),) = self._poll.poll()
        return happened
