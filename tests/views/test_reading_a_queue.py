"""`messages --topic T --queue Q --from-offset N`: a queue as a consumer reads it, and only the files that may hold it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from views.conftest import append


def message(offset: int, *, queue: int = 0, topic: str = "T", broker: str = "a") -> dict[str, Any]:
    # Stored in another order than the queue's.
    return {
        "broker_name": broker, "topic": topic, "queue_id": queue, "queue_offset": offset, "transaction_id": f"{topic}{queue}:{offset}",
        "store_timestamp": f"2026-11-21T10:00:{59 - offset % 60:02}Z",
    }  # fmt: skip


@pytest.fixture
def read(txmq):
    def run(uri: str, *arguments: str) -> list[str]:
        status, out, err = txmq("--warehouse", uri, "messages", *arguments, "--format", "json")
        assert status == 0, err
        return [json.loads(line)["transaction_id"] for line in out.splitlines()]

    return run


def test_a_queue_is_read_from_an_offset_on_in_the_order_of_offsets(warehouse, read):
    rows = [message(n) for n in (12, 3, 11, 10, 9)] + [message(10, queue=1), message(10, topic="U")]
    uri = warehouse({"message": rows})
    place = ("--topic", "T", "--queue", "0")
    assert read(uri, *place, "--from-offset", "10") == ["T0:10", "T0:11", "T0:12"]
    assert read(uri, *place, "--from-offset", "10", "--limit", "2") == ["T0:10", "T0:11"]
    assert read(uri, *place, "--from-offset", "13") == []
    assert read(uri, *place) == ["T0:3", "T0:9", "T0:10", "T0:11", "T0:12"]
    assert read(uri, "--queue", "1") == ["T1:10"]
    # Without a place the newest come first, as ever.
    assert read(uri, "--topic", "T")[0] == "T0:3"


def test_of_two_brokers_each_queue_comes_whole(warehouse, read):
    rows = [message(n, broker=broker) for n in (1, 0) for broker in ("b", "a")]
    assert (
        read(warehouse({"message": rows}), "--topic", "T", "--queue", "0", "--from-offset", "0") == ["T0:0", "T0:1"] * 2
    )


@pytest.mark.parametrize(
    "arguments",
    [("--from-offset", "1"), ("--topic", "T", "--from-offset", "1"), ("--queue", "0", "--from-offset", "1"),
     ("--topic", "T", "--topic", "U", "--queue", "0", "--from-offset", "1")],
)  # fmt: skip
def test_an_offset_needs_its_queue(warehouse, txmq, arguments):
    status, _, err = txmq("--warehouse", warehouse({}), "messages", *arguments)
    assert (status, "--from-offset takes one --topic and a --queue" in err) == (2, True)


def test_files_that_cannot_hold_the_queue_are_not_read(warehouse, read):
    uri = warehouse({})
    for rows in ([message(n) for n in range(10)], [message(n) for n in range(10, 20)], [message(50, queue=1)]):
        append(Path(uri), "message", rows)
    files = DeltaTable(f"{uri}/message").get_add_actions(flatten=True)
    for path, highest, queue in zip(
        *(files[name].to_pylist() for name in ("path", "max.queue_offset", "max.queue_id")), strict=True
    ):
        if highest < 15 or queue == 1:
            (Path(uri) / "message" / path).unlink()
    assert read(uri, "--topic", "T", "--queue", "0", "--from-offset", "15") == [f"T0:{n}" for n in range(15, 20)]
