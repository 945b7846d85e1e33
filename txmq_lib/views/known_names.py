"""Whether a name that a filter asks for has landed at all, and which ones come nearest. Reads columns of names only."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from txmq_lib.views.column_sql import quoted
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.scan import Scan
from txmq_lib.views.view import View

JOB, REASON = "job", "reason"
HALVES, MESSAGES, GIVEN_UP, ENDS = "half_message", "message", "trans_check_max_time", "end_transaction"
# Where a name stands that has landed, by the column that a filter compares.
PLACES: Mapping[str, tuple[tuple[str, str], ...]] = {
    "broker_name": tuple(
        (table, "broker_name")
        for table in ("broker", "landing_frontier", "consumer_offset_commit", "consumer_ack", ENDS, "quarantine")
    ),
    "producer_group": tuple((table, "producer_group") for table in (HALVES, ENDS, MESSAGES, GIVEN_UP)),
    "consumer_group": tuple((table, "consumer_group") for table in ("consumer_offset_commit", "consumer_ack")),
    "topic": tuple((table, "topic") for table in ("landing_frontier", MESSAGES, "consumer_offset_commit")),
    "real_topic": ((HALVES, "real_topic"), (MESSAGES, "topic"), (GIVEN_UP, "real_topic")),
    JOB: (("pass", JOB),),
    "transaction_id": tuple((table, "transaction_id") for table in (HALVES, ENDS, MESSAGES, GIVEN_UP)),
}
MOST_NAMES = 10_000  # looked through for near ones
NEAR_ONES = 3
LEAST_OF_ID = 12  # characters of one that say which it is


@dataclass(frozen=True)
class UnknownName:
    """A name that nothing which landed has, and those there are that look most like it."""

    option: str
    name: str
    near: tuple[str, ...]

    def __str__(self) -> str:
        hint = f"; there is {', '.join(self.near)}" if self.near else ""
        if self.option == REASON:
            return f"there is no reason {self.name}{hint}"
        return f"no {self.option} {self.name} has {'run' if self.option == JOB else 'landed'}{hint}"


def unknown_names(reader: WarehouseReader, view: View, filters: Mapping[str, Sequence[str]]) -> list[UnknownName]:
    """The values of `filters` (option of the view to values) that no landed row has; none where each is known.

    A reason is known without a row, too. A state is no name: it was looked at before anything is read.
    """
    unknown = []
    for option, values in filters.items():
        column = view.filters[option][0]
        if option == REASON:
            unknown += _unknown_reasons(reader, view, column, values)
        elif column in PLACES:
            landed = landed_names(reader, column, values)
            missing = [value for value in values if value not in landed]
            unknown += [UnknownName(option, value, near_names(reader, column, value)) for value in missing]
    return unknown


def _unknown_reasons(reader: WarehouseReader, view: View, column: str, reasons: Sequence[str]) -> list[UnknownName]:
    if not {*reasons} - {*view.reasons}:
        return []
    known = {*view.reasons, *_names_of(reader, view.table, column)}
    return [UnknownName(REASON, each, _nearest(known, each)) for each in reasons if each not in known]


def landed_names(reader: WarehouseReader, column: str, names: Sequence[str]) -> set[str]:
    """Those of `names` that a landed row has; `column` is one of PLACES."""
    missing = set(names)
    for table, of_table in PLACES[column]:
        if missing:
            missing -= _those_in(reader, table, of_table, sorted(missing))
    return {*names} - missing


def _those_in(reader: WarehouseReader, table: str, column: str, names: Sequence[str]) -> set[str]:
    scan = Scan(table, (column,), where=({column: names},))
    listed = ", ".join("?" * len(names))
    sql = f"SELECT DISTINCT {quoted(column)} FROM base WHERE {quoted(column)} IN ({listed})"
    return {row[0] for row in reader.query(sql, list(names), {"base": scan})}


def near_names(reader: WarehouseReader, column: str, name: str) -> tuple[str, ...]:
    """Names that have landed and look most like `name`; of ids those that begin with it, in whatever case."""
    if column == "transaction_id":
        return _ids_that_begin_with(reader, name)
    return _nearest({each for place in PLACES[column] for each in _names_of(reader, *place)}, name)


def _names_of(reader: WarehouseReader, table: str, column: str) -> set[str]:
    sql = f"SELECT DISTINCT {quoted(column)} FROM base WHERE {quoted(column)} IS NOT NULL LIMIT {MOST_NAMES}"
    return {row[0] for row in reader.query(sql, [], {"base": Scan(table, (column,))})}


def _nearest(names: set[str], name: str) -> tuple[str, ...]:
    by_folded = {each.casefold(): each for each in sorted(names)}
    found = difflib.get_close_matches(name.casefold(), by_folded, NEAR_ONES, cutoff=0.5)
    return tuple(by_folded[each] for each in found)


def _ids_that_begin_with(reader: WarehouseReader, typed: str) -> tuple[str, ...]:
    """Of millions of ids one that merely looks alike says nothing; one that was cut off, or written small, does."""
    if len(typed) < LEAST_OF_ID:
        return ()
    sql = f"""
        SELECT DISTINCT transaction_id FROM base WHERE starts_with(upper(transaction_id), upper(?))
        ORDER BY transaction_id LIMIT {NEAR_ONES}"""
    return tuple(row[0] for row in reader.query(sql, [typed], {"base": Scan(HALVES, ("transaction_id",))}))
