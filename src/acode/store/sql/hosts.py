"""Hosts: who shares the store, and what becomes of the leases of those who fall silent."""

from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from acode.errors import LeaseLost
from acode.model.host import Host, HostState
from acode.model.task import Lease
from acode.store.sql.claims import fresh_tokens
from acode.store.sql.reads import lease_from
from acode.store.sql.rows import SEQ, Row, sensible, step_value_from, text
from acode.store.sql.transaction import Transaction

_host = msgspec.json.Decoder(Host).decode


class Joining(NamedTuple):
    """One call of `join`."""

    host: Host
    lease_ms: int


class Renewal(NamedTuple):
    """One call of `renew`."""

    host_id: str
    pool: Any


def join(tx: Transaction, joining: Joining) -> None:
    """Take part as this host, or go on as it."""
    host, lease_ms = joining
    tx.run("join_host", id=host.id, host=text(host), lease_ms=lease_ms, now=tx.moment)


def renew(tx: Transaction, renewal: Renewal) -> frozenset[str]:
    """Prolong the host's lease; the tokens that it still holds."""
    host_id, pool = renewal
    if not tx.run("renew_host", id=host_id, pool=text(pool), now=tx.moment):
        raise LeaseLost(
            f"host {host_id} is no longer taking part",
            "join again; what it held has gone to others",
        )
    return frozenset(row[0] for row in tx.all("tokens_of", id=host_id))


def expire(tx: Transaction, host_id: str) -> list[Lease]:
    """Take over what silent hosts hold."""
    rows = tx.abandoned(host_id)
    tokens = fresh_tokens(len(rows))
    taken = [(row[SEQ], token, host_id) for row, token in zip(rows, tokens, strict=True)]
    tx.put("take_over", taken)
    return [_taken(row, token, host_id) for row, token in zip(rows, tokens, strict=True)]


def _taken(row: Row, token: str, host_id: str) -> Lease:
    lease = lease_from(row)
    ran_on = lease.task.host_id
    return replace(lease, token=token, ran_on=ran_on, task=replace(lease.task, host_id=host_id))


def leave(tx: Transaction, host_id: str) -> None:
    """Take part no more."""
    tx.run("leave_host", id=host_id)


def hosts(tx: Transaction) -> list[HostState]:
    """Who takes part, in the order in which they joined."""
    return [_state_from(row) for row in tx.all("hosts")]


@sensible
def _state_from(row: Row) -> HostState:
    return HostState(
        host=_host(row[0]),
        joined_at=row[1],
        seen_at=row[2],
        lease_until=row[3],
        lost_at=row[4],
        pool=row[5] and step_value_from(row[5]),
    )
