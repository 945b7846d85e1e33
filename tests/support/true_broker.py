"""A broker that knows what truly happened, and what a landing may show of it: the judge of what txmq claims to know.

Written from docs/pages/rules.md with nothing of txmq_lib. Its log is laid out as a real one, so that the same history can land
as a store, as files, whole or with holes. Times are epoch ms, places are physical offsets.
"""

from __future__ import annotations

import base64
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from record_encoder import blank, encode_record, write_log
from truth import Facts, key_of, verdicts

HALF_TOPIC = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_TOPIC = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
MAX_TIME_TOPIC = "TRANS_CHECK_MAX_TIME_TOPIC"
START_MS = 1_795_262_400_000
FILE_BYTES = 1 << 16
COMMITTED_BITS = 8


class Key(NamedTuple):
    """A transaction, as truth.key_of gives it."""

    transaction_id: str
    born_ms: int


@dataclass(frozen=True)
class Record:
    """One record of the log; `kind` is that of the landing contract."""

    kind: str
    topic: str
    queue_id: int
    queue_offset: int
    place: int
    size: int
    born_ms: int
    stored_ms: int
    properties: dict[str, str]
    body: bytes
    sys_flag: int = 0
    prepared: int = 0

    @property
    def queue(self) -> tuple[str, int]:
        """Topic and queue id."""
        return self.topic, self.queue_id

    def encoded(self) -> bytes:
        """As a broker stores it (F2)."""
        return encode_record(
            self.place,
            topic=self.topic.encode(),
            body=self.body,
            properties="".join(f"{name}\x01{value}\x02" for name, value in self.properties.items()).encode(),
            queue_id=self.queue_id,
            queue_offset=self.queue_offset,
            sys_flag=self.sys_flag,
            born_ms=self.born_ms,
            store_ms=self.stored_ms,
            prepared=self.prepared,
        )

    def row(self, max_offset: int | None = None) -> dict[str, Any]:
        """As a reading client tells what `encoded` stores; MAX_OFFSET is where its queue ended then."""
        ends = {} if max_offset is None else {"MIN_OFFSET": "0", "MAX_OFFSET": str(max_offset)}
        return {
            "topic": self.topic,
            "queueId": self.queue_id,
            "queueOffset": self.queue_offset,
            "commitLogOffset": self.place,
            "sysFlag": self.sys_flag,
            "flag": 7,
            "bornTimestamp": self.born_ms,
            "storeTimestamp": self.stored_ms,
            "bornHost": "10.1.2.3:42426",
            "storeHost": "127.0.0.1:10911",
            "offsetMsgId": f"7F00000100002A9F{self.place:016X}",
            "reconsumeTimes": 0,
            "preparedTransactionOffset": self.prepared,
            "properties": {**self.properties, **ends},
            "body": self.body.decode(),
            "bodyBase64": base64.b64encode(self.body).decode(),
        }


@dataclass
class Story:
    """One transaction: its half rows, and what was truly done."""

    key: Key
    topic: str
    queue_id: int
    copies: list[Record]
    given_up: list[Record] = field(default_factory=list)
    commits: list[Record] = field(default_factory=list)
    rollbacks: int = 0

    def was_committed_before(self, landed: Iterable[Record]) -> bool:
        """Whether a message of it lies before the last op that names it: no rollback, whoever says so.

        Of these records: an op of a copy that nobody has seen is nobody's.
        """
        records = list(landed)
        offsets = {half.queue_offset for half in self.copies} & {r.queue_offset for r in records if r.kind == "half"}
        last = max((op.place for op in records if op.kind == "op" and offsets & tokens(op)), default=-1)
        return any(message.place < last for message in self.commits)


def tokens(op: Record) -> set[int]:
    """The half offsets that an op names (R26)."""
    return {int(token) for token in op.body.decode().split(",")[:-1]}


@dataclass
class TrueBroker:
    """Appends to one log, as a master does; an end writes its message first and its op later (R23, R29)."""

    name: str
    dice: random.Random
    log: list[Record] = field(default_factory=list)
    stories: list[Story] = field(default_factory=list)
    now_ms: int = START_MS
    _end: int = 0
    _ends: dict[tuple[str, int], int] = field(default_factory=lambda: defaultdict(int))
    _unflushed: list[int] = field(default_factory=list)

    def live(self, transactions: int, topics: int) -> None:
        """Let so many transactions happen, over so many real topics of two queues."""
        while len(self.stories) < transactions:
            self._tick()
            self.dice.choices(
                (self._send, self._commit, self._roll_back, self._check, self._give_up, self._plain, self._flush),
                (30, 26, 22, 8, 3, 12, 20),
            )[0](topics)
        self._flush(topics)

    def _tick(self) -> None:
        # Clocks step back now and then: only places tell an order.
        self.now_ms += self.dice.choice((1, 40, 700)) if self.dice.random() > 0.02 else -900

    def _append(self, kind: str, topic: str, queue_id: int, properties: dict[str, str], **fields: Any) -> Record:
        queue_offset = self._ends[(topic, queue_id)]
        self._ends[(topic, queue_id)] += 1
        plain = Record(kind, topic, queue_id, queue_offset, self._end, 0, self.now_ms, self.now_ms, properties,
                       f"body of {topic} {queue_offset}".encode())  # fmt: skip
        record = replace(plain, **fields)
        size = len(record.encoded())
        if self._end % FILE_BYTES + size + 8 > FILE_BYTES:
            self._end = (self._end // FILE_BYTES + 1) * FILE_BYTES
            record = replace(record, place=self._end)
        record = replace(record, size=size)
        self._end += size
        self.log.append(record)
        return record

    def _send(self, topics: int) -> None:
        number = len(self.stories)
        topic, queue_id = f"Real{self.dice.randrange(topics)}", self.dice.randrange(2)
        # A retried send leaves a twin of the same id, born at another time (R66).
        is_twin = bool(self.stories) and self.dice.random() < 0.04
        name = self.stories[-1].key.transaction_id if is_twin else f"{self.name}{number}"
        properties = {
            "UNIQ_KEY": name,
            "PGROUP": self.dice.choice("AB"),
            "REAL_TOPIC": topic,
            "REAL_QID": str(queue_id),
            "TRAN_MSG": "true",
        }
        half = self._append("half", HALF_TOPIC, 0, properties)
        self.stories.append(Story(Key(name, half.born_ms), topic, queue_id, [half]))

    def _undecided(self) -> Story | None:
        waiting = [story for story in self.stories if not story.commits and not story.rollbacks]
        if not waiting:
            return None
        # Most are decided soon; some hang, and a few are decided twice (R18).
        if self.dice.random() < 0.06:
            return self.dice.choice(self.stories)
        return self.dice.choice(waiting[-6:]) if self.dice.random() < 0.85 else self.dice.choice(waiting)

    def _commit(self, topics: int) -> None:
        if (story := self._undecided()) is None:
            return
        half = self.dice.choice([*story.copies, *story.given_up])
        properties = {name: value for name, value in half.properties.items() if not name.startswith("REAL_")}
        committed = {
            "born_ms": story.key.born_ms,
            "body": half.body,
            "sys_flag": COMMITTED_BITS,
            "prepared": half.place,
        }
        story.commits.append(self._append("message", story.topic, story.queue_id, properties, **committed))
        self._unflushed.append(self._offset_named(story, half))

    def _roll_back(self, topics: int) -> None:
        if (story := self._undecided()) is None:
            return
        story.rollbacks += 1
        self._unflushed.append(self._offset_named(story, self.dice.choice(story.copies)))

    def _offset_named(self, story: Story, half: Record) -> int:
        return half.queue_offset if half.kind == "half" else story.copies[-1].queue_offset

    def _check(self, topics: int) -> None:
        if (story := self._undecided()) is not None:
            last = story.copies[-1]
            times = {"TRANSACTION_CHECK_TIMES": str(len(story.copies))}
            copy = self._append("half", HALF_TOPIC, 0, last.properties | times, born_ms=last.born_ms, body=last.body)
            story.copies.append(copy)

    def _give_up(self, topics: int) -> None:
        if (story := self._undecided()) is not None:
            last = story.copies[-1]
            given_up = self._append(
                "max_time", MAX_TIME_TOPIC, 0, last.properties, born_ms=last.born_ms, body=last.body
            )
            story.given_up.append(given_up)

    def _plain(self, topics: int) -> None:
        self._append("message", f"Real{self.dice.randrange(topics)}", self.dice.randrange(2), {"UNIQ_KEY": "plain"})

    def _flush(self, topics: int) -> None:
        # 5.x writes ops of several halves as one record (R26, R29).
        if self._unflushed:
            body = "".join(f"{offset}," for offset in self._unflushed)
            self._append("op", OP_TOPIC, 0, {"TAGS": "d"}, body=body.encode())
            self._unflushed.clear()

    def end_of(self, queue: tuple[str, int]) -> int:
        """Where a queue ends."""
        return self._ends[queue]

    def facts(self) -> Facts:
        """All rows, as truth.verdicts takes them."""
        return facts_of(self.log)

    def write_store(self, place: Path, upto: int | None = None, *, removed: int = 0) -> Path:
        """The store directory of the log up to a place (a record's beginning), without its first `removed` files."""
        contents: list[bytearray] = [bytearray()]
        for record in self.log:
            if upto is not None and record.place >= upto:
                break
            while record.place // FILE_BYTES >= len(contents):
                contents[-1] += blank(len(contents[-1]), FILE_BYTES)
                contents.append(bytearray())
            contents[-1] += record.encoded()
        store = write_log(place, [bytes(content) for content in contents], file_size=FILE_BYTES)
        for number in range(min(removed, len(contents) - 1)):
            (store / "commitlog" / f"{number * FILE_BYTES:020d}").unlink()
        return store


def facts_of(records: Iterable[Record]) -> Facts:
    """Records as the truth of captures takes them."""
    by_kind: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for record in records:
        by_kind[record.kind].append(record.row())
    return Facts(*[by_kind[kind] for kind in ("half", "op", "message", "max_time")])


def flipped(store: Path, record: Record, at: int, bit: int) -> None:
    """Flip one bit of a stored record, `at` bytes behind its beginning."""
    with (store / "commitlog" / f"{record.place // FILE_BYTES * FILE_BYTES:020d}").open("r+b") as file:
        file.seek(record.place % FILE_BYTES + at)
        (byte,) = file.read(1)
        file.seek(-1, 1)
        file.write(bytes([byte ^ (1 << bit)]))


class Read(NamedTuple):
    """A record as a reading of its queue gave it: which reading of the broker it was, and the end that it told."""

    record: Record
    reading: int
    max_offset: int | None

    def row(self) -> dict[str, Any]:
        """In the landing contract."""
        return self.record.row(self.max_offset)


@dataclass
class Shown:
    """What files of one broker have shown by now: records, and the ends of queues that readings have told."""

    records: dict[int, Record] = field(default_factory=dict)
    ends: dict[tuple[str, int], set[int]] = field(default_factory=lambda: defaultdict(set))
    readings: set[int] = field(default_factory=set)

    def show(self, read: Read) -> None:
        """What was read has landed."""
        self.records[read.record.place] = read.record
        if read.max_offset is not None:
            self.ends[read.record.queue].add(read.max_offset)
            self.readings.add(read.reading)

    @property
    def seems_one_reading(self) -> bool:
        """Whether nothing shows that the queues whose ends were told were read at several times."""
        offsets: dict[tuple[str, int], int] = defaultdict(int)
        for record in self.records.values():
            offsets[record.queue] = max(offsets[record.queue], record.queue_offset)
        return all(len(ends) == 1 and offsets[queue] < min(ends) for queue, ends in self.ends.items())

    @property
    def is_mistaken(self) -> bool:
        """Whether what was read at several times cannot be told from one reading: the landing contract forbids it."""
        return self.seems_one_reading and len(self.readings) > 1

    def verdicts(self) -> dict[Key, str]:
        """The verdict of every transaction with a half row, each queue looked at offset by offset."""
        copies, given_up, ops = self._by_key("half"), self._by_key("max_time"), self._ops()
        expected = {Key(*key): counted.verdict for key, counted in verdicts(facts_of(self.records.values())).items()}
        for key, verdict in expected.items():
            if verdict == "ROLLED_BACK":
                named = [op for half in copies[key] for op in ops[half.queue_offset]]
                places = {record.place for record in copies[key] + given_up[key]}
                is_proved = self._is_read_past(copies[key], named) and not self._is_doubtful(key, places)
                expected[key] = verdict if is_proved else "RESOLVED_UNKNOWN"
            elif verdict in ("PENDING", "DISCARDED") and self._is_doubtful(key, set()):
                # A committed message has its id, and no half.
                expected[key] = "RESOLVED_UNKNOWN"
        return expected

    def _by_key(self, kind: str) -> dict[Key, list[Record]]:
        found: dict[Key, list[Record]] = defaultdict(list)
        for record in self.records.values():
            if record.kind == kind:
                found[Key(*key_of(record.row()))].append(record)
        return found

    def _ops(self) -> dict[int, list[Record]]:
        named: dict[int, list[Record]] = defaultdict(list)
        for record in self.records.values():
            if record.kind == "op":
                for token in record.body.decode().split(",")[:-1]:  # a body may repeat one
                    named[int(token)].append(record)
        return named

    def _is_read_past(self, copies: list[Record], ops: list[Record]) -> bool:
        """Whether no commit of these copies can lie where nothing has landed."""
        originals = [half for half in copies if "TRANSACTION_CHECK_TIMES" not in half.properties]
        properties = min(copies, key=lambda half: half.place).properties
        queue = (properties["REAL_TOPIC"], int(properties["REAL_QID"]))
        low = min((half.place for half in originals), default=-1)
        high = max(op.place for op in ops)
        rows = {record.queue_offset: record.place for record in self.records.values() if record.queue == queue}
        before = max((offset for offset, place in rows.items() if place < low), default=-1)
        behind = min((offset for offset, place in rows.items() if place > high), default=self._end_told(queue, high))
        return behind is not None and all(offset in rows for offset in range(before + 1, behind))

    def _end_told(self, queue: tuple[str, int], high: int) -> int | None:
        """The end of a queue if a reading told it that read on behind a place."""
        known_ends = [record for record in self.records.values() if self.ends.get(record.queue)]
        is_behind = any(record.kind in ("message", "max_time") and record.place > high for record in known_ends)
        has_ops = any(record.kind == "op" for record in known_ends)
        ends = self.ends.get(queue)
        return max(ends) if ends and has_ops and is_behind and self.seems_one_reading else None

    def _is_doubtful(self, key: Key, places: set[int]) -> bool:
        """Whether a message names one of these places and is none that counts, or has the id and no half there."""
        halves = {record.place for record in self.records.values() if record.kind in ("half", "max_time")}
        for record in self.records.values():
            if record.kind == "message" and record.prepared:
                is_orphan = record.prepared not in halves and record.properties["UNIQ_KEY"] == key.transaction_id
                if record.prepared in places or is_orphan:
                    return True
        return False


def parted(items: list[Any], dice: random.Random, parts: int) -> Iterator[list[Any]]:
    """The items shuffled and cut into so many lists, some of them empty."""
    dice.shuffle(items)
    cuts = sorted(dice.randrange(len(items) + 1) for _ in range(parts - 1))
    for begin, end in zip([0, *cuts], [*cuts, len(items)], strict=True):
        yield items[begin:end]
