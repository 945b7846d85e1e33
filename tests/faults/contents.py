"""Every row of a warehouse in a form that two runs can be compared by; reads without a JVM."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from txmq_lib.names import JOB_MAINTAIN, ORIGIN_ACK
from txmq_lib.passes.pass_log import COMMITTED, STARTED

# A job run once more after its pass was committed takes a number for nothing: what counts is all but the numbers.
NUMBERS = {"landed_pass", "pass_number", "last_report_landed_pass"}
OF_THE_PROCESS = {"wall_timestamp", "seconds", "plan_id", "started_by", "input_versions", "since_versions", "counts"}
OTHER = "other-"  # begins the names of brokers that were landed beside
END_SOURCE = re.compile(r"^(end_transaction:\w+):\d+:")
# Whether tasks or Spark write what lands, and in what stretches, depends on the place of the warehouse.
OF_THE_WAY = ("task_bytes", "are_files_written_by_tasks", "cuts")
LANDED_PASS = re.compile(r'"landed_pass":\d+,')
# The demo unpacks what it lands, each time into a place of its own.
UNPACKED = re.compile(r"(?:'modified_ms': \d+, 'path': ')?[^']*/txmq-scratch-\w+/\w+/")


def contents(warehouse: Path, *, is_of_the_clock: bool = False) -> dict[str, Counter[str]]:
    """How often each row is in each table; of the pass log, the settings and arguments of what was committed.

    What was done beside, for brokers named OTHER or by maintain, is left out.
    Passes that were begun and given up are no difference: that a job failed is in the log, and shall be.
    is_of_the_clock  whether passes took their `now` from the clock, so that it is another one each time
    """
    found = {}
    of_the_process = OF_THE_PROCESS | ({"now"} if is_of_the_clock else set())
    for place in sorted(path for path in warehouse.iterdir() if (path / "_delta_log").is_dir()):
        every: list[dict[str, Any]] = DeltaTable(str(place)).to_pyarrow_table().to_pylist()
        rows = [row for row in every if not _is_beside(row)]
        if place.name == "pass":
            committed = {_form(row, NUMBERS | of_the_process) for row in rows if row["state"] == COMMITTED}
            found[place.name] = Counter(committed)
        else:
            found[place.name] = Counter(_form(row, NUMBERS) for row in rows)
    return found


def committed(warehouse: Path) -> Counter[str]:
    """How many passes of each job were committed."""
    return Counter(row["job"] for row in _passes(warehouse) if row["state"] == COMMITTED)


def open_passes(warehouse: Path, *, of_upkeep: bool) -> list[tuple[str, int]]:
    """Job and number of each pass that was begun and neither committed nor given up; upkeep is killed at will beside."""
    states = defaultdict(set)
    for row in _passes(warehouse):
        if not _is_beside(row) or (of_upkeep and row["job"] == JOB_MAINTAIN):
            states[row["job"], row["pass_number"]].add(row["state"])
    return sorted(name for name, seen in states.items() if seen == {STARTED})


def done_beside(warehouse: Path) -> tuple[int, int]:
    """How many landings were committed beside, and how many files compacted."""
    rows = _passes(warehouse)
    done = [row for row in rows if row["state"] == COMMITTED and _is_beside(row)]
    files = sum(dict(row["counts"]).get("compacted_files", 0) for row in done if row["job"] == JOB_MAINTAIN)
    return sum(row["job"] == "land" for row in done), files


def differences(expected: dict[str, Counter[str]], found: dict[str, Counter[str]]) -> dict[str, tuple[int, int]]:
    """Per table that differs: rows lost, rows too many (a row twice is one too many)."""
    differing = {}
    for table in expected.keys() | found.keys():
        lost, extra = expected[table] - found[table], found[table] - expected[table]
        if lost or extra:
            differing[table] = (lost.total(), extra.total())
    return differing


def differences_if_done_twice(
    expected: dict[str, Counter[str]], found: dict[str, Counter[str]]
) -> dict[str, tuple[int, int]]:
    """As `differences`, but that passes may be too many: one that had committed may be done once more for nothing."""
    return {
        table: (lost, extra) for table, (lost, extra) in differences(expected, found).items() if table != "pass" or lost
    }


def _passes(warehouse: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = DeltaTable(str(warehouse / "pass")).to_pyarrow_table().to_pylist()
    return rows


def _is_beside(row: dict[str, Any]) -> bool:
    document = json.loads(row.get("arguments") or "{}")
    broker = row.get("broker_name") or document.get("broker_name") or ""
    return broker.startswith(OTHER) or row.get("job") == JOB_MAINTAIN


def _form(row: dict[str, Any], left_out: set[str]) -> str:
    kept = {name: _without_numbers(value) for name, value in row.items() if name not in left_out}
    if kept.get("origin") == ORIGIN_ACK and "content_hash" in kept:
        kept["content_hash"] = None  # what an acknowledgement reports is told apart by its landing, too
    if "checkpoints" in kept:
        kept["checkpoints"] = sorted(entry for entry in kept["checkpoints"] if not entry[0].startswith(OTHER))
    if kept.get("arguments"):
        said = json.loads(kept["arguments"])
        kept["arguments"] = sorted((name, value) for name, value in said.items() if name not in OF_THE_WAY)
    if kept.get("source"):
        kept["source"] = END_SOURCE.sub(r"\1:", kept["source"])
    if LANDED_PASS.search(kept.get("raw") or ""):
        # A refused end is kept as its row was, and its fingerprint is that of this text.
        kept |= {"raw": LANDED_PASS.sub("", kept["raw"]), "fingerprint": None}
    return UNPACKED.sub("", str(sorted(kept.items())))


def _without_numbers(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_numbers(item) for item in value]
    if isinstance(value, dict):
        return {name: _without_numbers(item) for name, item in value.items() if name not in NUMBERS}
    return value
