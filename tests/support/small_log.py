"""A broker's log laid out record by record: the same history as a store, as files of a reading client, and live."""

from __future__ import annotations

import base64
import struct
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from histories import HALF_TOPIC, OP_TOPIC, message_row
from record_encoder import blank, encode_record, write_log

START_MS = 1_795_262_000_000
FILE_BYTES = 4096
Row = dict[str, Any]


@dataclass
class SmallLog:
    """Rows of the landing contract in the order of the log, each with its physical offset."""

    rows: list[Row] = field(default_factory=list)
    ends: dict[tuple[str, int], int] = field(default_factory=lambda: defaultdict(int))
    _end: int = 0

    def append(
        self, topic: str, properties: dict[str, str], body: str = "body", queue_id: int = 0, **fields: Any
    ) -> Row:
        """Write one record; what it says of itself in the landing contract."""
        offset, moment = self.ends[topic, queue_id], START_MS + len(self.rows)
        record = {"queue_offset": offset, "born_ms": START_MS, "stored_ms": moment, "queue_id": queue_id, **fields}
        row = message_row(topic, place=self._end, properties=properties, body=body, **record)
        size = len(encoded(row))
        if self._end % FILE_BYTES + size + 8 > FILE_BYTES:
            self._end = (self._end // FILE_BYTES + 1) * FILE_BYTES
            row["commitLogOffset"] = self._end
        # As record_encoder writes them: a store and files of one log tell the same records.
        row |= {"flag": 7, "bornHost": "10.1.2.3:42426", "storeHost": "127.0.0.1:10911"}
        row["offsetMsgId"] = f"7F000001{10911:08X}{row['commitLogOffset']:016X}"
        self._end += size
        self.ends[topic, queue_id] += 1
        self.rows.append(row)
        return row

    def half(self, name: str, topic: str = "Real", queue_id: int = 0) -> Row:
        """The half of a new transaction."""
        real = {"REAL_TOPIC": topic, "REAL_QID": str(queue_id)}
        return self.append(HALF_TOPIC, {"UNIQ_KEY": name, "PGROUP": "G", "TRAN_MSG": "true", **real})

    def commit(self, half: Row) -> Row:
        """The message that a commit makes visible, without its op."""
        properties = half["properties"]
        own = {name: properties[name] for name in ("UNIQ_KEY", "PGROUP", "TRAN_MSG")}
        return self.append(properties["REAL_TOPIC"], own, queue_id=int(properties["REAL_QID"]), sys_flag=8,
                           prepared=half["commitLogOffset"])  # fmt: skip

    def op(self, *halves: Row) -> Row:
        """An op that names halves."""
        return self.append(OP_TOPIC, {"TAGS": "d"}, "".join(f"{half['queueOffset']}," for half in halves))

    def plain(self, topic: str = "Real", queue_id: int = 0) -> Row:
        """A message of no transaction."""
        return self.append(topic, {"UNIQ_KEY": f"plain{len(self.rows)}"}, queue_id=queue_id)

    def of(self, kind: str, *, tells_end: bool = True) -> list[Row]:
        """The rows of one kind of the landing contract as a client has read them; each tells the end of its queue."""
        topics = {"half": HALF_TOPIC, "op": OP_TOPIC}
        rows = [row for row in self.rows if topics.get(kind, row["topic"]) == row["topic"]]
        if kind not in topics:
            rows = [row for row in rows if row["topic"] not in topics.values()]
        return [self._as_read(row) if tells_end else row for row in rows]

    def _as_read(self, row: Row) -> Row:
        end = self.ends[row["topic"], row["queueId"]]
        return {**row, "properties": {**row["properties"], "MIN_OFFSET": "0", "MAX_OFFSET": str(end)}}

    def write_store(self, place: Path, *, upto: int | None = None, without: Iterable[int] = ()) -> Path:
        """The store of the records before physical offset `upto`, without consume queues; `without` files by number."""
        contents: list[bytes] = [b""]
        for row in self.rows:
            if upto is not None and row["commitLogOffset"] >= upto:
                break
            if row["commitLogOffset"] // FILE_BYTES >= len(contents):
                contents[-1] += blank(len(contents[-1]), FILE_BYTES)
                contents.append(b"")
            contents[-1] += encoded(row)
        store = write_log(place, contents, file_size=FILE_BYTES)
        for number in without:
            (store / "commitlog" / f"{number * FILE_BYTES:020d}").unlink()
        return store

    def write_consume_queues(self, store: Path, *, upto: int | None = None) -> None:
        """The consume queues of a store, of the records before physical offset `upto`."""
        entries: dict[tuple[str, int], bytes] = defaultdict(bytes)
        for row in self.rows:
            if upto is None or row["commitLogOffset"] < upto:
                entry = struct.pack(">qiq", row["commitLogOffset"], len(encoded(row)), 0)
                entries[row["topic"], row["queueId"]] += entry
        for (topic, queue_id), content in entries.items():
            queue = store / "consumequeue" / topic / str(queue_id)
            queue.mkdir(parents=True, exist_ok=True)
            (queue / f"{0:020d}").write_bytes(content)

    def queues(self) -> dict[tuple[str, int], list[bytes]]:
        """The records of each queue, as a live broker gives them."""
        found: dict[tuple[str, int], list[bytes]] = defaultdict(list)
        for row in self.rows:
            found[row["topic"], row["queueId"]].append(encoded(row))
        return found


def encoded(row: Row) -> bytes:
    """A row as a broker stores it (F2)."""
    return encode_record(
        row["commitLogOffset"],
        topic=row["topic"].encode(),
        body=base64.b64decode(row["bodyBase64"]),
        properties="".join(f"{name}\x01{value}\x02" for name, value in row["properties"].items()).encode(),
        queue_id=row["queueId"],
        queue_offset=row["queueOffset"],
        sys_flag=row["sysFlag"],
        born_ms=row["bornTimestamp"],
        store_ms=row["storeTimestamp"],
        prepared=row["preparedTransactionOffset"],
    )


def spoil(store: Path, row: Row, at: int, new: bytes) -> None:
    """Put other bytes into a stored record, `at` bytes behind its beginning."""
    place = row["commitLogOffset"]
    with (store / "commitlog" / f"{place // FILE_BYTES * FILE_BYTES:020d}").open("r+b") as file:
        file.seek(place % FILE_BYTES + at)
        file.write(new)
