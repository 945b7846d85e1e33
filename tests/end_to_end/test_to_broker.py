"""Telling a live broker what was decided: once, recorded before and after, and not believed before it has landed."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from datetime import timedelta

import pytest
from deciding_broker import BORN_MS, GIVEN_UP, OP, Deciding
from house import BROKER, House, Killed, wall_clock
from moment import NOW
from remoting_server import RemotingServer, answer
from resolving import half, resolve

from txmq_lib.cli.run.decisions import plan_of
from txmq_lib.cli.run.sending import requests_planned
from txmq_lib.delta.small_writes import SmallWrite
from txmq_lib.errors import PassConflict, UnreachableError
from txmq_lib.passes.runner import next_pass
from txmq_lib.pipeline.decision_request import DecisionRequest, ToSend
from txmq_lib.pipeline.decisions import decide
from txmq_lib.pipeline.land.job import run_land_rocketmq
from txmq_lib.pipeline.to_broker import job as to_broker
from txmq_lib.pipeline.to_broker.job import run_to_broker

LOG = "kind: sql, url_env: DB, table: log, key_column: id, state_column: state, commit: [C], rollback: [R]"


@pytest.fixture
def deciding() -> Iterator[Deciding]:
    broker = Deciding(halves=3)
    yield broker
    broker.close()


def land(house: House, broker: Deciding):
    return run_land_rocketmq(
        house.warehouse, house.settings, name_servers=[broker.names.address], now=NOW, wall_clock=wall_clock, environ={}
    )


def settle(house: House, number: int, decision: str) -> DecisionRequest:
    request = DecisionRequest(
        transaction_ids=(f"T{number}",), decision=decision, reason="ticket 1", decided_by="me@here"
    )
    decide(house.warehouse, house.settings, request, now=NOW, wall_clock=wall_clock)
    return request


def send(house: House, broker: Deciding, request: DecisionRequest, requested_for: str = "settle", minutes: int = 0):
    """Send it; what is recorded as sent, and what is said of the others, is what the plan without a JVM told."""
    at, to_send = NOW + timedelta(minutes=minutes), ToSend(requested_for, request)
    planned = None if requested_for == "settle" else requests_planned(house.settings, to_send, at)
    recorded = requests_recorded(house)
    report = run_to_broker(
        house.warehouse, house.settings, to_send, name_servers=[broker.names.address],
        now=at, wall_clock=wall_clock, environ={},
    )  # fmt: skip
    if planned is not None:
        rows, left_out = planned
        assert {place(row) for row in rows} == {row[:-1] for row in requests_recorded(house) - recorded}
        if requested_for == "resend":  # of a group that is resumed the plan alone counts the others
            assert set(left_out) <= set(report.findings)
    return report


def place(row) -> tuple:
    return (
        row["transaction_id"],
        row["action"],
        row["former_verdict"],
        row["tran_state_table_offset"],
        row["commit_log_offset"],
    )


def requests_recorded(house: House) -> set[tuple]:
    return {(*place(row), row["pass_number"]) for row in house.rows("broker_request") if row["state"] == "sending"}


def answer_checks(house: House, said: dict[str, str], minutes: int = 0, **more: bool) -> DecisionRequest:
    """Let a database say this of the open checks; what `resolve --to-broker` sends by."""
    path = house.scratch / "log.db"
    with sqlite3.connect(path) as connection:
        connection.execute("create table if not exists log (id text primary key, state text)")
        connection.executemany("insert into log values (?, ?)", said.items())
    resolve(house, {"DB": f"sqlite:///{path}"}, NOW + timedelta(minutes=minutes), **more)
    return DecisionRequest(decided_by="me@here")


def verdicts(house: House) -> dict[str, str]:
    house.audit()
    return {row["transaction_id"]: row["verdict"] for row in house.rows("verdict")}


def states(house: House) -> list[tuple[str, str, str, int | None]]:
    rows = sorted(house.rows("broker_request"), key=lambda row: (row["pass_number"], row["state"] != "sending"))
    return [(row["transaction_id"], row["action"], row["state"], row["code"]) for row in rows]


@pytest.mark.long
def test_what_was_settled_is_sent_once_and_counts_only_when_it_has_landed(open_house, deciding):
    house = open_house("role=audit", "rocketmq.timeout=1s")
    land(house, deciding)
    commit, rollback = settle(house, 0, "commit"), settle(house, 1, "rollback")
    (planned,) = plan_of(house.settings, commit, NOW)
    assert (planned["transaction_id"], planned["action"], planned["verdict"]) == ("T0", "settled_before", "PENDING")
    assert deciding.sent() == []
    report = send(house, deciding, commit)
    assert (report.counts["accepted"], deciding.sent()) == (1, [(37, "T0")])
    assert "accepted is not visible yet" in report.findings[-1]
    # What was sent is not sent again, though nothing says yet that it was decided.
    assert send(house, deciding, commit).counts == {"idle": 1}
    send(house, deciding, rollback)
    land(house, deciding)
    assert verdicts(house) == {"T0": "COMMITTED", "T1": "ROLLED_BACK", "T2": "PENDING"}
    assert deciding.sent() == [(37, "T0"), (37, "T1")]
    assert states(house) == [
        ("T0", "commit", "sending", None), ("T0", "commit", "accepted", 0),
        ("T1", "rollback", "sending", None), ("T1", "rollback", "accepted", 0),
    ]  # fmt: skip
    (row,) = [
        row for row in house.rows("broker_request") if row["transaction_id"] == "T0" and row["state"] == "accepted"
    ]
    assert (row["requested_by"], row["reason"], row["address"]) == ("me@here", "ticket 1", deciding.server.address)


def test_a_broker_is_told_one_end_of_a_half_whoever_decides_first(open_house, deciding):
    house = open_house("role=audit", "rocketmq.timeout=1s", "transaction_timeout=2", f"resolvers={{GID_A: {{{LOG}}}}}")
    land(house, deciding)
    house.reconcile()
    committed = settle(house, 0, "commit")
    assert send(house, deciding, committed).counts["accepted"] == 1

    def answer_meanwhile(table: str, step: str) -> None:
        if step == "started":
            house.warehouse.on_write = lambda table, step: None
            answered = answer_checks(house, {"T0": "R", "T1": "R"})
            assert send(house, deciding, answered, "resolve").counts["accepted"] == 1

    with house.on_write(answer_meanwhile):
        too_late = settle(house, 1, "commit")
    assert send(house, deciding, too_late).counts == {"idle": 1}
    assert deciding.sent() == [(37, "T0"), (37, "T1")], "the commit of T0 and the rollback of T1"
    land(house, deciding)
    assert verdicts(house) == {"T0": "COMMITTED", "T1": "ROLLED_BACK", "T2": "PENDING"}


def test_a_transaction_has_one_end_however_many_copies_of_its_half_land(open_house, deciding):
    house = open_house("role=audit", "rocketmq.timeout=1s", "transaction_timeout=2", f"resolvers={{GID_A: {{{LOG}}}}}")
    land(house, deciding)
    house.reconcile()
    answered = answer_checks(house, {"T0": "C", "T1": "C"})
    refusing = {1000: "Find prepared transaction message failed"}
    deciding.interrupt = lambda request: (
        answer(request, 1, remark=refusing[int(request["extFields"]["commitLogOffset"])])
        if request["code"] == 37 and int(request["extFields"]["commitLogOffset"]) in refusing
        else None
    )
    assert send(house, deciding, answered, "resolve").counts == {"accepted": 1, "refused": 1}
    # What a check puts back lands before what the commit has left.
    copies = [
        {**half(number), "queueOffset": 10 + number, "commitLogOffset": 10_000 + 1000 * number}
        | {"bornTimestamp": BORN_MS + number}
        for number in (0, 1)
    ]
    house.land_rows("half", copies)
    again, _ = requests_planned(house.settings, ToSend("resolve", answered), NOW)
    assert [(row["transaction_id"], row["commit_log_offset"]) for row in again] == [("T1", 11_000)]


@pytest.mark.long
def test_what_a_person_decided_is_not_overridden_by_an_answer(open_house, deciding):
    house = open_house("role=audit", "rocketmq.timeout=1s", "transaction_timeout=2", f"resolvers={{GID_A: {{{LOG}}}}}")
    land(house, deciding)
    house.reconcile()
    settled = settle(house, 0, "commit")
    answered = answer_checks(house, {"T0": "R"})
    assert send(house, deciding, answered, "resolve").counts == {"idle": 1}
    assert send(house, deciding, settled).counts["accepted"] == 1
    land(house, deciding)
    assert verdicts(house)["T0"] == "COMMITTED"


@pytest.mark.long
def test_what_a_broker_decided_meanwhile_is_not_sent(open_house, deciding):
    house = open_house("role=audit", "rocketmq.timeout=1s")
    land(house, deciding)
    request = settle(house, 0, "commit")
    deciding.append(OP, 0, body=b"0,", properties=b"TAGS\x01d\x02")
    land(house, deciding)
    assert send(house, deciding, request).counts == {"idle": 1}
    assert deciding.sent() == []


@pytest.mark.long
def test_a_refusal_is_recorded_with_its_words_and_not_repeated(open_house, deciding):
    house = open_house("role=audit", "rocketmq.timeout=1s")
    land(house, deciding)
    request = settle(house, 0, "commit")
    deciding.interrupt = lambda request: (
        answer(request, 1, remark="Find prepared transaction message failed") if request["code"] == 37 else None
    )
    report = send(house, deciding, request)
    assert report.counts["refused"] == 1
    assert report.findings == (f"commit of T0 on {BROKER}: refused (code 1): Find prepared transaction message failed",)
    assert states(house)[-1] == ("T0", "commit", "refused", 1)
    assert send(house, deciding, request).counts == {"idle": 1}
    assert verdicts(house)["T0"] == "PENDING"


@pytest.mark.long
def test_no_answer_may_mean_that_it_arrived_and_no_connection_means_that_it_did_not(open_house, deciding):
    house = open_house("role=audit", "rocketmq.timeout=1s")
    land(house, deciding)
    first, second = settle(house, 0, "commit"), settle(house, 1, "commit")
    deciding.interrupt = lambda request: [] if request["code"] == 37 else None
    assert send(house, deciding, first).counts["unanswered"] == 1
    assert send(house, deciding, first).counts == {"idle": 1}
    deciding.server.close()
    assert send(house, deciding, second).counts["not_sent"] == 1
    deciding.server = RemotingServer(deciding.broker)
    deciding.interrupt = lambda request: None
    assert send(house, deciding, second).counts["accepted"] == 1
    assert [state for _, _, state, _ in states(house)] == [
        "sending", "unanswered", "sending", "not_sent", "sending", "accepted",
    ]  # fmt: skip
    deciding.names.close()
    with pytest.raises(UnreachableError, match="no name server answers"):
        send(house, deciding, settle(house, 2, "commit"))


@pytest.mark.long
def test_a_broker_that_hangs_costs_one_request_and_the_others_stay_to_be_sent(open_house, deciding):
    house = open_house("role=audit", "rocketmq.timeout=1s", "transaction_timeout=2", f"resolvers={{GID_A: {{{LOG}}}}}")
    land(house, deciding)
    house.reconcile()
    answered = answer_checks(house, {"T0": "C", "T1": "C", "T2": "R"})
    deciding.interrupt = lambda request: [] if request["code"] == 37 else None
    counts = send(house, deciding, answered, "resolve").counts
    assert counts == {"unanswered": 1, "not_sent": 2}
    deciding.interrupt = lambda request: None
    assert send(house, deciding, answered, "resolve").counts == {"accepted": 2}
    assert deciding.sent() == [(37, "T0"), (37, "T1"), (37, "T2")]


@pytest.mark.long
def test_a_process_killed_while_it_sends_never_makes_the_next_one_send_again(open_house, deciding):
    house = open_house("role=audit", "rocketmq.timeout=1s")
    land(house, deciding)
    request = settle(house, 0, "commit")

    def kill(table, step):
        if step.startswith("outcome"):
            raise Killed

    with house.on_write(kill), pytest.raises(Killed):
        send(house, deciding, request)
    assert send(house, deciding, request, minutes=1).counts == {"idle": 1}
    assert deciding.sent() == [(37, "T0")]
    land(house, deciding)
    assert verdicts(house)["T0"] == "COMMITTED"


def given_up_by_another(house: House) -> None:
    """Close the open plan as the next process does that wants to send."""
    current = next_pass(
        house.warehouse, "to_broker", now=NOW, arguments={}, settings=house.settings, wall_clock=wall_clock
    )
    assert not current.is_own
    current.abandon()


@pytest.mark.long
def test_a_plan_that_another_process_gave_up_before_its_first_request_sends_nothing(open_house, deciding, monkeypatch):
    house = open_house("role=audit", "rocketmq.timeout=1s")
    land(house, deciding)
    request = settle(house, 0, "commit")
    append = SmallWrite.append

    def given_up_right_before(write, path, rows):
        if "sending_000001" in write.app_id:
            monkeypatch.setattr(SmallWrite, "append", append)
            given_up_by_another(house)
        append(write, path, rows)

    monkeypatch.setattr(SmallWrite, "append", given_up_right_before)
    with pytest.raises(PassConflict, match="abandoned by another process"):
        send(house, deciding, request)
    assert deciding.sent() == []
    assert send(house, deciding, request).counts["accepted"] == 1
    assert [state for _, _, state, _ in states(house)] == ["sending", "not_sent", "sending", "accepted"]
    assert deciding.sent() == [(37, "T0")]


@pytest.mark.long
def test_what_brokers_said_is_kept_where_another_process_gave_the_plan_up_meanwhile(open_house, deciding):
    house = open_house("role=audit", "rocketmq.timeout=120s")
    land(house, deciding)
    request, other = settle(house, 0, "commit"), settle(house, 1, "commit")

    def another_sends(request):
        if request["code"] == 37:
            deciding.interrupt = lambda request: None
            assert send(house, deciding, other).counts["accepted"] == 1

    deciding.interrupt = another_sends
    with pytest.raises(PassConflict, match="abandoned by another process"):
        send(house, deciding, request)
    assert sorted((name, state) for name, _, state, _ in states(house)) == [
        ("T0", "accepted"), ("T0", "sending"), ("T1", "accepted"), ("T1", "sending"),
    ]  # fmt: skip
    assert sorted(deciding.sent()) == [(37, "T0"), (37, "T1")]


@pytest.mark.long
def test_what_a_broker_gave_up_is_resumed_by_asking_it(open_house, deciding):
    house = open_house("role=audit", "rocketmq.timeout=1s")
    deciding.append(GIVEN_UP, 0)
    land(house, deciding)
    assert verdicts(house)["T0"] == "DISCARDED"
    request = DecisionRequest(groups=("GID_A",), reason="database was down", decided_by="me@here")
    report = send(house, deciding, request, "resume")
    # Its offset id: 127.0.0.1, port 10911, physical offset 3000 (F5).
    assert deciding.sent() == [(323, "7F00000100002A9F0000000000000BB8")]
    assert report.counts["accepted"] == 1
    assert verdicts(house)["T0"] == "DISCARDED"
    assert send(house, deciding, request, "resume").counts == {"idle": 1}
    land(house, deciding)
    assert verdicts(house)["T0"] == "PENDING"


@pytest.mark.long
def test_what_was_given_up_without_a_trace_is_resumed_by_its_half_and_its_copy_is_ended(open_house, deciding):
    """R120: its broker stores the half again, and the checks begin anew."""
    limits = ("transaction_timeout=2s", "transaction_check_interval=3s", "transaction_check_max=2")
    house = open_house("role=audit", "rocketmq.timeout=1s", f"resolvers={{GID_A: {{{LOG}}}}}", *limits)
    place = deciding.keep_in_rocksdb(3)
    deciding.keep_in_rocksdb(4)
    deciding.append("TopicA", 9, store_ms=BORN_MS + 50_000, properties=b"")  # later than its last check
    land(house, deciding)
    assert {verdicts(house)[id_] for id_ in ("T3", "T4")} == {"DISCARDED_UNSEEN"}
    answered = answer_checks(house, {"T4": "C"}, given_up=True)
    said = {(row["transaction_id"], row["asked_for"], row["answer"]) for row in house.rows("check_answer")}
    assert said == {("T3", "given_up", "unknown"), ("T4", "given_up", "commit")}
    assert send(house, deciding, answered, "resolve").counts["accepted"] == 1
    resumed = DecisionRequest(transaction_ids=("T3",), reason="x", decided_by="me@here")
    assert send(house, deciding, resumed, "resume").counts["accepted"] == 1
    assert deciding.sent() == [(37, "T4"), (323, f"7F00000100002A9F{place:016X}")]
    assert send(house, deciding, resumed, "resume", minutes=1).counts == {"idle": 1}
    settled = settle(house, 3, "commit")
    assert send(house, deciding, settled, minutes=2).counts == {"idle": 1}
    land(house, deciding)
    assert verdicts(house)["T3"] == "PENDING"
    assert send(house, deciding, settled, minutes=3).counts["accepted"] == 1
    halves = [row for row in house.rows("half_message") if row["transaction_id"] == "T3"]
    copy = max(halves, key=lambda row: row["commit_log_offset"])
    ends = [row for row in house.rows("broker_request") if row["transaction_id"] == "T3" and row["action"] == "commit"]
    (end,) = [row for row in ends if row["state"] == "accepted"]
    assert (len(halves), copy["queue_id"]) == (2, -2)
    assert end["commit_log_offset"] == copy["commit_log_offset"]


@pytest.mark.long
def test_the_body_of_a_given_up_one_is_sent_again_once_and_shuts_out_what_would_show_it_twice(open_house, deciding):
    """A plain message to the real topic, as its producer sent it: nothing of the half, whatever it was asked."""
    house = open_house("role=audit", "rocketmq.timeout=1s")
    for number in (0, 1):
        deciding.append(GIVEN_UP, number)
    taken = []

    def take(request):
        if request["code"] != 10:
            return None
        taken.append(request)
        return answer(request)

    deciding.interrupt = take
    land(house, deciding)
    both = DecisionRequest(transaction_ids=("T0", "T2"), reason="ticket 9", decided_by="me@here")
    planned, left_out = requests_planned(house.settings, ToSend("resend", both), NOW)
    assert left_out == ["T2: not sent again: PENDING: only what its broker has given up is"]
    assert [(row["transaction_id"], row["action"], row["former_verdict"]) for row in planned] == [
        ("T0", "resend", "DISCARDED")
    ], "T2 is pending: its broker asks"
    assert taken == []
    report = send(house, deciding, both, "resend")
    assert (report.counts["accepted"], len(taken)) == (1, 1)
    assert "the verdict stays what it is" in report.findings[-1]
    assert "T2: not sent again: PENDING: only what its broker has given up is" in report.findings
    fields = taken[0]["extFields"]
    assert (fields["topic"], fields["queueId"], fields["sysFlag"], fields["producerGroup"], taken[0]["body"]) == (
        "TopicA", "0", "0", "GID_A", b"hello",
    )  # fmt: skip
    assert dict(pair.split("\x01") for pair in fields["properties"].split("\x02") if pair) == {
        "UNIQ_KEY": "T0", "PGROUP": "GID_A",
    }  # fmt: skip
    assert int(fields["bornTimestamp"]) == BORN_MS
    # Neither once more, nor an end, nor a question whose answer may be a commit.
    again = send(house, deciding, both, "resend", minutes=1)
    assert again.counts == {"idle": 1}
    assert again.findings == (
        "T0: not sent again: what was sent before may have reached its broker, or this was refused before: txmq sent",
        "T2: not sent again: PENDING: only what its broker has given up is",
    )
    assert send(house, deciding, settle(house, 0, "commit"), minutes=2).counts == {"idle": 1}
    again = DecisionRequest(transaction_ids=("T0",), decided_by="me@here")
    assert send(house, deciding, again, "resume", minutes=3).counts == {"idle": 1}
    # Nor what a person has rolled back.
    deciding.append(GIVEN_UP, 2)
    land(house, deciding)
    report = send(house, deciding, settle(house, 2, "rollback"), "resend", minutes=3)
    assert (report.counts, report.findings) == (
        {"idle": 1}, ("T2: not sent again: settled as rollback by hand: txmq decisions",),
    )  # fmt: skip
    # And where it was asked again, or ended, nothing is sent.
    request = DecisionRequest(transaction_ids=("T1",), reason="x", decided_by="me@here")
    assert send(house, deciding, request, "resume", minutes=4).counts["accepted"] == 1
    assert send(house, deciding, request, "resend", minutes=5).counts == {"idle": 1}
    assert len(taken) == 1
    assert verdicts(house)["T0"] == "DISCARDED"


@pytest.mark.long
def test_an_accepted_end_and_an_accepted_resume_shut_each_other_out_until_they_land(open_house, deciding):
    """A resume puts a copy back: with an end of the old one, both would become visible."""
    house = open_house("role=audit", "rocketmq.timeout=1s")
    for number in (0, 1):
        deciding.append(GIVEN_UP, number)
    land(house, deciding)
    resumed = DecisionRequest(transaction_ids=("T0",), reason="x", decided_by="me@here")
    assert send(house, deciding, resumed, "resume").counts["accepted"] == 1
    settled = settle(house, 0, "commit")
    assert send(house, deciding, settled, minutes=1).counts == {"idle": 1}
    assert send(house, deciding, settle(house, 1, "commit"), minutes=2).counts["accepted"] == 1
    ended = DecisionRequest(transaction_ids=("T1",), reason="x", decided_by="me@here")
    assert send(house, deciding, ended, "resume", minutes=3).counts == {"idle": 1}
    # Landed, the copy that the resume put back is the one to end.
    land(house, deciding)
    (planned,) = plan_of(house.settings, settled, NOW)
    assert (planned["transaction_id"], planned["verdict"]) == ("T0", "PENDING")
    (last_half,) = [row for row in house.rows("half_message") if row["queue_offset"] == 3]
    assert planned["commit_log_offset"] == last_half["commit_log_offset"]


@pytest.mark.long
def test_a_body_is_sent_again_where_its_end_was_refused_and_read_before_anything_is_recorded(
    open_house, deciding, monkeypatch
):
    house = open_house("role=audit", "rocketmq.timeout=1s", "end_on_broker=off")
    deciding.append(GIVEN_UP, 0)
    land(house, deciding)
    deciding.interrupt = lambda request: (
        answer(request, 1, remark="Find prepared transaction message failed") if request["code"] == 37
        else answer(request) if request["code"] == 10 else None
    )  # fmt: skip
    settled = settle(house, 0, "commit")
    # That setting is about answers: what a person settled only --to-broker brings to its broker.
    assert [row["is_planned_for_broker"] for row in house.rows("manual_decision")] == [True]
    assert send(house, deciding, settled).counts["refused"] == 1
    recorded = len(house.rows("broker_request"))

    def unreadable(current, requests):
        raise OSError("a data file is gone")

    with monkeypatch.context() as patched:
        patched.setattr(to_broker, "letters", unreadable)
        with pytest.raises(OSError, match="a data file is gone"):
            send(house, deciding, settled, "resend", minutes=1)
    assert len(house.rows("broker_request")) == recorded, "nothing says that it may have been sent"
    assert send(house, deciding, settled, "resend", minutes=2).counts["accepted"] == 1
    # A copy of the half may have another end after a refused one, but none after its body was taken.
    copy = {**half(0), "queueOffset": 10, "commitLogOffset": 10_000, "bornTimestamp": BORN_MS}
    house.land_rows("half", [copy])
    assert send(house, deciding, settled, minutes=3).counts == {"idle": 1}
