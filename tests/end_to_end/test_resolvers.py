"""One resolve over a Delta table and an HTTP endpoint: each group asks its own, with all of its half that it needs."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest
from house import House
from moment import NOW
from resolving import half, resolve, verdicts


class _Served(BaseHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def served(endpoint: type[_Served]) -> Iterator[str]:
    server = HTTPServer(("127.0.0.1", 0), endpoint)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_delta_table_and_an_endpoint_answer_for_their_groups(open_house: Callable[..., House]):
    seen: list[dict] = []

    class Endpoint(_Served):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            seen.append(request)
            says = {"T4": b"COMMIT_MESSAGE", "T5": b"ROLLBACK_MESSAGE"}.get(request["header"]["transactionId"])
            self.send_response(200 if says else 500)
            self.end_headers()
            self.wfile.write(says or b"")

    with served(Endpoint) as at:
        house = open_house("transaction_timeout=2")
        log = house.scratch / "log"
        spark = house.warehouse.spark
        spark.range(0, 5_000, 1, 4).selectExpr(
            "id as order_no", "case id % 3 when 0 then 1 when 1 then 2 end as status"
        ).write.format("delta").save(str(log))
        delta = {"kind": "delta", "uri": str(log), "key_column": "order_no", "state_column": "status", "commit": [1],
                 "rollback": [2], "key": "property order", "key_type": "integer"}  # fmt: skip
        http = {"kind": "http", "endpoints": [at], "tries": 1}
        house.settings = house.settings.load(
            assignments=["transaction_timeout=2", f"resolvers={json.dumps({'GID_D': delta, 'GID_H*': http})}"],
            warehouse=house.warehouse.uri,
        )
        orders = {0: "3", 1: "4", 2: "5", 3: "99999", 7: str(2**63)}
        house.land_rows(
            "half",
            [
                *[half(n, "GID_D", order=order) for n, order in orders.items()],
                *[half(n, "GID_HTTP") for n in (4, 5, 6)],
            ],
        )
        house.reconcile()
        report = resolve(house, {})
    assert report.counts == {
        "asked": 8, "commit": 2, "rollback": 2, "unknown": 3, "no_answer": 1, "no_answer:GID_HTTP": 1,
        "end_transaction": 4,
    }  # fmt: skip
    answers = {
        row["transaction_id"]: (row["answer"], row["state"], row["reason"]) for row in house.rows("check_answer")
    }
    assert answers == {
        "T0": ("commit", "1", None), "T1": ("rollback", "2", None), "T2": ("unknown", "NULL", "UNMAPPED"),
        "T3": ("unknown", None, "ABSENT"), "T4": ("commit", "COMMIT_MESSAGE", None),
        "T5": ("rollback", "ROLLBACK_MESSAGE", None), "T6": (None, None, "BAD_ANSWER"), "T7": ("unknown", None, "ABSENT"),
    }  # fmt: skip
    requests = {each["header"]["transactionId"]: each["message"] for each in seen}
    assert sorted(requests) == ["T4", "T5", "T6"]
    message = requests["T4"]
    assert (message["topic"], message["queueId"], message["bodyBase64"]) == ("TopicA", 0, "AHBheQ==")
    assert message["properties"] == {**half(4, "GID_HTTP")["properties"], "TRANSACTION_CHECK_TIMES": "1"}
    assert message["bornTimestamp"] == half(4)["bornTimestamp"]
    house.reconcile(NOW + timedelta(seconds=1))
    found = verdicts(house)
    assert {name for name, verdict in found.items() if verdict == "PENDING"} == {"T2", "T3", "T6", "T7"}


@pytest.mark.long
def test_transactions_an_endpoint_always_fails_for_keep_no_others_from_being_asked(open_house: Callable[..., House]):
    class Endpoint(_Served):
        def do_POST(self) -> None:
            document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            fails = document["header"]["transactionId"] in ("T0", "T1", "T2", "T3")
            self.send_response(500 if fails else 200)
            self.end_headers()
            self.wfile.write(b"" if fails else b"COMMIT_MESSAGE")

    with served(Endpoint) as at:
        http = {"kind": "http", "endpoints": [at], "tries": 1, "concurrency": 1, "down_after": 3}
        house = open_house(
            "transaction_timeout=2", "transaction_check_interval=3", f"resolvers={json.dumps({'GID_A': http})}"
        )
        house.land_rows("half", [half(n) for n in range(8)])
        for minutes in range(6):
            house.reconcile(NOW + timedelta(minutes=minutes))
            resolve(house, {}, now=NOW + timedelta(minutes=minutes, seconds=1))
        house.reconcile(NOW + timedelta(minutes=7))
    found = verdicts(house)
    assert {name for name, verdict in found.items() if verdict == "PENDING"} == {"T0", "T1", "T2", "T3"}
