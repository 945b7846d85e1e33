"""The http resolver against a real server on loopback that answers, is slow, fails, lies and hangs up."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import pairwise
from typing import Any

import pytest
from hostile_server import Behaviour, HostileServer
from moment import NOW
from questions import check

from txmq_lib.answers import http
from txmq_lib.answers.http import HttpResolver
from txmq_lib.answers.protocol import Check
from txmq_lib.config.resolver_settings import HttpResolver as HttpSettings

MIB = 1024 * 1024
Manner = Callable[["Handler", dict[str, Any]], None]
HALF = {
    "queue_offset": 5, "commit_log_offset": 500, "sys_flag": 0, "flag": 3, "born_timestamp": NOW,
    "store_timestamp": NOW, "born_host": "127.0.0.1:1", "store_host": "127.0.0.1:2", "offset_msg_id": "O",
    "reconsume_times": 0, "prepared_transaction_offset": 0, "body": b"\x00pay",
    "properties": {"UNIQ_KEY": "T", "PGROUP": "PG", "REAL_TOPIC": "TopicA", "REAL_QID": "0", "TRANSACTION_CHECK_TIMES": "9"},
}  # fmt: skip


class Handler(BaseHTTPRequestHandler):
    """One request to a server that behaves in the manner of its path."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        document = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server: Any = self.server
        with server.lock:
            server.now_asked += 1
            server.most_at_once = max(server.most_at_once, server.now_asked)
            server.seen.append((self.path, dict(self.headers), document))
        try:
            server.manners[self.path](self, document)
        finally:
            with server.lock:
                server.now_asked -= 1

    def reply(self, body: str | bytes, status: int = 200, **headers: str) -> None:
        data = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        self.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def server() -> Iterator[Any]:
    running: Any = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    running.daemon_threads, running.block_on_close = True, False
    running.lock, running.seen, running.now_asked, running.most_at_once = threading.Lock(), [], 0, 0
    running.manners = {"/commit": lambda handler, request: handler.reply("COMMIT_MESSAGE")}
    running.at = f"http://127.0.0.1:{running.server_address[1]}"
    thread = threading.Thread(target=running.serve_forever, args=(0.02,))
    thread.start()
    yield running
    running.shutdown()
    running.server_close()
    thread.join()


def resolver(*endpoints: str, headers: dict[str, str] | None = None, **fields: Any) -> HttpResolver:
    quick = {"backoff": "1ms", "timeout": "2s", "tries": 1}
    return HttpResolver(
        HttpSettings.model_validate({"kind": "http", "endpoints": list(endpoints), **quick, **fields}), headers or {}
    )


def ask(http_resolver: HttpResolver, *checks: Check) -> list[tuple[str | None, str | None]]:
    checks_with_halves = [each.with_half(HALF) for each in checks or (check(),)]
    return [(answer.answer, answer.reason) for answer in http_resolver.answers(checks_with_halves)]


def says(text: str | bytes, status: int = 200, **headers: str) -> Manner:
    return lambda handler, request: handler.reply(text, status, **headers)


def test_the_request_holds_the_header_of_a_check_and_the_message_as_the_producer_sent_it(server):
    assert ask(resolver(f"{server.at}/commit", headers={"Authorization": "Bearer s3cret"})) == [("commit", None)]
    ((path, headers, request),) = server.seen
    assert (path, headers["Content-Type"], headers["Authorization"]) == ("/commit", "application/json", "Bearer s3cret")
    assert request["producerGroup"] == "PG"
    assert request["header"] == {
        "topic": "RMQ_SYS_TRANS_HALF_TOPIC", "tranStateTableOffset": 5, "commitLogOffset": 500, "msgId": "T",
        "transactionId": "T", "offsetMsgId": "O", "bname": "b",
    }  # fmt: skip
    assert request["message"] == {
        "topic": "TopicA", "queueId": 0, "queueOffset": 5, "commitLogOffset": 500, "sysFlag": 0, "flag": 3,
        "bornTimestamp": 1_795_262_400_000, "storeTimestamp": 1_795_262_400_000, "bornHost": "127.0.0.1:1",
        "storeHost": "127.0.0.1:2", "offsetMsgId": "O", "reconsumeTimes": 0, "preparedTransactionOffset": 0,
        "properties": {**HALF["properties"], "TRANSACTION_CHECK_TIMES": "1"}, "bodyBase64": "AHBheQ==",
    }  # fmt: skip


SAID = [  # why, what comes with 200, answer, reason
    ("commit", "COMMIT_MESSAGE", "commit", None),
    ("rollback", "ROLLBACK_MESSAGE", "rollback", None),
    ("unknown, as RocketMQ spells it", "UNKNOW", "unknown", None),
    ("a JSON text", '"COMMIT_MESSAGE"\n', "commit", None),
    ("a JSON object", '{"state": "ROLLBACK_MESSAGE", "transactionId": "T", "more": [1]}', "rollback", None),
    ("an answer for another transaction", '{"state": "COMMIT_MESSAGE", "transactionId": "U"}', None, "BAD_ANSWER"),
    ("a state nobody knows", "COMMIT", None, "BAD_ANSWER"),
    ("a state in other letters", "commit_message", None, "BAD_ANSWER"),
    ("nothing", "", None, "BAD_ANSWER"),
    ("null", "null", None, "BAD_ANSWER"),
    ("a list", '["COMMIT_MESSAGE"]', None, "BAD_ANSWER"),
    ("an object in the place of the state", '{"state": {"a": 1}}', None, "BAD_ANSWER"),
    ("a page for people", "<html>COMMIT_MESSAGE</html>", None, "BAD_ANSWER"),
    ("no UTF-8", b"\xff\xfe", None, "BAD_ANSWER"),
    ("very deep JSON", "[" * 50_000, None, "BAD_ANSWER"),
    ("more than anybody reads", "COMMIT_MESSAGE" + " " * 70_000, None, "BAD_ANSWER"),
]


@pytest.mark.parametrize(("why", "said", "answer", "reason"), SAID, ids=[case[0] for case in SAID])
def test_a_200_is_an_answer_only_where_it_says_the_state_of_this_transaction(server, why, said, answer, reason):
    server.manners["/x"] = says(said)
    assert ask(resolver(f"{server.at}/x")) == [(answer, reason)]


@pytest.mark.parametrize("status", [201, 204, 301, 307, 308, 400, 404, 429, 500, 503])
def test_any_other_status_is_no_answer_whatever_it_says(server, status):
    server.manners["/x"] = says("COMMIT_MESSAGE" if status != 204 else "", status, Location=f"{server.at}/commit")
    assert ask(resolver(f"{server.at}/x")) == [(None, "BAD_ANSWER")]
    assert len(server.seen) == 1, "a redirect is not followed: the headers are for this endpoint"


def hang_up(handler: Handler, request: dict[str, Any]) -> None:
    handler.close_connection = True
    handler.connection.close()


def torn(handler: Handler, request: dict[str, Any]) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "100")
    handler.end_headers()
    handler.wfile.write(b"COMMIT_MESSAGE")
    handler.close_connection = True


def slow(seconds: float) -> Manner:
    def answer(handler: Handler, request: dict[str, Any]) -> None:
        time.sleep(seconds)
        handler.reply("COMMIT_MESSAGE")

    return answer


def drip(handler: Handler, request: dict[str, Any]) -> None:
    handler.send_response(200)
    handler.send_header("Content-Length", "14")
    handler.end_headers()
    for byte in b"COMMIT_MESSAGE":
        handler.wfile.write(bytes([byte]))
        handler.wfile.flush()
        time.sleep(0.1)


def test_what_hangs_up_tears_dawdles_or_is_not_there_is_unreachable(server):
    server.manners |= {"/hang": hang_up, "/torn": torn, "/slow": slow(1.5), "/drip": drip}
    for path in ("hang", "torn", "slow", "drip"):
        begun = time.monotonic()
        assert ask(resolver(f"{server.at}/{path}", timeout="400ms")) == [(None, "UNREACHABLE")], path
        assert time.monotonic() - begun < 1.2, f"{path}: the timeout is of the whole exchange"
    assert ask(resolver("http://127.0.0.1:1/x")) == [(None, "UNREACHABLE")]
    assert ask(resolver(f"{server.at}/drip", timeout="10s")) == [("commit", None)], "slow is not wrong"


def test_endpoints_are_asked_in_turn_any_may_answer_and_tries_end(server):
    server.manners |= {"/down": says("no", 503), "/lie": says("who?")}
    down, lie, good = (f"{server.at}/{path}" for path in ("down", "lie", "commit"))
    http_resolver = resolver(down, lie, good, tries=3)
    assert ask(http_resolver) == [("commit", None)]
    assert [path for path, _, _ in server.seen] == ["/down", "/lie", "/commit"]
    server.seen.clear()
    assert ask(http_resolver) == [("commit", None)]
    assert [path for path, _, _ in server.seen] == ["/lie", "/commit"], "the next check begins with the next endpoint"
    server.seen.clear()
    assert ask(resolver(down, lie, good, tries=2)) == [(None, "BAD_ANSWER")]
    assert [path for path, _, _ in server.seen] == ["/down", "/lie"]


def test_a_second_try_of_an_endpoint_waits_and_each_further_one_twice_as_long(server, monkeypatch):
    moments: list[float] = []
    slept: list[float] = []
    sleep = asyncio.sleep

    async def told(seconds: float) -> None:
        slept.append(seconds)
        await sleep(seconds)

    monkeypatch.setattr(asyncio, "sleep", told)

    def fail(handler: Handler, request: dict[str, Any]) -> None:
        moments.append(time.monotonic())
        handler.reply("no", 500)

    server.manners["/x"] = fail
    assert ask(resolver(f"{server.at}/x", tries=3, backoff="150ms")) == [(None, "BAD_ANSWER")]
    waits = [later - earlier for earlier, later in pairwise(moments)]
    assert [seconds for seconds in slept if seconds] == [0.15, 0.3]
    assert len(waits) == 2
    assert waits[0] >= 0.15
    assert waits[1] >= 0.30


def test_no_more_checks_are_asked_at_once_than_the_settings_say_and_answers_keep_their_order(server):
    def by_id(handler: Handler, request: dict[str, Any]) -> None:
        time.sleep(0.02)
        number = int(request["header"]["transactionId"][1:])
        handler.reply("COMMIT_MESSAGE" if number % 2 else "ROLLBACK_MESSAGE")

    server.manners["/x"] = by_id
    found = ask(resolver(f"{server.at}/x", concurrency=4, timeout="20s"), *[check(f"T{n}") for n in range(40)])
    assert found == [("commit" if number % 2 else "rollback", None) for number in range(40)]
    assert 1 < server.most_at_once <= 4


def test_after_so_many_failures_in_a_row_the_rest_is_not_asked(server):
    server.manners["/x"] = says("no", 500)
    http_resolver = resolver(f"{server.at}/x", down_after=3, concurrency=1)
    assert ask(http_resolver, *[check(f"T{number}") for number in range(50)]) == [(None, "BAD_ANSWER")] * 50
    assert len(server.seen) == 3
    assert ask(http_resolver, check("T51")) == [(None, "BAD_ANSWER")]
    assert len(server.seen) == 3, "nor in the next batch of this pass"


def test_one_failure_between_answers_stops_nobody(server):
    def odd(handler: Handler, request: dict[str, Any]) -> None:
        is_odd = int(request["header"]["transactionId"][1:]) % 2
        handler.reply("no" if is_odd else "COMMIT_MESSAGE", 500 if is_odd else 200)

    server.manners["/x"] = odd
    http_resolver = resolver(f"{server.at}/x", down_after=2, concurrency=1)
    assert ask(http_resolver, *[check(f"T{n}") for n in range(10)]) == [("commit", None), (None, "BAD_ANSWER")] * 5


def test_certificates_that_cannot_be_read_are_told_and_nobody_is_asked(server, tmp_path):
    (tmp_path / "ca.pem").write_text("no certificate\n", encoding="utf-8")
    for name in ("ca.pem", "absent.pem"):
        http_resolver = resolver(f"{server.at}/commit", ca_file=str(tmp_path / name))
        assert ask(http_resolver) == [(None, "RESOLVER_UNUSABLE")]
        assert name in (http_resolver.down.detail or "")
    assert server.seen == []


def test_a_header_that_is_a_secret_is_never_told(server):
    server.manners["/echo"] = lambda handler, request: handler.reply(handler.headers["Authorization"])
    http_resolver = resolver(f"{server.at}/echo", headers={"Authorization": "Bearer s3cret"})
    shown = repr(http_resolver.answers([check().with_half(HALF)]))
    assert "BAD_ANSWER" in shown
    assert "s3cret" not in shown
    server.manners["/echo"] = lambda handler, request: handler.reply("x" * 77 + "s3cret")
    assert "s3" not in repr(http_resolver.answers([check().with_half(HALF)])), "nor a piece of it where words are cut"


def flooding(head: bytes, chunk: bytes) -> Callable[[HostileServer], Behaviour]:
    def of(server: HostileServer) -> Behaviour:
        return lambda connection: (connection.sendall(head), server.flood(connection, chunk, 1500 * MIB))

    return of


@pytest.mark.parametrize(
    "behaviour",
    [
        flooding(b"HTTP/1.1 200 OK\r\nContent-Length: 1500000000\r\n\r\n", b" " * MIB),
        flooding(b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n", gzip.compress(b" " * 300 * MIB, 6)),
        flooding(b"HTTP/1.1 200 OK\r\n", b"X-A: b\r\n" * 10_000),
        flooding(b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n" * 1000),
    ],
    ids=["a body", "a bomb", "headers", "interim answers"],
)
def test_an_answer_without_end_takes_neither_memory_nor_time(behaviour):
    with HostileServer(lambda connection: None) as hostile:
        hostile.behave = behaviour(hostile)
        begun = time.monotonic()
        tracemalloc.start()
        ((answer, reason),) = ask(resolver(hostile.at, timeout="3s"))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert (answer, reason in ("BAD_ANSWER", "UNREACHABLE")) == (None, True)
        assert (peak < 16 * MIB, time.monotonic() - begun < 20) == (True, True)


def test_an_endpoint_that_lets_wait_in_vain_again_and_again_is_left_alone_in_the_end(server, monkeypatch):
    def every_other(handler: Handler, request: dict[str, Any]) -> None:
        if int(request["header"]["transactionId"][1:]) % 2:
            time.sleep(1)
        handler.reply("COMMIT_MESSAGE")

    server.manners["/x"] = every_other
    monkeypatch.setattr(http, "LONGEST_IN_VAIN", 1)
    http_resolver = resolver(f"{server.at}/x", down_after=6, concurrency=1, timeout="250ms")
    found = ask(http_resolver, *[check(f"T{n}") for n in range(60)])
    assert found[0] == ("commit", None)
    assert found[-2:] == [(None, "UNREACHABLE")] * 2
    assert 6 <= len(server.seen) <= 13


def test_a_port_that_is_none_is_unreachable():
    assert ask(resolver("http://127.0.0.1:99999/x")) == [(None, "UNREACHABLE")]
