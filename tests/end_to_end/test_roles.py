"""A broker's role forgotten, changed or said too late: nothing is decided under another role than its rows were made."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
import truth
from histories import HALF_TOPIC, OP_TOPIC, message_row
from house import BROKER, House, said_of_brokers, wall_clock
from moment import NOW
from small_log import SmallLog

from txmq_lib.cli.run.sending import requests_planned
from txmq_lib.config.settings import Settings
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.errors import SettingsError, TxmqError
from txmq_lib.passes.current import PassReport
from txmq_lib.pipeline.cycle import run_cycle, run_sources
from txmq_lib.pipeline.decision_request import DecisionRequest, ToSend
from txmq_lib.pipeline.decisions import decide
from txmq_lib.pipeline.land.files import line_landing
from txmq_lib.pipeline.reconcile import job as reconcile
from txmq_lib.pipeline.resolve import run_resolve
from txmq_lib.pipeline.take_back import run_take_back
from txmq_lib.pipeline.to_broker.job import run_to_broker

NOW_MS, HOUR_MS = int(NOW.timestamp() * 1000), 3_600_000
HALF = {"UNIQ_KEY": "T1", "PGROUP": "GID_A", "REAL_TOPIC": "Topic", "REAL_QID": "0", "TRAN_MSG": "true"}
FILES = {"half": "half", "op": "op", "message": "visible", "max-time": "max_time"}


def stored(topic: str, place: int, properties: dict[str, str] = HALF, **more: Any) -> dict[str, Any]:
    """A message of T1, or about it, as a broker stored it at a physical offset."""
    fields = {"queue_offset": 1, "born_ms": NOW_MS - 60_000, "body": "body", **more}
    return message_row(topic, place=place, stored_ms=NOW_MS - 60_000 + place, properties=properties, **fields)


def end(code: int = 8, *, ts_ms: int = NOW_MS - 50_000, place: int = 1_000, queue_offset: int = 1) -> dict[str, Any]:
    """An END_TRANSACTION for T1: 8 commits, 12 rolls back."""
    header = {"producerGroup": "GID_A", "tranStateTableOffset": queue_offset, "commitLogOffset": place}
    of_end = {"commitOrRollback": code, "fromTransactionCheck": False, "msgId": "T1", "transactionId": "T1"}
    return {"ts": ts_ms, "header": {**header, **of_end}}


def under(house: House, *assignments: str) -> House:
    """The same warehouse under other settings, as the next command may have them."""
    return replace(house, settings=Settings.load(assignments=assignments, warehouse=house.warehouse.uri))


@contextmanager
def refused(house: House) -> Iterator[None]:
    """What is inside ends with ROLE_CHANGED, and no table has moved, nor is a plan left."""
    before, plans = house.versions(), len(house.rows("pass"))
    with pytest.raises(TxmqError) as caught:
        yield
    assert caught.value.code == "ROLE_CHANGED", caught.value
    assert (house.versions(), len(house.rows("pass"))) == (before, plans)


def visible(house: House) -> int:
    return len(house.rows("message"))


def verdicts(house: House) -> dict[str, str]:
    return {row["transaction_id"]: row["verdict"] for row in house.rows("verdict")}


def test_a_capture_that_was_audited_gets_no_second_messages_where_the_role_is_left_at_its_default(open_house):
    house = open_house("role=audit")
    for kind, name in FILES.items():
        house.land(kind, truth.CAPTURES / "mixed" / f"{name}.jsonl.gz")
    house.audit()
    before, forgotten = visible(house), under(house)
    with refused(house):
        forgotten.land("end", truth.CAPTURES / "mixed" / "ends.jsonl.gz")
    house.land("end", truth.CAPTURES / "mixed" / "ends.jsonl.gz")
    for job in (forgotten.reconcile, lambda: forgotten.reconcile(dry_run=True), forgotten.audit):
        with refused(house):
            job()
    house.reconcile()
    assert visible(house) == before


def given_role(house: House, role: str, broker: str = BROKER) -> House:
    """The way out: what was decided taken back, and the broker's role from now on another."""
    right = under(house, f"role={role}")
    run_take_back(
        right.warehouse,
        right.settings,
        broker_name=broker,
        now=NOW,
        wall_clock=wall_clock,
        tell=lambda rows: None,
        decisions=True,
    )
    return right


@pytest.mark.long
def test_an_end_judged_for_an_audited_broker_decides_nothing_once_txmq_decides(open_house):
    house = open_house("role=audit")
    house.land_rows("half", [stored(HALF_TOPIC, 1_000)])
    house.land_rows("end", [end()])
    house.reconcile()
    house.audit()
    again = [end(ts_ms=NOW_MS - 40_000)]
    with refused(house):
        under(house, "role=engine").land_rows("end", again)
    engine = given_role(house, "engine")
    with refused(house):
        house.reconcile()
    engine.land_rows("end", again)
    engine.reconcile()
    engine.audit()
    assert [row["outcome"] for row in house.rows("end_outcome")] == ["accepted", "repeated"]
    assert (visible(house), verdicts(house)) == (1, {"T1": "COMMITTED"})


BROKERS_OWN = {
    "half": [stored(HALF_TOPIC, 1_000)],
    "message": [stored("Topic", 2_000, sys_flag=8, prepared=1_000, queue_offset=7)],
    "op": [stored(OP_TOPIC, 3_000, {"TAGS": "d"}, queue_offset=0, body="1,")],
}


@pytest.mark.parametrize(
    ("kinds", "code", "outcome", "verdict"),
    [
        pytest.param(("half", "message", "op"), 8, "repeated", "COMMITTED", marks=pytest.mark.long),
        # Nothing tells whether its op was that of a commit or of a rollback.
        (("half", "op"), 8, "repeated", "RESOLVED_UNKNOWN"),
        pytest.param(("half", "message"), 12, "contradicting", "CONFLICT", marks=pytest.mark.long),
        pytest.param(("half", "op"), 12, "repeated", "RESOLVED_UNKNOWN", marks=pytest.mark.long),
    ],
)
def test_what_a_broker_has_decided_is_decided_when_txmq_takes_over(open_house, kinds, code, outcome, verdict):
    house = open_house("role=audit")
    for kind in kinds:
        house.land_rows(kind, BROKERS_OWN[kind])
    house.audit()
    with refused(house):
        under(house).land_rows("end", [end(code)])
    with refused(house):
        under(house).reconcile()
    before = {name: house.rows(name) for name in ("message", "op_message")}
    engine = given_role(house, "engine")
    engine.land_rows("end", [end(code)])
    engine.reconcile()
    engine.audit()
    assert [row["outcome"] for row in house.rows("end_outcome")] == [outcome]
    assert {name: house.rows(name) for name in before} == before
    assert verdicts(house) == {"T1": verdict}


@pytest.mark.long
def test_what_a_broker_has_decided_is_decided_though_its_rows_met_those_of_txmq(open_house):
    second = {**HALF, "UNIQ_KEY": "T2"}
    brokers_own = {
        "message": [stored("Topic", 2_000, second, sys_flag=8, prepared=1_500, queue_offset=0)],
        "op": [stored(OP_TOPIC, 3_000, {"TAGS": "d"}, queue_offset=0, body="2,")],
    }
    met = {"both": ("message", "op"), "op": ("op",), "message": ("message",)}
    house = open_house()
    for broker in met:
        halves = [stored(HALF_TOPIC, 1_000), stored(HALF_TOPIC, 1_500, second, queue_offset=2)]
        house.land_rows("half", halves, broker=broker)
        house.land_rows("end", [end()], broker=broker)
    house.reconcile()
    house.audit()
    end_of_second = end(place=1_500, queue_offset=2)["header"] | {"msgId": "T2", "transactionId": "T2"}
    for broker, kinds in met.items():
        for kind in kinds:
            house.land_rows(kind, brokers_own[kind], broker=broker)
        house.land_rows("end", [{"ts": NOW_MS - 40_000, "header": end_of_second}], broker=broker)
    assert {row["reason"] for row in house.rows("quarantine")} == {"KEY_CONFLICT"}
    house.reconcile()
    assert [row["transaction_id"] for row in house.rows("message")] == ["T1", "T1", "T1"]
    house.audit()
    expected = {"T1": ("accepted", "COMMITTED", "visible"), "T2": ("repeated", "PENDING", "op_unread")}
    outcomes = {(row["broker_name"], row["transaction_id"]): row["outcome"] for row in house.rows("end_outcome")}
    assert {key: (outcomes[key], *found) for key, found in said_of_brokers(house).items()} == {
        (broker, name): found for broker in met for name, found in expected.items()
    }


@pytest.mark.long
def test_a_broker_landed_as_engine_by_mistake_gets_its_own_verdicts_once_that_is_taken_back(open_house):
    house = open_house()
    house.land_rows("half", BROKERS_OWN["half"])
    house.land_rows("end", [end()])
    house.reconcile()
    house.audit()
    assert (visible(house), verdicts(house)) == (1, {"T1": "COMMITTED"})
    # What the broker did: it rolled back, and its op lies where txmq wrote its own.
    audit = under(house, "role=audit")
    for job in (audit.reconcile, audit.audit, lambda: audit.land_rows("op", BROKERS_OWN["op"])):
        with refused(house):
            job()
    house.land_rows("op", BROKERS_OWN["op"])
    assert [row["reason"] for row in house.rows("quarantine")] == ["KEY_CONFLICT"]
    audit = given_role(house, "audit")
    left = {name: len(house.rows(name)) for name in ("half_message", "end_transaction", "message", "op_message")}
    assert left == {"half_message": 1, "end_transaction": 1, "message": 0, "op_message": 0}
    assert not any(house.rows(name) for name in ("end_outcome", "pending_half", "verdict", "quarantine"))
    assert {(row["topic"], row["next_offset"]) for row in house.rows("landing_frontier")} == {(HALF_TOPIC, 2)}
    audit.land_rows("op", BROKERS_OWN["op"])
    audit.reconcile()
    audit.audit()
    assert (visible(house), verdicts(house)) == (0, {"T1": audited(open_house)})
    assert house.rows("quarantine") == []
    with refused(house):
        under(house).audit()


@pytest.mark.long
def test_what_a_landed_row_kept_out_is_still_known_once_decisions_were_taken_back(open_house):
    house = open_house("role=audit")
    cases = {"kept-out": kept_out, "anew": anew, "op-kept-out": op_kept_out}
    for broker, case in cases.items():
        case(partial(house.land_rows, broker=broker))
    house.audit()
    before, bad = said_of_brokers(house), house.rows("quarantine")
    for broker in cases:
        given_role(house, "audit", broker)
    assert house.rows("verdict") == []
    house.audit()
    assert said_of_brokers(house) == before == {
        ("kept-out", "done"): ("RESOLVED_UNKNOWN", "quarantined"),
        ("anew", "done"): ("RESOLVED_UNKNOWN", "gap"),
        ("op-kept-out", "done"): ("COMMITTED_OP_LOST", "op_unread"),
        ("op-kept-out", "other"): ("ROLLED_BACK", "read_past_op"),
    }  # fmt: skip
    assert house.rows("quarantine") == bad
    assert {row["reason"] for row in bad} == {"KEY_CONFLICT"}


def kept_out(land_rows: Callable[..., PassReport]) -> None:
    """Its message has the offset of another one: the topic was made anew."""
    log = SmallLog()
    log.plain()
    half = log.half("done")
    log.plain()
    message = log.commit(half)
    log.op(half)
    log.plain()
    for kind in ("half", "op"):
        land_rows(kind, log.of(kind, tells_end=False))
    others = [row for row in log.of("message", tells_end=False) if row is not message]
    land_rows("message", [{**row, "queueOffset": at} for at, row in enumerate(others)])
    land_rows("message", [{**message, "queueOffset": 1}])


def anew(land_rows: Callable[..., PassReport]) -> None:
    """Its topic was deleted with its message and made anew."""
    log = SmallLog()
    log.plain()
    half = log.half("done")
    log.plain()
    landed = log.of("message", tells_end=False)
    log.commit(half)
    log.op(half)
    log.ends["Real", 0] = 0
    second = [log.plain() for _ in range(4)]
    for kind in ("half", "op"):
        land_rows(kind, log.of(kind, tells_end=False))
    land_rows("message", landed)
    land_rows("message", second)


def op_kept_out(land_rows: Callable[..., PassReport]) -> None:
    """Its op has the offset of another one."""
    log = SmallLog()
    log.plain()
    half, other = log.half("done"), log.half("other")
    log.commit(half)
    op, op_of_other = log.op(half), log.op(other)
    log.plain()
    log.plain()
    for kind in ("half", "message"):
        land_rows(kind, log.of(kind, tells_end=False))
    land_rows("op", [{**op, "bodyBase64": base64.b64encode(b"77,").decode()}, op_of_other])
    land_rows("op", [op])


def audited(open_house: Callable[..., House]) -> str:
    """The verdict where the broker was audited from the start."""
    house = open_house("role=audit", name="right")
    for kind in ("half", "op"):
        house.land_rows(kind, BROKERS_OWN[kind])
    house.audit()
    return verdicts(house)["T1"]


def test_verdicts_that_a_setting_has_made_are_judged_again_when_it_is_corrected(open_house):
    house = open_house("role=audit", "file_reserved_time=1h")
    house.land_rows("half", [stored(HALF_TOPIC, 1_000, born_ms=NOW_MS - 2 * HOUR_MS)])
    # An op of another half: ops were read to behind the moment at which it expired, so that the verdict is settled.
    house.land_rows("op", [stored(OP_TOPIC, 3_000, {"TAGS": "d"}, queue_offset=0, body="9,")])
    house.audit()
    assert verdicts(house) == {"T1": "EXPIRED_UNSEEN"}
    right = under(house, "role=audit", "file_reserved_time=72h")
    right.audit()
    assert verdicts(house) == {"T1": "PENDING"}
    assert right.audit().counts == {"idle": 1}
    house.audit()
    assert verdicts(house) == {"T1": "EXPIRED_UNSEEN"}


def jobs_by_role(house: House) -> list[Callable[[], Any]]:
    """Every job that decides by role."""
    at, settings, clocks = house.warehouse, house.settings, {"now": NOW, "wall_clock": wall_clock}
    request = DecisionRequest(("T1",), decision="commit", reason="ticket 7", decided_by="me")
    return [
        *[
            partial(house.land_rows, kind, [stored(HALF_TOPIC, 2_000)])
            for kind in ("half", "op", "message", "max-time")
        ],
        partial(house.land_rows, "end", [end()]),
        house.reconcile,
        partial(house.reconcile, dry_run=True),
        house.audit,
        partial(run_resolve, at, settings, **clocks, environ={}),
        partial(decide, at, settings, request, **clocks),
        partial(decide, at, settings, DecisionRequest(decided_by="me"), **clocks),
        partial(requests_planned, settings, ToSend("resend", request), NOW),
        partial(run_to_broker, at, settings, ToSend("settle", request), name_servers=["n:1"], **clocks, environ={}),
    ]


OF_ITS_OWN = ("role=audit", f"brokers={{{BROKER}: {{role: engine}}}}")


@pytest.mark.parametrize("assignments", [(), pytest.param(OF_ITS_OWN, marks=pytest.mark.long)])
def test_every_job_that_decides_by_role_refuses_and_those_that_do_not_go_on(open_house, assignments):
    house = open_house("role=audit")
    house.land_rows("half", [stored(HALF_TOPIC, 1_000)])
    other = under(house, *assignments)
    for job in jobs_by_role(other):
        with refused(house):
            job()
    report = {"ts": NOW_MS, "group": "CG", "topic": "TopicA", "queueId": 0, "offset": 5}
    assert "idle" not in other.land_rows("offset", [report]).counts
    house.reconcile()


@pytest.mark.long
def test_the_role_of_a_broker_says_nothing_of_another(open_house):
    house = open_house(f"brokers={{{BROKER}: {{role: audit}}}}")
    house.land_rows("half", [stored(HALF_TOPIC, 1_000)])
    house.land_rows("half", [stored(HALF_TOPIC, 1_000)], broker="in-house")
    assert {row["broker_name"]: row["role"] for row in house.rows("broker")} == {BROKER: "audit", "in-house": "engine"}
    house.reconcile()
    for job in (under(house, "role=audit").reconcile, under(house, "role=audit").audit):
        with refused(house):
            job()
    # A landing decides of no other broker: each may land by settings of its own.
    under(house).land_rows("half", [stored(HALF_TOPIC, 2_000, queue_offset=2)], broker="in-house")
    under(house, "role=audit", "brokers={in-house: {role: engine}}").reconcile()
    given_role(house, "audit", "in-house")
    under(house, "role=audit").reconcile()


LONG = [pytest.param(write, marks=pytest.mark.long) for write in ("started", "half")]


@pytest.mark.parametrize("write", ["broker", *LONG])
def test_a_landing_that_was_killed_is_carried_on_in_its_role_and_recorded_once(open_house, write):
    house = open_house("role=audit")
    with house.killed_after(write):
        house.land_rows("half", [stored(HALF_TOPIC, 1_000)])
    engine = under(house, "role=engine")
    # What the other began is ended as it was planned; then the own plan is refused.
    with pytest.raises(
        TxmqError, match="its rows were made in the role audit, and its role here is engine, says --set"
    ):
        engine.land_rows("half", [stored(HALF_TOPIC, 2_000)])
    assert [(row["role"], row["pass_number"]) for row in house.rows("broker")] == [("audit", 1)]
    assert [row["commit_log_offset"] for row in house.rows("half_message")] == [1_000]
    assert house.warehouse.version("broker") == 1


def test_of_two_processes_that_land_a_new_broker_at_once_one_gives_it_its_role(open_house):
    house = open_house("role=audit")
    other = House(Warehouse(house.warehouse.spark, house.warehouse.uri), house.scratch / "other", under(house).settings)
    other.scratch.mkdir()
    errors: list[TxmqError] = []

    def beside(table: str, step: str) -> None:
        if step == "started":
            with pytest.raises(TxmqError) as caught:
                other.land_rows("half", [stored(HALF_TOPIC, 2_000)])
            errors.append(caught.value)

    with house.on_write(beside):
        house.land_rows("half", [stored(HALF_TOPIC, 1_000)])
    assert [error.code for error in errors] == ["ROLE_CHANGED"]
    assert [(row["role"], row["pass_number"]) for row in house.rows("broker")] == [("audit", 1)]
    assert [row["commit_log_offset"] for row in house.rows("half_message")] == [1_000]


@pytest.mark.parametrize("run", [run_cycle, run_sources])
def test_nothing_lands_where_a_later_source_is_of_a_broker_of_another_role(open_house, tmp_path, run):
    """What lands before the broker that is refused would have the wrong role for good."""
    house = open_house("role=audit")
    house.land_rows("half", [stored(HALF_TOPIC, 1_000)])
    sources = []
    for broker, place in (("b", 2_000), (BROKER, 3_000)):
        file = tmp_path / f"{broker}.jsonl"
        file.write_text(json.dumps(stored(HALF_TOPIC, place, queue_offset=place)))
        sources.append(f"{{kind: half, broker: {broker}, paths: [{file}]}}")
    assignment = f"sources=[{', '.join(sources)}]"
    clocks = {"now": NOW, "wall_clock": wall_clock, "environ": {}}

    def landed(house: House, role: str) -> set[tuple[str, str]]:
        run(house.warehouse, under(house, f"role={role}", assignment).settings, **clocks)
        return {(row["broker_name"], row["role"]) for row in house.rows("broker")}

    with refused(house):
        landed(house, "engine")
    old = of_before(house)
    with pytest.raises(TxmqError, match=f"broker {BROKER}: its rows were made in the role audit"):
        landed(old, "engine")
    assert landed(old, "audit") == {(BROKER, "audit"), ("b", "audit")}


def of_before(house: House) -> House:
    """The warehouse as a version that recorded no roles left it."""
    shutil.rmtree(house.warehouse.path("broker"))
    return replace(house, warehouse=Warehouse(house.warehouse.spark, house.warehouse.uri))


def test_a_warehouse_of_before_tells_the_roles_by_what_was_written(open_house):
    house = open_house("brokers={decided: {role: engine}, untold: {role: audit}}", "role=audit")
    for broker in (BROKER, "decided", "untold"):
        house.land_rows("half", [stored(HALF_TOPIC, 1_000)], broker=broker)
    house.land_rows("op", BROKERS_OWN["op"])
    house.land_rows("end", [end()], broker="decided")
    house.reconcile()
    old = of_before(house)
    for wrong in ("brokers.decided.role=audit", f"brokers.{BROKER}.role=engine"):
        other = under(old, "role=audit", "brokers.decided.role=engine", wrong)
        with pytest.raises(TxmqError, match="take-back --broker"):
            other.reconcile()
    # Nobody says the role of `untold` here: that of its last landing counts.
    with pytest.raises(TxmqError, match="broker untold: its rows were made in the role audit"):
        under(old, f"brokers.{BROKER}.role=audit").reconcile()
    right = under(old, "role=audit", "brokers.decided.role=engine")
    right.reconcile(NOW + timedelta(minutes=5))
    recorded = {row["broker_name"]: row["role"] for row in old.rows("broker")}
    assert recorded == {BROKER: "audit", "decided": "engine", "untold": "audit"}


def test_a_plan_of_the_other_role_that_a_version_of_before_left_is_not_carried_on(open_house, monkeypatch):
    house = open_house("role=audit")
    for kind, rows in BROKERS_OWN.items():
        house.land_rows(kind, rows)
    house.land_rows("end", [end()])
    with monkeypatch.context() as before:
        before.setattr(reconcile, "RECONCILE", replace(reconcile.RECONCILE, require=lambda current: None))
        with under(house).killed_after("started"):
            under(house).reconcile()
    house.reconcile()
    states = [(row["pass_number"], row["state"]) for row in house.rows("pass") if row["job"] == "reconcile"]
    assert sorted(states) == [(1, "abandoned"), (1, "started"), (2, "committed"), (2, "started")]
    assert visible(house) == 1


@pytest.mark.long
def test_taken_back_whole_a_broker_has_no_role_and_may_land_in_another(open_house):
    house = open_house("role=audit")
    house.land_rows("half", [stored(HALF_TOPIC, 1_000)])
    clocks = {"now": NOW, "wall_clock": wall_clock, "tell": lambda rows: None}
    run_take_back(house.warehouse, house.settings, broker_name=BROKER, **clocks)
    assert house.rows("broker") == []
    under(house, "role=engine").land_rows("half", [stored(HALF_TOPIC, 1_000)])
    with pytest.raises(SettingsError, match=f"not set for broker {BROKER}"):
        run_take_back(house.warehouse, under(house).settings, broker_name=BROKER, decisions=True, **clocks)


@pytest.mark.long
def test_a_role_given_anew_that_was_killed_anywhere_ends_as_if_never_killed(open_house, copied):
    house = open_house()
    house.land_rows("half", BROKERS_OWN["half"])
    house.land_rows("end", [end()])
    house.reconcile()
    house.audit()
    for number, write in enumerate(("started", "landing_frontier", "landed_to")):
        place = copied(house, f"copy-{number}")
        with place.killed_after(write):
            given_role(place, "audit")
        audit = given_role(place, "audit")
        audit.reconcile()
        audit.audit()
        assert (visible(place), verdicts(place)) == (0, {"T1": "PENDING"}), write


def test_a_landing_that_fails_behind_its_role_blocks_no_other(open_house, monkeypatch):
    house = open_house("role=audit")
    with monkeypatch.context() as broken:
        broken.setattr(line_landing, "land", failing)
        with pytest.raises(OSError, match="the disk"):
            house.land_rows("half", [stored(HALF_TOPIC, 1_000)])
    house.land_rows("half", [stored(HALF_TOPIC, 2_000)])
    assert [row["commit_log_offset"] for row in house.rows("half_message")] == [2_000]
    assert [(row["role"], row["pass_number"]) for row in house.rows("broker")] == [("audit", 1)]


def failing(*_: object) -> None:
    raise OSError("the disk")
