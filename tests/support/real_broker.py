"""A real name server and broker of RocketMQ's own jars on loopback, and real Java clients, all with small heaps.

A broker of 5.5.0 keeps a core busy from its first op on (apache/rocketmq #10966). 4.9 knows no bindAddress: while they
run, its name server and broker listen on every interface of the machine.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from txmq_lib.errors import RemotingError
from txmq_lib.rocketmq.remoting.connection import Access, Connection, Tls
from txmq_lib.rocketmq.remoting.name_server import routes

JAVA_PARTS = Path(__file__).parent / "real_broker_java"
ROOT = Path(__file__).resolve().parents[2]
BROKER = "real-a"
NEWEST_4_9 = "4.9.7"  # the newest 4.9 whose broker and name server are on Maven Central
OPENED = [
    f"--add-{how}=java.base/{package}=ALL-UNNAMED"
    for how, package in (
        ("exports", "jdk.internal.ref"),
        ("opens", "jdk.internal.ref"),
        ("opens", "sun.nio.ch"),
        ("exports", "sun.nio.ch"),
        ("opens", "java.nio"),
    )
]
CREATES_TOPICS = "TBW102"  # which every broker here has: autoCreateTopicEnable
QUICK = {"transactionTimeOut": "2000", "transactionCheckInterval": "3000", "transactionCheckMax": "2",
         "transactionOpBatchInterval": "500"}  # fmt: skip


def jars(version: str = "5.5.0") -> Path:
    """The directory of RocketMQ's jars, fetched by Maven once; TXMQ_ROCKETMQ_JARS names one that is there already."""
    named = os.environ.get("TXMQ_ROCKETMQ_JARS")
    if named and version == "5.5.0":
        return Path(named)
    directory = ROOT / "build" / f"rocketmq-{version}"
    if not directory.exists():
        fetched = directory.with_name(f"{directory.name}.part")
        command = ["mvn", "-q", "-B", "-f", str(JAVA_PARTS / "pom.xml"), f"-Drocketmq.version={version}",
                   "dependency:copy-dependencies", f"-DoutputDirectory={fetched}"]  # fmt: skip
        subprocess.run(command, check=True, timeout=900)
        fetched.rename(directory)
    return directory


def free_port() -> int:
    """A port with room for the two beside it that a broker opens."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@dataclass
class Client:
    """A Java client, and the lines it has told so far."""

    process: subprocess.Popen[str]
    lines: list[str] = field(default_factory=list)

    def told(self, word: str) -> list[list[str]]:
        """The lines that begin with a word, split, without it."""
        return [line.split()[1:] for line in list(self.lines) if line.split()[:1] == [word]]

    def wait_for(self, word: str, *, count: int = 1, seconds: float = 150) -> list[list[str]]:
        """Wait until so many lines begin with the word."""
        end = time.monotonic() + seconds
        while len(self.told(word)) < count:
            assert time.monotonic() < end, f"no {count} x {word} within {seconds} s: {self.lines[-5:]}"
            assert self.process.poll() is None or self.process.returncode == 0, self.lines[-20:]
            time.sleep(0.1)
        return self.told(word)

    def stop(self) -> None:
        """Let it end by itself, or kill it."""
        with contextlib.suppress(OSError):
            self.process.stdin.close()  # type: ignore[union-attr]
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.kill()

    def kill(self) -> None:
        """End it at once, as a crash would."""
        self.process.kill()
        self.process.wait()


class RealRocketmq:
    """One name server and one broker; both end with this object's `close`.

    has_tls  whether they speak TLS only, with the certificate at `certificate`
    """

    def __init__(self, version: str = "5.5.0", *, has_tls: bool = False, **broker_settings: str) -> None:
        self.version = version
        self.directory = Path(tempfile.mkdtemp(prefix="txmq-rocketmq-"))
        self.certificate = self.directory / "certificate.pem"
        self._tls_options = self._tls() if has_tls else []
        self.jars = jars(version)
        self.namesrv_port, self.broker_port = free_port(), free_port()
        self.settings = {**QUICK, **broker_settings}
        self.namesrv_settings: dict[str, str] = {}
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self._clients: list[Client] = []

    @property
    def namesrv(self) -> str:
        """The address of the name server."""
        return f"127.0.0.1:{self.namesrv_port}"

    @property
    def address(self) -> str:
        """The address of the broker."""
        return f"127.0.0.1:{self.broker_port}"

    def start(self) -> None:
        """Start both and wait until the broker is registered."""
        home = self.directory / "home"
        (home / "conf").mkdir(parents=True, exist_ok=True)
        for name in ("namesrv", "broker"):  # 4.9 does not start without them
            (home / "conf" / f"logback_{name}.xml").write_text("<configuration/>\n", encoding="utf-8")
        conf = self.directory / "namesrv.conf"
        lines = {"listenPort": str(self.namesrv_port), "bindAddress": "127.0.0.1", "kvConfigPath": f"{home}/kv.json",
                 "configStorePath": f"{home}/namesrv.properties", **self.namesrv_settings}  # fmt: skip
        _write_properties(conf, lines)
        self._spawn("namesrv", "64m", "org.apache.rocketmq.namesrv.NamesrvStartup", "-c", str(conf))
        self._wait_for_port(self.namesrv_port, "namesrv")
        self.start_broker()

    def start_broker(self) -> None:
        """Start the broker, on the store it left."""
        self._spawn("broker", "512m", "org.apache.rocketmq.broker.BrokerStartup", "-c", str(self.broker_conf()))
        self._wait_for_port(self.broker_port, "broker")
        self._wait_for_registration()

    def broker_conf(self, **more: str) -> Path:
        """The file of the broker's settings, written."""
        store = self.directory / more.pop("store", "store")
        lines = {
            "brokerClusterName": "TestCluster", "brokerName": BROKER, "brokerId": "0", "namesrvAddr": self.namesrv,
            "brokerIP1": "127.0.0.1", "brokerIP2": "127.0.0.1", "listenPort": str(self.broker_port),
            "bindAddress": "127.0.0.1", "storePathRootDir": str(store), "storePathCommitLog": f"{store}/commitlog",
            "mappedFileSizeCommitLog": str(16 << 20), "mappedFileSizeConsumeQueue": str(20 * 6000),
            "mappedFileSizeTimerLog": str(1 << 20), "maxHashSlotNum": "5000", "maxIndexNum": "20000",
            "flushDiskType": "ASYNC_FLUSH", "brokerRole": "ASYNC_MASTER", "defaultTopicQueueNums": "4",
            "autoCreateTopicEnable": "true", "autoCreateSubscriptionGroup": "true",
            "flushConsumerOffsetInterval": "1000", "osPageCacheBusyTimeOutMills": "5000",
            "waitTimeMillsInSendQueue": "5000", **self.settings, **more,
        }  # fmt: skip
        conf = store.with_name("broker.conf" if store.name == "store" else f"{store.name}.conf")
        _write_properties(conf, lines)
        return conf

    def kill_broker(self) -> None:
        """End the broker as a crash would."""
        self._processes["broker"].kill()
        self._processes["broker"].wait()

    @property
    def access(self) -> Access:
        """How their ports are reached, without keys."""
        return Access(tls=Tls(str(self.certificate), checks_host_name=False) if self._tls_options else None)

    def client(self, *arguments: str) -> Client:
        """Start a Java client (real_broker_java/Clients.java)."""
        classes = self._compiled()
        command = ["java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Duser.home={self.directory}",
                   *self._tls_options, "-Djava.net.preferIPv4Stack=true", "-cp", f"{classes}:{self.jars}/*", "Clients", *arguments]  # fmt: skip
        return self._started(command)

    def _started(self, command: Sequence[str]) -> Client:
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        started = Client(process)
        self._clients.append(started)
        threading.Thread(target=collect, args=(process, started.lines), daemon=True).start()
        return started

    def close(self) -> None:
        """Stop all that runs and delete what it wrote."""
        for client in self._clients:
            if client.process.poll() is None:
                client.kill()
        for process in reversed(list(self._processes.values())):
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
                process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _compiled(self) -> Path:
        classes = self.directory / "classes"
        if not classes.exists():
            source = JAVA_PARTS / "Clients.java"
            command = ["javac", "-nowarn", "-cp", f"{self.jars}/*", "-d", str(classes), str(source)]
            subprocess.run(command, check=True, capture_output=True, timeout=120)
        return classes

    def _spawn(self, name: str, heap: str, main: str, *arguments: str) -> None:
        home = self.directory / "home"
        command = ["java", f"-Xms{heap}", f"-Xmx{heap}", "-XX:+UseSerialGC", "-XX:MaxDirectMemorySize=256m",
                   "-XX:TieredStopAtLevel=1", f"-Duser.home={home}", f"-Drocketmq.home.dir={home}",
                   "-Djava.net.preferIPv4Stack=true", *self._tls_options, *OPENED, "-cp", f"{self.jars}/*", main, *arguments]  # fmt: skip
        with (self.directory / f"{name}.log").open("ab") as log:
            self._processes[name] = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                env={**os.environ, "ROCKETMQ_HOME": str(home)},
            )  # fmt: skip

    def _tls(self) -> list[str]:
        """Make a certificate; the options of Java that make RocketMQ use it."""
        key, settings = self.directory / "key.pem", self.directory / "tls.properties"
        command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=loopback",
                   "-keyout", str(key), "-out", str(self.certificate)]  # fmt: skip
        subprocess.run(command, check=True, capture_output=True)
        lines = {"tls.test.mode.enable": "false", "tls.server.need.client.auth": "none", "tls.server.keyPath": str(key),
                 "tls.server.certPath": str(self.certificate), "tls.client.authServer": "false"}  # fmt: skip
        _write_properties(settings, lines)
        return ["-Dtls.enable=true", "-Dtls.server.mode=enforcing", f"-Dtls.config.file={settings}"]

    def _wait_for_registration(self) -> None:
        end = time.monotonic() + 120
        while not _is_registered(self):
            assert time.monotonic() < end, "the broker is not registered"
            time.sleep(0.5)

    def _wait_for_port(self, port: int, name: str) -> None:
        end = time.monotonic() + 300
        while time.monotonic() < end:
            if self._processes[name].poll() is not None:
                raise RuntimeError(f"{name} ended: {(self.directory / f'{name}.log').read_text()[-2000:]}")
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 0.5):
                return
            time.sleep(0.2)
        raise RuntimeError(f"{name} does not listen on {port}")


class RealPair(RealRocketmq):
    """A name server and two brokers of one name, `first` and `second`: master and slave, or under a controller.

    elects_any  the controller makes a broker master that has not all its master had, where there is no other
    """

    def __init__(self, *, has_controller: bool, elects_any: bool = False, **broker_settings: str) -> None:
        super().__init__("5.5.0", **broker_settings)
        self.has_controller = has_controller
        self.ports = {"first": self.broker_port, "second": free_port()}
        self.controller = f"127.0.0.1:{free_port()}"
        if has_controller:
            self.namesrv_settings = {
                "enableControllerInNamesrv": "true", "controllerDLegerGroup": "group1", "controllerDLegerSelfId": "n0",
                "controllerDLegerPeers": f"n0-{self.controller}", "scanNotActiveBrokerInterval": "2000",
                "controllerStorePath": str(self.directory / "controller"),
                "enableElectUncleanMaster": str(elects_any).lower(),
            }  # fmt: skip
        else:
            self.namesrv_settings = {"supportActingMaster": "true", "scanNotActiveBrokerInterval": "2000"}

    def start_broker(self) -> None:
        """Start both, the one that is master first, and wait until the other is registered as well."""
        for name in self.ports:
            self.start_one(name)
            self.wait_for(lambda name=name: self.addresses().get("0") == self.place(name) or name == "second", 120)
        self.wait_for(lambda: len(self.addresses()) == 2, 120)

    def start_one(self, name: str) -> None:
        """Start one of them, on the store it left."""
        conf = self.broker_conf(store=name, listenPort=str(self.ports[name]), **self.role_of(name))
        self._spawn(name, "512m", "org.apache.rocketmq.broker.BrokerStartup", "-c", str(conf))
        self._wait_for_port(self.ports[name], name)

    def role_of(self, name: str) -> dict[str, str]:
        """The settings that one of them has for itself."""
        return {
            "enableControllerMode": "true", "controllerAddr": self.controller, "brokerId": "-1", "brokerRole": "SLAVE",
        } if self.has_controller else {
            "enableSlaveActingMaster": "true", "brokerId": "0" if name == "first" else "1",
            "brokerRole": "ASYNC_MASTER" if name == "first" else "SLAVE",
        }  # fmt: skip

    def kill(self, name: str) -> None:
        """End one as a crash would."""
        self._processes[name].kill()
        self._processes[name].wait()

    def place(self, name: str) -> str:
        """The address of one of them."""
        return f"127.0.0.1:{self.ports[name]}"

    def addresses(self) -> dict[str, str]:
        """The addresses of both by broker id, as the name server tells."""
        with contextlib.suppress(RemotingError), Connection(self.namesrv, self.access) as connection:
            ((_, route),) = routes(connection, [CREATES_TOPICS])
            return dict(route.addresses.get(BROKER, {})) if route is not None else {}
        return {}

    def master(self) -> str | None:
        """The name of the one that the name server has as master now."""
        return next((name for name in self.ports if self.place(name) == self.addresses().get("0")), None)

    def wait_for(self, holds: Callable[[], bool], seconds: float) -> None:
        """Look again and again."""
        end = time.monotonic() + seconds
        while not holds():
            assert time.monotonic() < end, f"{self.addresses()}, {self.ports}"
            time.sleep(0.5)


class RealDledger(RealPair):
    """A name server and three brokers of one name with one DLedger log, `n0` to `n2`, which elect their leader (R124)."""

    def __init__(self, **broker_settings: str) -> None:
        super().__init__(has_controller=False, **broker_settings)
        self.namesrv_settings = {"scanNotActiveBrokerInterval": "2000"}
        self.ports = {f"n{number}": free_port() for number in range(3)}
        self.peers = ";".join(f"{name}-127.0.0.1:{free_port()}" for name in self.ports)

    def start_broker(self) -> None:
        """Start all of them, and wait until one is leader and the others are registered as well."""
        for name in self.ports:
            self.start_one(name)
        self.wait_for(lambda: self.master() is not None and len(self.addresses()) == len(self.ports), 120)

    def role_of(self, name: str) -> dict[str, str]:
        """The settings that one of them has for itself; each may become leader."""
        return {"enableDLegerCommitLog": "true", "dLegerGroup": BROKER, "dLegerPeers": self.peers, "dLegerSelfId": name}


def _write_properties(path: Path, lines: Mapping[str, str]) -> None:
    path.write_text("".join(f"{key}={value}\n" for key, value in lines.items()), encoding="utf-8")


def _is_registered(server: RealRocketmq) -> bool:
    with contextlib.suppress(RemotingError), Connection(server.namesrv, server.access) as connection:
        ((_, route),) = routes(connection, [CREATES_TOPICS])
        return route is not None and route.master(BROKER) == server.address
    return False


def collect(process: subprocess.Popen[str], lines: list[str]) -> None:
    """Keep the lines that a process tells."""
    for line in process.stdout or ():
        lines.append(line.rstrip("\n"))


@contextlib.contextmanager
def real_rocketmq(version: str = "5.5.0", *, has_tls: bool = False, **broker_settings: str) -> Iterator[RealRocketmq]:
    """A running name server and broker."""
    server = RealRocketmq(version, has_tls=has_tls, **broker_settings)
    try:
        server.start()
        yield server
    finally:
        server.close()


@contextlib.contextmanager
def real_pair(*, has_controller: bool, elects_any: bool = False, **broker_settings: str) -> Iterator[RealPair]:
    """A running name server and two brokers of one name."""
    pair = RealPair(has_controller=has_controller, elects_any=elects_any, **broker_settings)
    try:
        pair.start()
        yield pair
    finally:
        pair.close()


@contextlib.contextmanager
def real_dledger(**broker_settings: str) -> Iterator[RealDledger]:
    """A running name server and three brokers with one DLedger log."""
    nodes = RealDledger(**broker_settings)
    try:
        nodes.start()
        yield nodes
    finally:
        nodes.close()


def plans(sent: Sequence[Sequence[str]]) -> dict[str, str]:
    """Transaction id -> plan, of a producer's `sent` lines."""
    return {id_: body.split("-")[0] for body, id_ in sent}
