"""A real proxy of RocketMQ 5.5.0 with its broker in one process (local mode), and real clients over gRPC."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

from real_broker import JAVA_PARTS, ROOT, Client, RealRocketmq, free_port

from txmq_lib.rocketmq.remoting.connection import Connection
from txmq_lib.rocketmq.remoting.frame import Command

UPDATE_AND_CREATE_TOPIC = 17
UPDATE_AND_CREATE_SUBSCRIPTIONGROUP = 200


def grpc_jars() -> Path:
    """The directory of the jars of proxy and client, fetched by Maven once."""
    directory = ROOT / "build" / "rocketmq-5.5.0-grpc"
    if not directory.exists():
        fetched = directory.with_name(f"{directory.name}.part")
        command = ["mvn", "-q", "-B", "-f", str(JAVA_PARTS / "grpc" / "pom.xml"), "dependency:copy-dependencies",
                   f"-DoutputDirectory={fetched}"]  # fmt: skip
        subprocess.run(command, check=True, timeout=900)
        fetched.rename(directory)
    return directory


class RealProxy(RealRocketmq):
    """A name server, and a proxy that is the broker as well."""

    def __init__(self, **broker_settings: str) -> None:
        super().__init__("5.5.0", **broker_settings)
        self.grpc_port = free_port()

    def start_broker(self) -> None:
        """Start the proxy in local mode, on the store that its broker left."""
        conf, proxy = self.broker_conf(), self.directory / "rmq-proxy.json"
        settings = {
            "rocketMQClusterName": "TestCluster", "proxyMode": "LOCAL", "namesrvAddr": self.namesrv,
            "grpcServerPort": self.grpc_port, "remotingListenPort": free_port(), "localServeAddr": "127.0.0.1",
            "enablePrintJstack": False,
        }  # fmt: skip
        proxy.write_text(json.dumps(settings), encoding="utf-8")
        self.jars, ours = grpc_jars(), self.jars
        try:
            self._spawn("broker", "768m", "org.apache.rocketmq.proxy.ProxyStartup", "-n", self.namesrv, "-pm", "local",
                        "-bc", str(conf), "-pc", str(proxy))  # fmt: skip
        finally:
            self.jars = ours
        self._wait_for_port(self.broker_port, "broker")
        self._wait_for_port(self.grpc_port, "broker")
        self._wait_for_registration()

    def create_topic(self, topic: str) -> None:
        """A topic that takes transactional messages: the proxy looks at its type."""
        fields = {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": "4", "writeQueueNums": "4", "perm": "6",
                  "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
                  "attributes": "+message.type=TRANSACTION"}  # fmt: skip
        with Connection(self.address, self.access) as connection:
            answer = connection.ask(Command(UPDATE_AND_CREATE_TOPIC, fields))
            connection.require_success(answer, "topic")

    def create_group(self, group: str) -> None:
        """A consumer group: the proxy creates none, and a consumer of one that it does not know does not start."""
        body = json.dumps(
            {"groupName": group, "consumeEnable": True, "retryQueueNums": 1, "retryMaxTimes": 16}
        ).encode()
        with Connection(self.address, self.access) as connection:
            answer = connection.ask(Command(UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, body=body))
            connection.require_success(answer, "consumer group")

    def grpc_client(self, main: str, *arguments: str) -> Client:
        """Start a client of real_broker_java/grpc."""
        jars = sorted(grpc_jars().glob("*.jar"))
        # Both hold the classes of the protocol, over another gRPC each.
        of_java_client = [jar for jar in jars if jar.name.startswith("rocketmq-client-java")]
        others = [jar for jar in jars if jar not in of_java_client]
        path = ":".join(map(str, (*of_java_client, *others) if main != "GzipSender" else others))
        classes = self.directory / main
        source = JAVA_PARTS / "grpc" / f"{main}.java"
        command = ["javac", "-nowarn", "-cp", path, "-d", str(classes), str(source)]
        subprocess.run(command, check=True, capture_output=True, timeout=120)
        command = ["java", "-Xmx160m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Duser.home={self.directory}",
                   "-Djava.net.preferIPv4Stack=true", "-cp", f"{classes}:{path}", main, *arguments]  # fmt: skip
        return self._started(command)


@contextlib.contextmanager
def real_proxy(**broker_settings: str) -> Iterator[RealProxy]:
    """A running name server and proxy."""
    server = RealProxy(**broker_settings)
    try:
        server.start()
        yield server
    finally:
        server.close()
