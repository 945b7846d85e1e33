"""Closed by default: where Spark is one JVM, its sockets wait on loopback, and nobody is read who has not proved it."""

from __future__ import annotations

import json
import os
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from processes import PROC, Seen, watched
from signals_commands import COMMANDS
from signals_places import Places

from txmq_lib.spark.jvm_start import LOOPBACK

pytestmark = [
    pytest.mark.spark,
    pytest.mark.skipif(not PROC.is_dir(), reason="only Linux tells of sockets and processes here"),
]

RPC_REQUEST = 3
# What Java's serialisation begins with, and a string: `readObject` reads it before it is known who sends.
OBJECT = b"\xac\xed\x00\x05t\x00\x05hello"


def test_every_socket_of_a_session_waits_on_loopback_also_with_python_workers(spark):
    assert spark.sparkContext.parallelize(range(2), 2).map(lambda number: number + 1).sum() == 3
    seen = Seen()
    seen.look(os.getpid())
    assert len(seen.listening) >= 3  # RPC, blocks, py4j
    assert seen.elsewhere() == set()


def test_an_object_from_somebody_without_the_secret_is_not_deserialised(spark):
    port = int(spark.sparkContext.getConf().get("spark.driver.port"))
    request = bytes([1]) + struct.pack(">H", 4) + b"here" + struct.pack(">i", 7)
    to = bytes([1]) + struct.pack(">H", 9) + b"127.0.0.1" + struct.pack(">i", port)
    name = struct.pack(">H", 17) + b"HeartbeatReceiver"
    body = request + to + name + OBJECT
    frame = bytes([RPC_REQUEST]) + struct.pack(">qi", 1, len(body)) + body
    with socket.create_connection((spark.sparkContext.getConf().get("spark.driver.host"), port), timeout=10) as peer:
        peer.sendall(struct.pack(">q", len(frame) + 8) + frame)
        received = peer.recv(65536)
    assert b"sasl" in received.lower()
    assert b"hello" not in received


TOLD = """
import json, sys
from txmq_lib.spark.session import build_session
from txmq_lib.config.settings import Settings

spark = build_session("told", Settings.load(sys.argv[1:]))
java = spark._jvm.java.lang.System.getProperty
print(json.dumps([java("txmq.default.password"), java("txmq.password"), java("spark.hadoop.fs.s3a.secret.key")]))
"""


def test_what_spark_is_told_is_in_no_argument_and_its_pages_wait_on_loopback(tmp_path):
    settings = tmp_path / "settings.yaml"
    settings.write_text(r"""
spark:
  spark.ui.enabled: true
  spark.hadoop.fs.s3a.secret.key: "s3cr\u00e9t = of:the # store \\ \U0001F511"
  spark.driver.defaultJavaOptions: "-Dtxmq.default.password=s3cret"
  spark.driver.extraJavaOptions: "-XX:TieredStopAtLevel=1 -Dtxmq.password='s3cret \\ \"of Java'"
""", encoding="utf-8")  # fmt: skip
    ended = watched([str(settings)], tmp_path, os.environ, program=TOLD)
    assert ended.status == 0, ended.err
    assert json.loads(ended.out) == ["s3cret", 's3cret \\ "of Java', "s3cr\u00e9t = of:the # store \\ \U0001f511"]
    assert any(b"SparkSubmit" in arguments and b"TieredStopAtLevel" in arguments for arguments in ended.seen.arguments)
    assert [arguments for arguments in ended.seen.arguments if b"s3cr" in arguments] == []
    assert len(ended.seen.listening) >= 4
    assert ended.seen.elsewhere() == set()


@pytest.fixture(scope="module")
def places(tmp_path_factory, spark) -> Iterator[Places]:
    found = Places(tmp_path_factory.mktemp("places"))
    yield found
    found.close()


OPEN = ("--set", "spark.spark.ui.enabled=true", "--set", "spark.spark.driver.memory=1g")
LISTENING = ("--listen", "127.0.0.1:0")


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name, command in COMMANDS.items() if command.starts_jvm])
def test_every_socket_of_every_command_waits_on_loopback(name, places, tmp_path):
    """tests/jobs/test_ended_by_signals.py holds the list whole."""
    command = COMMANDS[name]
    run = places.copied(command, f"sockets of {name}")
    places.peers.begin()
    arguments = [*OPEN, *places.line(run, command.arguments), *(LISTENING if name == "serve" else ())]
    ended = watched(arguments, tmp_path, os.environ, is_to_end=lambda: _serves(run / "health.json"))
    places.leave(run, command)
    assert ended.status in (0, 1), ended.err
    assert any(b"SparkSubmit" in seen for seen in ended.seen.arguments), ended.err
    assert len(ended.seen.listening) >= 4 + (name == "serve")
    assert ended.seen.elsewhere() == set()


def _serves(health: Path) -> bool:
    return health.exists() and json.loads(health.read_text())["state"] == "running"


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name, command in COMMANDS.items() if not command.starts_jvm])
def test_no_other_command_listens_or_starts_a_jvm(name, places, tmp_path):
    command = COMMANDS[name]
    run = places.copied(command, f"sockets of {name}")
    arguments = places.line(run, command.arguments)
    begun = time.monotonic()
    ended = watched(
        arguments, tmp_path, os.environ, is_to_end=lambda: not command.has_end and time.monotonic() > begun + 3
    )
    places.leave(run, command)
    assert (ended.seen.listening, ended.seen.children) == (set(), set())


@pytest.mark.long
@pytest.mark.parametrize("is_open", [True, False])
def test_a_cluster_whose_rpc_asks_for_no_secret_is_told(is_open, tmp_path):
    own = ["spark.spark.master=local-cluster[1,1,1024]", "spark.spark.driver.memory=1g"]
    own += [] if is_open else ["spark.spark.authenticate=true", "spark.spark.authenticate.secret=s3cret"]
    arguments = [part for each in own for part in ("--set", each)]
    ended = watched([*arguments, "init"], tmp_path, {**os.environ, "SPARK_LOCAL_IP": LOOPBACK})
    assert ended.status == 0, ended.err
    assert ("asks for no secret: whoever reaches its ports can run code" in ended.err) == is_open
