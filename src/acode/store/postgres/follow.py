"""Following the moves while others write: numbers are given before commits make them visible."""

from acode.model.task import Move
from acode.store.sql.rows import move_from
from acode.store.sql.transaction import Transaction


def settled(tx: Transaction) -> int:
    """Up to which number every move can be seen by the next statement."""
    newest = tx.value("newest_number")
    return int(tx.value("settled", newest=newest))


def moves(tx: Transaction, window: tuple[int, int]) -> list[Move]:
    """Moves of all tasks after a sequence number, none of which can come later."""
    since, limit = window
    rows = tx.all("moves", since=since, until=settled(tx), limit=limit)
    return [move_from(row, row[-1]) for row in rows]
