"""A server in this process that speaks frames as F6 has them, typed here by hand, or whatever bytes it is told."""

from __future__ import annotations

import contextlib
import json
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

Request = dict[str, Any]
Reply = bytes | None | Iterable[bytes]


def frame(header: object, body: bytes = b"", *, serialisation: int = 0) -> bytes:
    """length(4), header word(4): serialisation in its top byte and the header's length, header, body."""
    head = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack(">iI", 4 + len(head) + len(body), serialisation << 24 | len(head)) + head + body


def answer(request: Request, code: int = 0, body: bytes = b"", remark: str | None = None, **fields: object) -> bytes:
    """An answer to a request, its fields all texts, as a broker's are."""
    header = {"code": code, "language": "JAVA", "version": 493, "opaque": request["opaque"], "flag": 1,
              "serializeTypeCurrentRPC": "JSON", "extFields": {name: str(value) for name, value in fields.items()}}  # fmt: skip
    return frame(header | ({"remark": remark} if remark is not None else {}), body)


def routed(request: Request, queues: Mapping[str, Mapping[str, int]], addresses: Mapping[str, str]) -> bytes:
    """What a name server answers: which topics there are, or the route of one.

    queues     by topic how many each broker has
    addresses  of the masters, by broker
    """
    if request["code"] == 206:
        return answer(request, body=json.dumps({"topicList": [*queues]}).encode())
    of_topic = queues.get(request["extFields"]["topic"])
    if of_topic is None:
        return answer(request, 17, remark="No topic route info in name server")
    route = {
        "queueDatas": [
            {"brokerName": name, "readQueueNums": count, "writeQueueNums": count, "perm": 6}
            for name, count in of_topic.items()
        ],
        "brokerDatas": [
            {"brokerName": name, "cluster": "c", "brokerAddrs": {"0": addresses[name]}} for name in of_topic
        ],
    }
    return answer(request, body=json.dumps(route).encode())


class RemotingServer:
    """Listens on loopback and answers every request by a function; None hangs up, several chunks go out one by one."""

    def __init__(self, reply: Callable[[Request], Reply], *, tls: ssl.SSLContext | None = None) -> None:
        self.requests: list[Request] = []
        self._reply, self._tls = reply, tls
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._open: list[socket.socket] = []
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> RemotingServer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Hang up on everybody and listen no more."""
        with contextlib.suppress(OSError):  # it may be closed already
            self._socket.shutdown(socket.SHUT_RDWR)  # closing alone does not wake a thread that accepts
        self._socket.close()
        for connection in self._open:
            connection.close()

    def codes(self) -> list[int]:
        """The codes of the requests so far."""
        return [request["code"] for request in self.requests]

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
                self._open.append(connection)
                threading.Thread(target=self._serve, args=(connection,), daemon=True).start()
            except OSError:
                return

    def _serve(self, connection: socket.socket) -> None:
        try:
            if self._tls is not None:
                connection = self._tls.wrap_socket(connection, server_side=True)
            for request in _requests(connection):
                self.requests.append(request)
                reply = self._reply(request)
                if reply is None:
                    connection.close()
                    return
                for chunk in (reply,) if isinstance(reply, bytes) else reply:
                    connection.sendall(chunk)
        except OSError:
            return


def drip(data: bytes, *, pause: float) -> Iterator[bytes]:
    """The bytes one by one."""
    for byte in data:
        yield bytes([byte])
        time.sleep(pause)


def _requests(connection: socket.socket) -> Iterator[Request]:
    stream = connection.makefile("rb")
    while prefix := stream.read(8):
        length, word = struct.unpack(">iI", prefix)
        rest = stream.read(length - 4)
        yield json.loads(rest[: word & 0xFFFFFF]) | {"body": rest[word & 0xFFFFFF :], "serialisation": word >> 24}


class FakeBroker:
    """Queues of stored records, answered as a broker does: pulls, min and max offsets, and what admin tools ask.

    most  records per pull; lowest  offset that retention left, per queue; unregistered  topics without a topic config
    (the op topic of 4.9), which only admin requests see; log_end  where the log ends, if its records do not tell;
    anything else asked is a refusal
    """

    def __init__(self, queues: dict[tuple[str, int], list[bytes]], *, most: int = 32) -> None:
        self.queues, self.most = queues, most
        self.lowest: dict[tuple[str, int], int] = {}
        self.log_end: int | None = None
        self.unregistered: set[str] = set()
        self.topics: dict[str, object] = {"topicConfigTable": {}}
        self.before: Callable[[Request], Reply | None] = lambda _: None

    def __call__(self, request: Request) -> Reply:
        """The answer to a request."""
        special = self.before(request)
        if special is not None:
            return special
        fields = request["extFields"]
        queue = (fields.get("topic", ""), int(fields.get("queueId", -1)))
        records, lowest = self.queues.get(queue, []), self.lowest.get(queue, 0)
        if request["code"] in (21, 28):
            log = {"table": {"commitLogMaxOffset": str(self._log_end())}}
            return answer(request, body=json.dumps(self.topics if request["code"] == 21 else log).encode())
        if request["code"] == 30:
            return answer(request, offset=len(records))
        if request["code"] == 31:
            return answer(request, offset=lowest)
        if request["code"] == 321:
            return self._entries(request, records, lowest)
        if request["code"] == 33:
            return self._record(request)
        if request["code"] != 11:
            return answer(request, 3, remark="request code not supported")
        if queue[0] in self.unregistered:
            return answer(request, 17, remark=f"topic[{queue[0]}] not exist, apply first please!")
        offset, most = int(fields["queueOffset"]), min(int(fields["maxMsgNums"]), self.most)
        if offset < lowest:
            return answer(request, 21, nextBeginOffset=lowest, minOffset=lowest, maxOffset=len(records))
        found = records[offset : offset + most]
        code = 0 if found else 19
        return answer(request, code, b"".join(found), nextBeginOffset=offset + len(found), minOffset=lowest,
                      maxOffset=len(records), suggestWhichBrokerId=0)  # fmt: skip

    def _log_end(self) -> int:
        if self.log_end is not None:
            return self.log_end
        return max(
            (_physical(record) + len(record) for records in self.queues.values() for record in records), default=0
        )

    def _entries(self, request: Request, records: list[bytes], lowest: int) -> bytes:
        first = int(request["extFields"]["index"])
        answered = records[first : first + min(int(request["extFields"]["count"]), self.most)]
        if first < lowest or not answered:
            return answer(request, remark=f"Index {first} is not exist!")
        entries = [
            {"eval": False, "physicOffset": _physical(record), "physicSize": len(record), "tagsCode": 100}
            for record in answered
        ]
        body = {"maxQueueIndex": len(records), "minQueueIndex": lowest, "queueData": entries}
        return answer(request, body=json.dumps(body).encode())

    def _record(self, request: Request) -> bytes:
        offset = int(request["extFields"]["offset"])
        for queue, records in self.queues.items():
            for record in records[self.lowest.get(queue, 0) :]:
                if _physical(record) == offset:
                    return answer(request, body=record)
        return answer(request, 1, remark=f"can not find message by the offset, {offset}")


def _physical(record: bytes) -> int:
    """length, magic, CRC, queue id and flag (4 each), queue offset(8), then the physical offset(8)."""
    return int(struct.unpack_from(">q", record, 28)[0])
