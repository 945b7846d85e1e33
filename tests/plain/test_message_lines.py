"""Lines that are parsed beside Spark: each is as the contract says, or left to Spark; whatever is written there."""

from __future__ import annotations

import base64
import json
from random import Random
from typing import Any

import pytest
from fuzz import contract
from fuzz.landing import MESSAGE, written
from fuzz.message_lines import assert_as_told, assert_each_as_told, batch, shape_of, texts_alone

from txmq_lib.pipeline.land.files import message_lines
from txmq_lib.pipeline.land.files.message_lines import new_shape, records_of

LINES, SEED = 4_000, 20261124


def line(**other: Any) -> str:
    fields = {
        "topic": "T",
        "queueId": 0,
        "queueOffset": 5,
        "commitLogOffset": 500,
        "sysFlag": 0,
        "flag": 0,
        "bornTimestamp": 1,
        "storeTimestamp": 2,
        "bornHost": "1.2.3.4:5",
        "storeHost": "1.2.3.4:6",
        "offsetMsgId": "0A",
        "reconsumeTimes": 0,
        "preparedTransactionOffset": 0,
        "properties": {"KEYS": "k"},
        "bodyBase64": "aGVsbG8=",
    }
    return json.dumps({name: held for name, held in {**fields, **other}.items() if held is not ...})


def test_hostile_lines_are_as_the_contract_says_or_left_alone():
    chance = Random(SEED)
    lines = [written(chance, "message") for _ in range(LINES)] + [texts_alone(chance) for _ in range(LINES)]
    assert assert_as_told(lines) > 100
    assert assert_each_as_told(lines[::4]) > 20


@pytest.mark.parametrize(
    "good",
    [
        line(),
        line() + " \t",
        line(properties={}),
        line(properties={"a": "", "": "b"}),
        line(topic="caf\u00e9 {[ \n"),
        line(extra="x", more=None, yes=True),
        line(sysFlag=-(2**31), queueOffset=2**62),
        line(bodyBase64=""),
        line(bodyBase64="aGVs\r\nbG8="),
        line(topic='"', properties={'"': '""'}),
        line(topic="\\", properties={"a\\": 'b\\"'}),
    ],
)
def test_a_good_line_is_a_record(good):
    for shape in (new_shape(), shape_of(good.encode())):
        records, ends, places = records_of(batch(good), shape)
        assert (places.tolist(), ends.to_pylist()) == ([0], [None])
        assert records["topic"].to_pylist() == [json.loads(good)["topic"]]


@pytest.mark.parametrize(
    "odd",
    [
        "",
        "{",
        "[1]",
        "null",
        line() + "x",
        line() + line(),
        " " + line(),
        *(line(**{name: ...}) for name in MESSAGE),
        *(line(**{name: None}) for name in MESSAGE),
        *(line(**{name: 1.0}) for name in MESSAGE),
        *(line(**{name: True}) for name in MESSAGE),
        *(line(**{name: -1}) for name in contract.NOT_NEGATIVE),
        *(line(**{name: 2**62 + 1}) for name in contract.OFFSETS),
        *(line(**{name: 2**70}) for name in ("queueId", "sysFlag", "storeTimestamp")),
        line(sysFlag=2**31),
        line(bornTimestamp=contract.LATEST_MS + 1),
        line(properties={"a": 1}),
        line(properties={"a": None}),
        line(properties=[]),
        line(topic="\ud800"),
        line(topic="\U0001f600"),  # written as a pair of surrogates
        line(extra=1e400),
        line(extra={"a": 1}),
        line().replace('"flag": 0', '"flag": 0, "flag": 0'),
        line().replace('"KEYS": "k"', '"KEYS": "k", "KEYS": "k"'),
        line(topic='"').replace('"KEYS": "k"', '"KEYS": "k", "KEYS": "k"'),
        line(topic="\\").replace('"KEYS": "k"', '"KEYS": "k", "KEYS": "k"'),
        line(bodyBase64="aGVsbG8"),
        line(bodyBase64="aGVsbG9="),
        line(bodyBase64="aGVs bG8="),
        line(bodyBase64="QQ=\r\n="),
        line(bodyBase64="\u00e9"),
        line(bodyBase64=base64.b64encode(bytes(200_000)).decode()),
        line().encode()[:-10] + b"\xff" + line().encode()[-10:],
        line(**{"a" * 60_000: "x"}),
        "[" * 100_000,
    ],
    ids=lambda odd: str(odd)[:40],
)  # fmt: skip
def test_a_line_in_doubt_is_left_to_the_contract(odd):
    good = line(queueOffset=7)
    records, ends, places = records_of(batch(good, odd, good))
    assert places.tolist() == [0, 2]
    assert records["queue_offset"].to_pylist() == [7, 7]
    assert records["position"].to_pylist() == [0, 2]
    assert len(ends) == 2
    alike = shape_of(odd if isinstance(odd, bytes) else odd.encode())
    assert records_of(batch(odd), alike)[2].tolist() == []


BEGUN, ENDED = line()[:-1].split('"properties": ')[0] + '"bodyBase64": "", "properties": ', '{"KEYS": "k"}}'


@pytest.mark.parametrize(
    "odd",
    [["{}{}"], ['{"topic":"{}}'], [line() + line()], [BEGUN, ENDED], [BEGUN, ENDED, line() + line()]],
)
def test_lines_parsed_together_are_one_object_each(odd):
    shape = shape_of(line().encode())
    assert records_of(batch(line(), *odd, line()), shape)[2].tolist() == [0, 1 + len(odd)]


def test_lines_that_look_alike_are_parsed_together_whatever_lies_between_them(monkeypatch):
    alone: list[int] = []
    one_by_one = message_lines._one_by_one
    monkeypatch.setattr(
        message_lines,
        "_one_by_one",
        lambda values, places, shape: (alone.extend(places.tolist()), one_by_one(values, places, shape))[1],
    )
    lines = [
        line(queueOffset=number, properties={"KEYS": "k"} if number % 3 else {"UNIQ_KEY": "u"}) for number in range(99)
    ]
    lines[50] = line(queueOffset=50, properties={"NEW": "n"})
    lines[70] = line(queueOffset="70")
    shape = shape_of(line(properties={"KEYS": "k", "UNIQ_KEY": "u"}).encode())
    records, _, places = records_of(batch(*lines), shape)
    assert places.tolist() == [number for number in range(99) if number != 70]
    assert records["queue_offset"].to_pylist() == places.tolist()
    assert len(alone) <= 2 * message_lines.FEW
    assert [dict(each) for each in records["properties"].to_pylist()[48:52]] == [
        {"UNIQ_KEY": "u"},
        {"KEYS": "k"},
        {"NEW": "n"},
        {"UNIQ_KEY": "u"},
    ]


def test_what_its_source_found_wrong_and_what_is_large_is_left_alone():
    lines = batch(line(), line(), line(), reason=["LINE_TOO_LONG", None, None], long_body=[None, b"x", None])
    assert records_of(lines)[2].tolist() == [2]


@pytest.mark.parametrize(("max_offset", "end"), [("6", 6), ("5", None), ("9", 9), ("0006", 6)])
def test_where_a_client_said_that_the_queue_ends_is_kept_and_its_words_are_not(max_offset, end):
    records, ends, _ = records_of(batch(line(properties={"MAX_OFFSET": max_offset, "MIN_OFFSET": "0", "KEYS": "k"})))
    assert ends.to_pylist() == [end]
    assert records["properties"].to_pylist() == [[("KEYS", "k")]]


@pytest.mark.parametrize(
    "max_offset", ["x", "-1", "6.0", " 6", "\u0666", "4611686018427387905", "99999999999999999999"]
)
def test_an_end_that_is_no_plain_number_is_left_to_the_contract(max_offset):
    assert records_of(batch(line(properties={"MAX_OFFSET": max_offset})))[2].tolist() == []


def test_no_lines_are_no_records():
    assert records_of(batch())[0].num_rows == 0
