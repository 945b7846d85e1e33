"""What a landing leaves for the next to pass over."""

from __future__ import annotations

import pytest

from txmq_lib.pipeline.land.unchanged_inputs import remembered, states

FILE = {"path": "/in/a.jsonl", "size": 7, "modified_ms": 1}


def live(offsets: str | None, broker: str = "a") -> dict:
    return {"kind": "rocketmq", "brokers": [{"broker_name": broker, "queues": [], "offsets": offsets}]}


def files(kind: str, broker: str = "a") -> dict:
    return {"kind": kind, "broker_name": broker, "files": [FILE]}


def is_known(before: dict[str, str], arguments: dict) -> bool:
    return states(arguments).items() <= before.items()


def test_offsets_of_a_live_broker_are_known_until_they_move_and_count_again_when_they_move_back():
    before = remembered({}, live("A"))
    assert is_known(before, live("A"))
    assert not is_known(before, live("B"))
    assert not is_known(before, live("A", broker="b"))
    assert not is_known(remembered(before, live("B")), live("A"))


def test_a_landing_of_queues_alone_changes_nothing_that_is_known():
    before = remembered(remembered({}, files("end")), live("A"))
    assert remembered(before, live(None)) == before


@pytest.mark.parametrize(("arguments", "is_still_known"), [
    (files("end"), True),
    (files("offset", broker="b"), True),
    (files("offset"), False),
    ({"kind": "store", "broker_name": "a", "path": "/store", "to_offset": 1}, False),
])  # fmt: skip
def test_a_table_of_offsets_from_a_file_makes_what_the_live_broker_says_news_again(arguments, is_still_known):
    after = remembered(remembered({}, live("A")), arguments)
    assert is_known(after, live("A")) == is_still_known
    assert is_known(after, arguments)
