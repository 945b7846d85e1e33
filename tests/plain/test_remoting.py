"""The remoting client: frames as F6 has them, peers that lie, stall or hang up, and what each request says."""

from __future__ import annotations

import json
import ssl
import struct
import subprocess
import time
import tracemalloc
from contextlib import contextmanager
from pathlib import Path

import pytest
from remoting_server import RemotingServer, answer, drip, frame

from txmq_lib.errors import ProtocolError, RefusedError, UnreachableError, UsageError
from txmq_lib.rocketmq.remoting import broker, name_server
from txmq_lib.rocketmq.remoting.broker import End, Queue
from txmq_lib.rocketmq.remoting.connection import LARGE_ANSWER, Access, Connection, Tls
from txmq_lib.rocketmq.remoting.frame import MAX_FRAME_BYTES, Command, decode, encode, frame_length
from txmq_lib.rocketmq.remoting.signature import Credentials

PATIENT = Access(timeout=5)
SHORT = Access(timeout=0.3)


@contextmanager
def broker_that(reply):
    """A server that answers so, and a connection to it."""
    with RemotingServer(reply) as server, Connection(server.address, PATIENT) as peer:
        yield server, peer


@contextmanager
def name_server_that(reply):
    """The same, found as a name server is."""
    with RemotingServer(reply) as server, name_server.name_server([server.address], PATIENT) as peer:
        yield server, peer


OK = {"code": 0, "opaque": 1, "flag": 1}


# --- frames


def test_a_request_is_length_header_word_json_header_and_body():
    frame_ = encode(Command(37, {"producerGroup": "GID_Ä", "commitOrRollback": "8"}, b"body", opaque=7))
    length, word = struct.unpack(">iI", frame_[:8])
    assert (length, word >> 24) == (len(frame_) - 4, 0)
    header = json.loads(frame_[8 : 8 + word])
    assert header == {
        "code": 37, "language": "PYTHON", "version": 0, "opaque": 7, "flag": 0,
        "extFields": {"producerGroup": "GID_Ä", "commitOrRollback": "8"}, "serializeTypeCurrentRPC": "JSON",
    }  # fmt: skip
    assert frame_[8 + word :] == b"body"


def test_an_answer_typed_by_hand_is_read():
    head = b'{"code":17,"extFields":{"offset":"5","n":3},"flag":1,"language":"JAVA","opaque":9,"remark":"no topic"}'
    raw = b"\x00\x00\x00\x6d" + b"\x00\x00\x00\x66" + head + b"abc"
    assert frame_length(raw[:4]) == len(raw) - 4 == 109
    assert decode(raw[4:]) == Command(17, {"offset": "5", "n": "3"}, b"abc", opaque=9, flag=1, remark="no topic")


def test_half_a_surrogate_pair_is_a_question_mark_in_whatever_a_peer_says():
    head = rb'{"code":1,"opaque":9,"flag":1,"extFields":{"\ud800":"a\udfffb"},"remark":"\ud83d\ude00 \ud800"}'
    found = decode(struct.pack(">I", len(head)) + head)
    assert (dict(found.fields), found.remark) == ({"?": "a?b"}, "\U0001f600 ?")
    listed = rb'{"topicList":["\udc00T","plain"]}'
    with name_server_that(lambda request: answer(request, body=listed)) as (_, peer):
        assert name_server.topics(peer) == ["?T", "plain"]


@pytest.mark.parametrize("length", [-1, 0, 3, MAX_FRAME_BYTES + 1, 0x48545450, 2**31 - 1])
def test_an_absurd_length_is_refused_before_anything_is_read(length):
    with pytest.raises(ProtocolError, match="no RocketMQ remoting port"):
        frame_length(struct.pack(">i", length))


@pytest.mark.parametrize(
    "raw",
    [
        struct.pack(">I", 100) + b"{}",
        struct.pack(">I", 0xFFFFFF) + b"{}",
        struct.pack(">I", 0),
        frame(OK, serialisation=1)[4:],
        frame(b"no json")[4:],
        frame(b"[1]")[4:],
        frame(b"[" * 100_000)[4:],
        frame(b'{"code":' + b"9" * 5000 + b"}")[4:],
        frame(b"\xff\xfe{}")[4:],
        frame({"opaque": 1, "flag": 1})[4:],
        frame({"code": "0", "opaque": 1, "flag": 1})[4:],
        frame({"code": 0, "opaque": 2**40, "flag": 1})[4:],
        frame({"code": 0, "opaque": True, "flag": 1})[4:],
        frame(OK | {"extFields": [1]})[4:],
        frame(OK | {"x": "y" * 300_000})[4:],
    ],
)
def test_a_malformed_header_is_a_protocol_error(raw):
    with pytest.raises(ProtocolError):
        decode(raw)


def test_a_request_that_no_broker_takes_is_not_sent():
    with pytest.raises(ProtocolError, match="longer than a broker takes"):
        encode(Command(10, {}, bytes(MAX_FRAME_BYTES)))


# --- ACL


def test_the_signature_is_over_all_fields_in_order_of_their_names():
    # printf 'AKtxmq17broker-a' | openssl dgst -sha1 -hmac sEcret -binary | base64
    signed = Credentials("AKtxmq", "sEcret").signed({"queueId": "17", "topic": "broker-a"}, b"")
    assert signed == {
        "queueId": "17", "topic": "broker-a", "AccessKey": "AKtxmq", "Signature": "hYvX8Lultl7O/3uMDQP3LotMG2Q=",
    }  # fmt: skip
    with_body = Credentials("AKtxmq", "sEcret").signed({"queueId": "17"}, b"broker-a")
    assert with_body["Signature"] == signed["Signature"]
    assert "sEcret" not in repr(Credentials("AKtxmq", "sEcret"))


def test_every_request_of_a_connection_with_keys_is_signed():
    with RemotingServer(answer) as server, Connection(server.address, Access(5, Credentials("AKtxmq", "s"))) as peer:
        peer.ask(Command(26))
        peer.ask(Command(43, {"a": "b"}))
    assert [set(request["extFields"]) for request in server.requests] == [
        {"AccessKey", "Signature"}, {"AccessKey", "Signature", "a"},
    ]  # fmt: skip


# --- connections


def test_answers_come_to_their_requests_in_whatever_order_they_arrive():
    held = []

    def backwards(request):
        held.append(answer(request, remark=request["extFields"]["n"]))
        return b"".join(reversed(held)) if len(held) == 5 else b""

    with RemotingServer(backwards) as server, Connection(server.address, PATIENT) as peer:
        assert [each.remark for each in peer.ask_all(Command(1, {"n": str(n)}) for n in range(5))] == list("01234")


def test_more_requests_than_may_be_under_way_are_all_answered():
    with RemotingServer(answer) as server, Connection(server.address, PATIENT) as peer:
        assert len(list(peer.ask_all(Command(1) for _ in range(200)))) == 200
    assert [request["opaque"] for request in server.requests] == list(range(1, 201))


def test_what_a_broker_asks_its_clients_is_passed_over():
    notice = frame({"code": 40, "opaque": 99, "flag": 2, "extFields": {"consumerGroup": "g"}})
    with RemotingServer(lambda request: notice + answer(request)) as server:
        assert Connection(server.address, PATIENT).ask(Command(1)).code == 0


@pytest.mark.parametrize(
    ("reply", "error", "words"),
    [
        (lambda request: None, UnreachableError, "closed the connection"),
        (lambda request: answer(request)[:-5], UnreachableError, "no answer within 0.3 s"),
        (lambda request: b"", UnreachableError, "no answer within 0.3 s"),
        (lambda request: drip(answer(request), pause=0.02), UnreachableError, "no answer within 0.3 s"),
        (lambda request: drip(b"\x00\x01" + bytes(20_000), pause=0.0002), UnreachableError, "no answer within 0.3 s"),
        (lambda request: b"HTTP/1.1 400 Bad Request\r\n\r\n", ProtocolError, "no RocketMQ remoting port"),
        (lambda request: struct.pack(">i", 2**31 - 1), ProtocolError, "a frame of 2147483647 bytes"),
        (lambda request: answer({"opaque": 77}), ProtocolError, "never asked"),
        (lambda request: frame(b"{"), ProtocolError, "no JSON object"),
    ],
)
def test_a_peer_that_hangs_up_stalls_or_lies_is_an_error_in_time(reply, error, words):
    with RemotingServer(reply) as server:
        peer = Connection(server.address, SHORT)
        begun = time.monotonic()
        with pytest.raises(error, match=words) as raised:
            peer.ask(Command(1))
        assert server.address in str(raised.value)
        assert time.monotonic() - begun < 2
        with pytest.raises(UnreachableError):
            peer.ask(Command(1))


def test_a_frame_that_claims_much_and_sends_little_takes_no_memory():
    with RemotingServer(lambda request: struct.pack(">i", MAX_FRAME_BYTES)) as server:
        peer = Connection(server.address, SHORT)
        tracemalloc.start()
        with pytest.raises(UnreachableError):
            peer.ask(Command(1), most_bytes=LARGE_ANSWER)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert peak < 2_000_000


def test_requests_of_the_peer_without_end_do_not_hold_a_connection():
    def chatter(request):
        while True:
            yield frame({"code": 40, "opaque": 1, "flag": 2})
            time.sleep(0.01)

    with RemotingServer(chatter) as server, pytest.raises(UnreachableError, match="no answer within"):
        Connection(server.address, SHORT).ask(Command(1))


def test_nobody_there_is_an_error_that_names_the_place():
    with RemotingServer(answer) as server:
        pass
    with pytest.raises(UnreachableError, match=server.address):
        Connection(server.address, SHORT)
    with pytest.raises(ProtocolError, match="host:port"):
        Connection("nowhere", SHORT)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    both = tmp_path_factory.mktemp("tls") / "both.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-keyout", str(both), "-out", "-", "-days",
               "2", "-subj", "/CN=broker.example", "-addext", "subjectAltName=DNS:broker.example"]  # fmt: skip
    shown = subprocess.run(command, capture_output=True, check=True).stdout
    with both.open("ab") as file:
        file.write(shown)
    return both


def test_tls_wants_a_certificate_it_knows_and_the_right_name_unless_told_not_to(certificate):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with RemotingServer(answer, tls=context) as server:
        known = Access(5, tls=Tls(str(certificate), checks_host_name=False))
        assert Connection(server.address, known).ask(Command(1)).code == 0
        with pytest.raises(UnreachableError, match=r"TLS.*certificate"):
            Connection(server.address, Access(5, tls=Tls(str(certificate))))
        with pytest.raises(UnreachableError, match="TLS"):
            Connection(server.address, Access(5, tls=Tls()))
        with pytest.raises((UnreachableError, ProtocolError)):
            Connection(server.address, SHORT).ask(Command(1))


# --- name servers

ROUTE = (
    b'{"brokerDatas":[{"brokerAddrs":{%s:"10.0.0.1:10911",%s:"10.0.0.2:10911"},"brokerName":"a","cluster":"c"},'
    b'{"brokerAddrs":{%s:"10.0.0.3:10911"},"brokerName":"b","cluster":"c"}],"filterServerTable":{},'
    b'"queueDatas":[{"brokerName":"a","perm":6,"readQueueNums":4,"topicSysFlag":0,"writeQueueNums":2},'
    b'{"brokerName":"b","perm":2,"readQueueNums":8,"topicSysFlag":0,"writeQueueNums":8}]}'
)


@pytest.mark.parametrize("quote", [b"", b'"'])
def test_a_route_tells_masters_and_readable_queues_however_its_keys_are_written(quote):
    ids = tuple(quote + digit + quote for digit in (b"0", b"1", b"1"))
    with name_server_that(lambda request: answer(request, body=ROUTE % ids)) as (server, peer):
        ((topic, route),) = name_server.routes(peer, ["TopicA"])
    assert (topic, dict(route.read_queues)) == ("TopicA", {"a": 4, "b": 0})
    assert (route.master("a"), route.master("b"), route.master("c")) == ("10.0.0.1:10911", None, None)
    assert server.requests[0]["code"] == 105
    assert server.requests[0]["extFields"] == {"topic": "TopicA", "acceptStandardJsonOnly": "true"}


def test_topics_are_those_of_the_first_name_server_that_answers():
    with RemotingServer(answer) as gone:
        pass
    listed = b'{"brokerAddr":"x","topicList":["RMQ_SYS_TRANS_HALF_TOPIC","TopicA"]}'
    with RemotingServer(lambda request: answer(request, body=listed)) as server:
        addresses = [gone.address, server.address]
        with name_server.name_server(addresses, SHORT) as peer:
            found = name_server.topics(peer)
    assert found == ["RMQ_SYS_TRANS_HALF_TOPIC", "TopicA"]
    assert server.codes() == [206]
    with pytest.raises(UnreachableError, match=rf"{gone.address}.*; {server.address}"):
        name_server.name_server([gone.address, server.address], SHORT).__enter__()


def test_a_topic_without_a_route_is_none_and_other_refusals_are_told():
    with name_server_that(lambda request: answer(request, 17, remark="No topic route info")) as (_, peer):
        assert list(name_server.routes(peer, ["gone"])) == [("gone", None)]
        with pytest.raises(RefusedError, match="topic list: code 17, No topic route info"):
            name_server.topics(peer)


@pytest.mark.parametrize(
    "body",
    [
        b"", b"[]", b"[" * 50_000, b"\xff",
        b'{"queueDatas":[{"brokerName":"a","perm":6}]}',
        b'{"queueDatas":[{"brokerName":"a","perm":6,"readQueueNums":100000000000}]}',
        b'{"queueDatas":[{"brokerName":"a","perm":"6","readQueueNums":1}]}',
        b'{"queueDatas":[4]}', b'{"brokerDatas":{}, "queueDatas": 7}',
        b'{"brokerDatas":[{"brokerName":"a","brokerAddrs":[1]}]}',
    ],
)  # fmt: skip
def test_a_malformed_route_is_a_protocol_error(body):
    with name_server_that(lambda request: answer(request, body=body)) as (_, peer), pytest.raises(ProtocolError):
        list(name_server.routes(peer, ["TopicA"]))


# --- brokers


def test_a_pull_commits_nothing_waits_for_nothing_and_never_speaks_for_the_checks():
    request = broker.pull_request("TXMQ_READER", Queue("TopicA", 3), 70, 500)
    assert (request.code, dict(request.fields)) == (
        11,
        {"consumerGroup": "TXMQ_READER", "topic": "TopicA", "queueId": "3", "queueOffset": "70", "maxMsgNums": "32",
         "sysFlag": "4", "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*", "subVersion": "0",
         "expressionType": "TAG", "lo": "false"},
    )  # fmt: skip
    with pytest.raises(UsageError, match="CID_RMQ_SYS_TRANS"):
        broker.pull_request("CID_RMQ_SYS_TRANS", Queue("RMQ_SYS_TRANS_HALF_TOPIC", 0), 0, 1)


def test_offsets_are_told_per_queue_and_a_refusal_stands_for_its_queue_alone():
    answers = {"a": {"offset": 7}, "b": {"offset": -1}}

    def reply(request):
        topic = request["extFields"]["topic"]
        return (
            answer(request, **answers[topic]) if topic in answers else answer(request, 16, remark="no permission\nat x")
        )

    with RemotingServer(reply) as server, Connection(server.address, PATIENT) as peer:
        seven, none, refused = broker.max_offsets(peer, [Queue("a", 0), Queue("b", 1), Queue("c", 2)])
        assert (seven, none) == (7, 0)
        assert (refused.response_code, refused.remark) == (16, "no permission")
        assert str(refused) == f"{server.address}: max offset of c queue 2: code 16, no permission"
        assert next(broker.min_offsets(peer, [Queue("a", 0)])) == 7
    assert server.codes() == [30, 30, 30, 31]


@pytest.mark.parametrize("offset", ["", "x", "1.5", "9" * 30, "9" * 19, "٣", "--1"])
def test_an_offset_that_is_none_is_a_protocol_error(offset):
    with (
        broker_that(lambda request: answer(request, offset=offset)) as (_, peer),
        pytest.raises(ProtocolError, match="offset of an answer"),
    ):
        list(broker.max_offsets(peer, [Queue("a", 0)]))


def test_the_settings_of_a_broker_are_read_by_name():
    body = b"brokerName=a\ntransactionTimeOut=6000\nempty=\nno line\nurl=x=y\n"
    with broker_that(lambda request: answer(request, body=body)) as (server, peer):
        assert broker.broker_config(peer) == {
            "brokerName": "a", "transactionTimeOut": "6000", "empty": "", "url": "x=y",
        }  # fmt: skip
    assert server.codes() == [26]


def test_an_end_names_its_half_by_both_offsets_and_answers_a_check():
    end = End("GID_PAY", 60, 31224, 8, "C0A8", "TopicA")
    with broker_that(lambda request: answer(request, 1, remark="The producer group wrong")) as (server, peer):
        outcome = broker.end_transaction(peer, end)
    assert (outcome.code, outcome.remark) == (1, "The producer group wrong")
    (request,) = server.requests
    assert (request["code"], request["flag"]) == (37, 0)
    assert request["extFields"] == {
        "producerGroup": "GID_PAY", "tranStateTableOffset": "60", "commitLogOffset": "31224", "commitOrRollback": "8",
        "fromTransactionCheck": "true", "msgId": "C0A8", "transactionId": "C0A8", "topic": "TopicA",
    }  # fmt: skip


def test_a_resume_names_the_message_by_its_offset_id():
    with RemotingServer(answer) as server, Connection(server.address, PATIENT) as peer:
        id_ = "7F00000100004E080000000000000000"
        assert broker.resume_check(peer, offset_msg_id=id_, topic="TRANS_CHECK_MAX_TIME_TOPIC").code == 0
    (request,) = server.requests
    assert (request["code"], request["extFields"]) == (323, {"msgId": id_, "topic": "TRANS_CHECK_MAX_TIME_TOPIC"})


@pytest.mark.parametrize("host", ["10.0.0..5", f"{'a' * 64}.example"])
def test_a_name_that_no_host_can_have_is_unreachable(host):
    with pytest.raises(UnreachableError, match="no host has such a name"):
        Connection(f"{host}:10911", SHORT)


def test_a_second_answer_to_one_request_is_refused_and_no_ask_goes_on_for_ever():
    def first_answer_again(request):
        return [answer({**request, "opaque": 1})] * (1 if request["opaque"] == 1 else 50)

    with broker_that(first_answer_again) as (_, peer):
        assert peer.ask(Command(26)).opaque == 1
        with pytest.raises(ProtocolError, match="a second one"):
            peer.ask(Command(26))
