"""What a contender wrote, as counts and sums of its files: a wrong result must not win by being quick."""

from __future__ import annotations

from pathlib import Path

import duckdb

from tests.bench.warehouses import data_files

Digest = dict[str, tuple[int | str, ...]]

# A number of its own for each half, so that two swapped queue offsets change the sum.
QUERIES = {
    "end_outcome": """select outcome, decision, count(*), sum(commit_log_offset) from {} group by all order by all""",
    "message": """select topic, queue_id, count(*), min(queue_offset), max(queue_offset),
        sum((queue_offset + 1) * (prepared_transaction_offset // 512 % 9973)), sum(octet_length(body)),
        sum(len(map_keys(properties))), sum(sys_flag) from {} group by all order by all""",
    "op_message": """select queue_id, count(*), sum((queue_offset + 1) * (half_queue_offset % 9973)) from {}
        group by all order by all""",
    "pending_half": "select count(*), sum(queue_offset), sum(commit_log_offset) from {}",
    "check_request": "select count(*), sum(commit_log_offset), sum(check_times) from {}",
}


class ResultsDifferError(Exception):
    """Two contenders of one benchmark wrote different things."""


def digest(place: Path) -> Digest:
    """Counts and sums of every table written under `place`."""
    found = {}
    with duckdb.connect() as database:
        for table, query in QUERIES.items():
            source = f"read_parquet({data_files(place / table)!r}, hive_partitioning = false)"
            found[table] = tuple(tuple(map(str, row)) for row in database.execute(query.format(source)).fetchall())
    return found


def must_agree(name: str, ours: Digest, other: str, theirs: Digest) -> None:
    """ResultsDifferError with the first lines that differ, for each table that does."""
    differences = []
    for table, rows in ours.items():
        if rows != theirs[table]:
            pairs = [pair for pair in zip(rows, theirs[table], strict=False) if pair[0] != pair[1]][:3]
            differences.append(f"{table}: {len(rows)} and {len(theirs[table])} lines, {pairs}")
    if differences:
        raise ResultsDifferError(f"{name} and {other} wrote different things\n" + "\n".join(differences))
