"""What tasks write from Arrow is what Spark would have written, record by record; whoever is killed where, once."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import zstandard
from captured import unpack_store
from house import House, Killed
from odd_log import write_odd_store
from pyspark.sql import DataFrame
from record_encoder import encode_record, encode_records, write_log
from truth import CAPTURES

from txmq_lib.passes import frames
from txmq_lib.passes.current import Pass
from txmq_lib.pipeline.land.files import line_landing
from txmq_lib.pipeline.land.kinds import MESSAGE_TABLES
from txmq_lib.pipeline.land.records import files_of_tasks, record_files
from txmq_lib.pipeline.land.store import log_landing, store_landing
from txmq_lib.rocketmq.store import commit_log
from txmq_lib.spark import local_frame

MIB = 1 << 20
ZSTD = 0x201
APPENDS = ("half_message", "op_message", "trans_check_max_time", "message")


def contents(house: House) -> dict[str, list[str]]:
    """Every row of every table but the pass log, in some fixed order; so are the entries of maps, which have none."""

    def told(row: Mapping[str, Any]) -> str:
        ordered = {name: sorted(value.items()) if isinstance(value, dict) else value for name, value in row.items()}
        return str(sorted(ordered.items(), key=str))

    return {table: sorted(told(row) for row in house.rows(table)) for table in sorted(house.versions())}


@pytest.fixture
def by_spark(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], Any]:
    """A function that calls another where tasks cannot write."""

    def called(work: Callable[[], Any]) -> Any:
        with monkeypatch.context() as elsewhere:
            elsewhere.setattr(files_of_tasks, "can_write", lambda warehouse: False)
            return work()

    return called


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logs are cut wherever they can be, so that tasks of Spark read them."""
    monkeypatch.setattr(commit_log, "CUT_BYTES", 1)
    monkeypatch.setattr(commit_log, "FEW_RECORDS", 8)
    monkeypatch.setattr(files_of_tasks, "TASKS_PER_CORE", 8)


def test_captures_land_as_spark_lands_them(open_house, copied, by_spark, tmp_path, in_parts):
    store = unpack_store("basic", tmp_path)
    ours = open_house("role=audit")
    theirs = copied(ours, "theirs")
    report, other = ours.land_store(store), by_spark(lambda: theirs.land_store(store))
    assert contents(ours) == contents(theirs)
    assert {name: count for name, count in report.counts.items() if count} == {
        name: count for name, count in other.counts.items() if count
    }


@pytest.mark.parametrize("role", ["audit", pytest.param("engine", marks=pytest.mark.long)])
@pytest.mark.parametrize("repeats", [pytest.param(False, marks=pytest.mark.long), True])
def test_odd_records_land_as_spark_lands_them(open_house, copied, by_spark, tmp_path, in_parts, role, repeats):
    store = write_odd_store(tmp_path / "store", repeats=repeats)
    ours = open_house(f"role={role}")
    theirs = copied(ours, "theirs")
    report, other = ours.land_store(store), by_spark(lambda: theirs.land_store(store))
    for table, rows in contents(theirs).items():
        assert contents(ours)[table] == rows, table
    assert {name: count for name, count in report.counts.items() if count} == {
        name: count for name, count in other.counts.items() if count
    }


def test_many_suspects_are_read_once_more_by_tasks(open_house, copied, by_spark, tmp_path, in_parts, monkeypatch):
    store = write_odd_store(tmp_path / "store")
    ours = open_house("role=audit")
    theirs = copied(ours, "theirs")
    by_spark(lambda: theirs.land_store(store))
    monkeypatch.setattr("txmq_lib.pipeline.land.store.store_landing.MATERIALIZED_BYTES", 0)
    ours.land_store(store)
    assert contents(ours) == contents(theirs)


# A few bytes of text each: most of what they hold in Spark is beside it.
MANY_PROPERTIES = "".join(f"{number:x}\x01v\x02" for number in range(5000)).encode()


@pytest.mark.parametrize(
    ("large", "most_held"),
    [
        ({"body": zstandard.ZstdCompressor().compress(bytes(MIB)), "sys_flag": ZSTD}, MIB),
        ({"properties": MANY_PROPERTIES}, MIB // 8),
    ],
    ids=["bodies", "properties"],
)
def test_a_small_log_of_large_records_is_not_held_by_the_driver(open_house, tmp_path, monkeypatch, large, most_held):
    log = bytearray()
    for offset in range(8):
        log += encode_record(len(log), queue_offset=offset, **(large if offset % 2 else {}))
    monkeypatch.setattr(store_landing, "MATERIALIZED_BYTES", MIB)
    monkeypatch.setattr(frames, "MATERIALIZED_BYTES", MIB)
    held: list[int] = []

    def materialized(frame: DataFrame) -> tuple[DataFrame, int]:
        held.append(frame.toArrow().nbytes)
        return local_frame.materialized(frame)

    monkeypatch.setattr(frames, "materialized", materialized)
    house = open_house("role=audit")
    house.land_store(write_log(tmp_path / "store", [bytes(log)], file_size=MIB))
    rows = house.rows("message")
    assert len([row for row in rows if len(row["body"] or b"") == MIB or len(row["properties"]) > 4000]) == 4
    assert max(held, default=0) < most_held


def test_what_landed_before_lands_no_second_time(open_house, tmp_path):
    house = open_house("role=audit")
    store = unpack_store("basic", tmp_path)
    house.land_store(store)
    before = {table: contents(house)[table] for table in APPENDS}
    # As after a restore of this one table: the log is read from its beginning.
    house.warehouse.spark.sql(f"delete from delta.`{house.warehouse.path('landing_frontier')}`")
    report = house.land_store(store)
    assert {table: contents(house)[table] for table in APPENDS} == before
    assert report.counts["already_there"] > 0
    assert contents(house)["quarantine"] == []


def test_another_log_in_place_of_the_first_conflicts_with_it(open_house, tmp_path):
    house = open_house("role=audit")
    write_log(tmp_path / "store", [encode_records(0, 5)])
    house.land_store(tmp_path / "store")
    write_log(tmp_path / "store", [encode_records(0, 7, body=b"another")])
    report = house.land_store(tmp_path / "store")
    assert (report.counts["rebuilt"], report.counts["message"], report.counts["quarantine_message"]) == (1, 2, 5)


@pytest.mark.parametrize("table", APPENDS)
def test_a_landing_killed_before_and_after_a_commit_ends_as_if_never_killed(
    open_house, copied, tmp_path, monkeypatch, table
):
    store = unpack_store("basic", tmp_path)
    killed = open_house("role=audit")
    whole = copied(killed, "whole")
    whole.land_store(store)
    append_files = Pass.append_files

    def dying(self: Pass, named: str, files: Any, *, step: str) -> int:
        if named == table:
            assert files
            raise Killed(f"between the files of {table} and their commit")
        return append_files(self, named, files, step=step)

    monkeypatch.setattr(Pass, "append_files", dying)
    with pytest.raises(Killed):
        killed.land_store(store)
    monkeypatch.setattr(Pass, "append_files", append_files)
    with killed.killed_after(next(kind for kind, its in MESSAGE_TABLES.items() if its == table)):
        killed.land_store(store)
    killed.land_store(store)
    assert contents(killed) == contents(whole)


def test_a_landing_killed_while_its_tasks_write_leaves_nothing_that_is_seen(
    open_house, copied, tmp_path, monkeypatch, in_parts
):
    store = unpack_store("basic", tmp_path)
    killed = open_house("role=audit")
    whole = copied(killed, "whole")
    whole.land_store(store)
    in_tasks = log_landing.in_tasks

    def dying(spark: Any, work: Any, parts: Any) -> Any:
        in_tasks(spark, work, parts[: len(parts) // 2])
        raise Killed("some tasks are done, and the others are not")

    monkeypatch.setattr(log_landing, "in_tasks", dying)
    with pytest.raises(Killed):
        killed.land_store(store)
    monkeypatch.setattr(log_landing, "in_tasks", in_tasks)
    killed.land_store(store)
    assert contents(killed) == contents(whole)


def test_of_two_processes_on_one_plan_one_writes(open_house, copied, tmp_path, monkeypatch):
    store = unpack_store("basic", tmp_path)
    house = open_house("role=audit")
    whole = copied(house, "whole")
    whole.land_store(store)
    other = House(type(house.warehouse)(house.warehouse.spark, house.warehouse.uri), house.scratch, house.settings)
    append_files = Pass.append_files

    def overtaken(self: Pass, table: str, files: Any, *, step: str) -> int:
        monkeypatch.setattr(Pass, "append_files", append_files)
        other.land_store(store)  # carries the same plan on to its end
        return append_files(self, table, files, step=step)

    monkeypatch.setattr(Pass, "append_files", overtaken)
    house.land_store(store)
    assert contents(house) == contents(whole)


def test_a_plan_of_tasks_is_given_up_where_no_task_can_write(open_house, copied, tmp_path, by_spark):
    store = unpack_store("basic", tmp_path)
    house = open_house("role=audit")
    whole = copied(house, "whole")
    whole.land_store(store)
    with house.killed_after("half"):
        house.land_store(store)
    by_spark(lambda: house.land_store(store))
    found, expected = contents(house), contents(whole)
    assert [len(found[table]) for table in APPENDS] == [len(expected[table]) for table in APPENDS]
    states = [(row["pass_number"], row["state"]) for row in house.rows("pass") if row["job"] == "land"]
    assert sorted(states) == [(1, "abandoned"), (1, "started"), (2, "committed"), (2, "started")]


ODD_LINES = [
    "{torn",
    '{"topic": "T"}',
    '{"topic": "RMQ_SYS_TRANS_HALF_TOPIC", "queueId": "0"}',
    "[]",
]


def given_lines(kind: str) -> list[str]:
    """Lines of a capture, and after every fortieth one that is odd."""
    name = {"half": "half", "op": "op", "message": "visible"}[kind]
    with gzip.open(CAPTURES / "basic" / f"{name}.jsonl.gz", "rt", encoding="utf-8") as file:
        lines = [line.rstrip("\n") for line in file]
    fields = json.loads(lines[0])
    # Good all the same, or good once more.
    odd = [
        *ODD_LINES,
        json.dumps({**fields, "queueOffset": 9_000_000, "properties": {"a": None, "TAGS": "d"}}),
        json.dumps({**fields, "queueOffset": 9_000_001, "more": {"a": [1]}}),
        json.dumps({**fields, "queueOffset": 9_000_002, "topic": "Another"}),
        json.dumps({**fields, "queueOffset": 9_000_003, "bodyBase64": "MSwyLHgs"}),
    ]
    for place, line in enumerate(odd):
        lines.insert(40 * place, line)
    return lines


@pytest.mark.parametrize(
    ("kind", "role"),
    [
        *(pytest.param(kind, "audit", marks=pytest.mark.long) for kind in ("half", "op", "message")),
        ("half", "engine"),
    ],
)
@pytest.mark.parametrize("repeats", [pytest.param(False, marks=pytest.mark.long), True])
def test_lines_land_as_spark_lands_them(open_house, copied, by_spark, kind, role, repeats, monkeypatch):
    monkeypatch.setattr(line_landing, "LEAST_TASK_BYTES", 1)
    lines = given_lines(kind)
    # What is in doubt may have the key of what is not.
    lines += [lines[1].replace('"topic"', '"more": {}, "topic"', 1)] if repeats else []
    ours = open_house(f"role={role}")
    theirs = copied(ours, "theirs")
    path = ours.scratch / "lines.jsonl"
    path.write_text("\n".join(lines), encoding="utf-8")
    report, other = ours.land(kind, path), by_spark(lambda: theirs.land(kind, path))
    for table, rows in contents(theirs).items():
        assert contents(ours)[table] == rows, table
    assert {name: count for name, count in report.counts.items() if count} == {
        name: count for name, count in other.counts.items() if count
    }
    assert ours.warehouse.log(MESSAGE_TABLES[kind]).operation(1) == "WRITE"


def test_lines_killed_before_and_after_their_commit_land_once(open_house, copied, monkeypatch):
    killed = open_house("role=audit")
    whole = copied(killed, "whole")
    path = killed.scratch / "lines.jsonl"
    path.write_text("\n".join(given_lines("half")), encoding="utf-8")
    whole.land("half", path)
    append_files = Pass.append_files

    def dying(self: Pass, table: str, files: Any, *, step: str) -> int:
        raise Killed(f"between the files of {table} and their commit")

    monkeypatch.setattr(Pass, "append_files", dying)
    with pytest.raises(Killed):
        killed.land("half", path)
    monkeypatch.setattr(Pass, "append_files", append_files)
    for step in ("half", "half_suspects"):
        with killed.killed_after(step):
            killed.land("half", path)
    killed.land("half", path)
    assert contents(killed) == contents(whole)


def test_lines_that_landed_before_land_no_second_time(open_house):
    house = open_house("role=audit")
    path = house.scratch / "lines.jsonl"
    path.write_text("\n".join(given_lines("message")), encoding="utf-8")
    house.land("message", path)
    before = contents(house)
    report = house.land("message", path)
    assert contents(house) == before
    assert report.counts["already_there"] == len(house.rows("message"))


def test_stretches_cover_a_log_without_a_gap():
    files = [commit_log.LogFile("a", 0, 100), commit_log.LogFile("b", 100, 100)]
    parts = log_landing.stretches(files, 10, 190, [120, 150, 190])
    assert [(part.start, part.stop) for part in parts] == [(10, 100), (100, 120), (120, 150), (150, 190)]
    assert record_files.RecordReading.from_json(READING.to_json()) == READING


READING = record_files.RecordReading(record_files.Landing("b", 1, True), {"message": "/w"}, ("a*",), 5, 6)
