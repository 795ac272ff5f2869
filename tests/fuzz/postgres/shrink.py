"""A case that fails, made smaller while it still fails in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from tests.fuzz.postgres.case import Action, Case, Table, Transaction
from tests.fuzz.shrink import smallest, without

Fails = Callable[[Case], str | None]
_TRIES = 250


def repeated(case: Case, journal: Mapping[int, Sequence[str]]) -> Case:
    """What was committed, in its order, by one connection: the same each time."""
    history = tuple(
        Transaction("READ COMMITTED", tuple(Action("REPEAT", "", statement) for statement in statements))
        for statements in journal.values()
    )
    return replace(case, sessions=(history,), late=(), turns=())


def shrunk(case: Case, fails: Fails, tries: int = _TRIES) -> Case:
    """`fails` tells the kind of a failure, None where there is none."""
    return smallest(case, fails, _smaller, tries)


def _smaller(case: Case) -> Iterator[Case]:
    """Bold cuts first."""
    for whole in (_fewer_queries, _fewer_transactions, _fewer_tables, _fewer_rows, _fewer_actions):
        yield from whole(case)


def _fewer_queries(case: Case) -> Iterator[Case]:
    if len(case.queries) > 1:
        yield from (replace(case, queries=(query,), late=(), turns=()) for query in case.queries)


def _fewer_transactions(case: Case) -> Iterator[Case]:
    for place, session in enumerate(case.sessions):
        for fewer in without(session):
            yield replace(case, sessions=(*case.sessions[:place], fewer, *case.sessions[place + 1 :]))


def _fewer_tables(case: Case) -> Iterator[Case]:
    """Those that no query names: a statement that names one goes with it."""
    for table in case.tables:
        if not any(table.name in query.sql for query in case.queries) and not _referred(case, table):
            yield replace(
                case,
                tables=tuple(each for each in case.tables if each is not table),
                rows=tuple(row for row in case.rows if row.table != table.name),
                sessions=tuple(tuple(_but(each, table.name) for each in session) for session in case.sessions),
            )


def _referred(case: Case, table: Table) -> bool:
    return any(one.table == table.name for each in case.tables for one in each.references)


def _but(transaction: Transaction, name: str) -> Transaction:
    kept = (action for action in transaction.actions if action.table != name and f" {name} " not in action.text)
    return replace(transaction, actions=tuple(kept))


def _fewer_rows(case: Case) -> Iterator[Case]:
    for rows in without(case.rows):
        yield replace(case, rows=rows)


def _fewer_actions(case: Case) -> Iterator[Case]:
    for place, session in enumerate(case.sessions):
        for number, transaction in enumerate(session):
            for actions in without(transaction.actions):
                changed = (*session[:number], replace(transaction, actions=actions), *session[number + 1 :])
                yield replace(case, sessions=(*case.sessions[:place], changed, *case.sessions[place + 1 :]))
