"""Any order of landing, clock, pass and crash: a state machine drives passes and the plain Python models side by side."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from itertools import count

import pytest
from engine_model import End, Engine, Half, Limits, Transaction
from histories import HALF_TOPIC, MAX_TIME_TOPIC, OP_TOPIC, START_MS, STORED, end_row, half_row, message_row
from house import Killed, dying_after, wall_clock
from hypothesis import HealthCheck, settings, strategies
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test
from offset_model import Report, model
from test_passes_model import assert_same, facts_of_rows, key_of, moment, ms, pending_rows
from truth import pending, said

from txmq_lib.config.settings import Settings
from txmq_lib.errors import TxmqError
from txmq_lib.pipeline.take_back import run_take_back

pytestmark = pytest.mark.long

LIMITS = Limits(timeout_ms=2_000, interval_ms=3_000, check_max=2, reserved_ms=14_000)
SETTINGS = (
    "transaction_timeout=2s",
    "transaction_check_interval=3s",
    "transaction_check_max=2",
    "file_reserved_time=14s",
)
EXAMPLES = int(os.environ.get("TXMQ_EXAMPLES", "3"))
STEPS = 14
WHICH = strategies.integers(0, 50)
RESERVED = (2_000, 3_000, 3_650 * 86_400_000)  # ms
numbers = count()


class Machine(RuleBasedStateMachine):
    """One broker in the engine role."""

    def __init__(self, open_house) -> None:
        super().__init__()
        self.house = open_house(*SETTINGS, name=f"machine-{next(numbers)}")
        self.model = Engine(LIMITS)
        self.now = START_MS
        self.halves: list[Half] = []
        self.waiting: dict[str, list] = defaultdict(list)
        self.landed: dict[str, list] = defaultdict(list)
        self.landings = count()
        self.reports: list[Report] = []
        self.is_plan_open = False

    @initialize()
    def begin(self) -> None:
        self.half(None, 0, None)

    @rule(
        group=strategies.sampled_from(["A", "B", None]),
        age=strategies.sampled_from([0, 1_000, 2_000, 2_001, -500]),
        immunity=strategies.sampled_from([None, None, "3", "-1", "soon"]),
    )
    def half(self, group: str | None, age: int, immunity: str | None) -> None:
        number = len(self.halves)
        transaction = Transaction(f"T{number}", group or "A", self.now - age)
        self._store(Half(transaction, number, number * 1_000, self.now, "Topic", 0, immunity, f"body {number}"))

    @rule(which=strategies.integers(0, 50))
    def copy(self, which: int) -> None:
        number = len(self.halves)
        original = self.halves[which % number]
        self._store(original._replace(offset=number, place=number * 1_000, stored_ms=self.now))

    @rule(
        which=strategies.integers(0, 50),
        code=strategies.sampled_from([8, 8, 12, 0, 7]),
        ago=strategies.sampled_from([0, 1, 2_500]),
        fault=strategies.sampled_from([None, None, None, "group", "offset", "place"]),
        is_from_check=strategies.booleans(),
    )
    def end(self, which: int, code: int, ago: int, fault: str | None, is_from_check: bool) -> None:
        half = self.halves[which % len(self.halves)]
        sound = End(self.now - ago, half.transaction.group or "A", half.offset, half.place, code, is_from_check)
        wrong = {
            "group": {"group": "nobody"},
            "offset": {"offset": half.offset + 1},
            "place": {"place": half.place + 1},
        }
        self.waiting["end"].append(sound._replace(**wrong.get(fault or "", {})))

    @rule(kind=strategies.sampled_from(["half", "end"]), which=strategies.integers(0, 50))
    def repeat(self, kind: str, which: int) -> None:
        if self.landed[kind]:
            self.waiting[kind].append(self.landed[kind][which % len(self.landed[kind])])

    @rule(order=strategies.randoms(use_true_random=False), share=strategies.sampled_from([1, 2]))
    def land(self, order, share: int) -> None:
        for kind, form in (("end", end_row), ("half", half_row)):
            order.shuffle(self.waiting[kind])
            size = -(-len(self.waiting[kind]) // share)
            now, self.waiting[kind] = self.waiting[kind][:size], self.waiting[kind][size:]
            if not now:
                continue
            self.house.land_rows(kind, map(form, now), broker="b")
            self.landed[kind] += now
            if kind == "half":
                self.model.land_halves(now)
            else:
                self.model.land_ends(next(self.landings), enumerate(now))

    @rule(step=strategies.sampled_from([1, 2_000, 3_000, 3_001, 14_000, -4_000]))
    def clock(self, step: int) -> None:
        self.now += step

    @rule()
    def reconcile(self) -> None:
        self.house.reconcile(moment(self.now))
        self.model.reconcile(self.now)
        self.is_plan_open = False
        assert pending_rows(self.house) == self.model.pending

    @precondition(lambda self: not self.is_plan_open)
    @rule(write=strategies.integers(1, 8))
    def crash(self, write: int) -> None:
        # What its plan has seen is what it will have done, whoever carries it on and when.
        with self.house.on_write(dying_after(write)):
            try:
                self.house.reconcile(moment(self.now))
            except Killed:
                self.is_plan_open = True
        self.model.reconcile(self.now)

    @rule(
        offsets=strategies.lists(
            strategies.tuples(strategies.integers(0, 9), strategies.integers(0, 5), strategies.booleans()),
            min_size=1,
            max_size=4,
        )
    )
    def offset(self, offsets: list[tuple[int, int, bool]]) -> None:
        batch = next(self.landings)
        new = [
            Report(second, offset, grows, None, batch, place) for place, (second, offset, grows) in enumerate(offsets)
        ]
        known = Counter(event[:4] for event in self.reports)
        rows = [
            {
                "ts": START_MS + event.second * 1_000,
                "group": "G",
                "topic": "T",
                "queueId": 0,
                "offset": event.offset,
                "increaseOnly": event.is_increase_only,
            }
            for event in new
        ]
        self.house.land_rows("offset", rows, broker="b")
        # Equal reports of one landing are several; what an earlier one had as often is the same.
        here: Counter[tuple] = Counter()
        for event in new:
            here[event[:4]] += 1
            if here[event[:4]] > known[event[:4]]:
                self.reports.append(event)
        self.house.rollup(moment(self.now))
        expected, (row,) = model(self.reports), self.house.rows("consumer_offset")
        assert (row["next_offset"], row["late_count"], row["rewind_count"]) == (
            expected.next_offset,
            expected.late,
            len(expected.rewinds),
        )

    def teardown(self) -> None:
        self.house.reconcile(moment(self.now))
        self.model.reconcile(self.now)
        self.house.audit(moment(self.now))
        assert_same(self.house, [self.model])

    def _store(self, half: Half) -> None:
        self.halves.append(half)
        self.waiting["half"].append(half)


class Watched(RuleBasedStateMachine):
    """One broker in the audit role: whatever it may have stored lands in any order, and both jobs look at it.

    Settings change between passes, bad records land among good ones, a command forgets the role or gives another one,
    and txmq decides for the broker for a while, which is taken back.
    """

    def __init__(self, open_house) -> None:
        super().__init__()
        self.house = open_house("role=audit", *SETTINGS[:3], name=f"watched-{next(numbers)}")
        self.reserved, self.role, self.bad = RESERVED[-1], "audit", 0
        self.now = self.latest = START_MS
        self.chains: list[list[dict]] = []
        self.waiting: dict[str, list[dict]] = {kind: [] for kind in STORED}
        self.landed: dict[str, dict[int, dict]] = {kind: {} for kind in self.waiting}
        self.places, self.offsets = count(1_000, 1_000), defaultdict(count)
        self.open: set[str] = set()

    @initialize()
    def begin(self) -> None:
        self.half("A", "commit")

    @rule(group=strategies.sampled_from("AB"), decision=strategies.sampled_from([None, "commit", "rollback"]))
    def half(self, group: str, decision: str | None) -> None:
        number = len(self.chains)
        properties = {
            "UNIQ_KEY": f"T{number}",
            "PGROUP": group,
            "REAL_TOPIC": "Topic",
            "REAL_QID": "0",
            "TRAN_MSG": "true",
        }
        self.chains.append([self._stored("half", HALF_TOPIC, properties, self.now)])
        if decision == "commit":
            self._message(self.chains[-1], 0)
        if decision is not None:
            self._op(self.chains[-1], 0)

    @rule(
        what=strategies.sampled_from(["copy", "op", "message", "give_up"]), which=WHICH, copy=strategies.integers(0, 5)
    )
    def more(self, what: str, which: int, copy: int) -> None:
        chain = self.chains[which % len(self.chains)]
        if what in ("op", "message"):
            getattr(self, f"_{what}")(chain, copy)
            return
        kind, topic = {"copy": ("half", HALF_TOPIC), "give_up": ("max_time", MAX_TIME_TOPIC)}[what]
        chain.append(self._stored(kind, topic, chain[0]["properties"], chain[0]["bornTimestamp"]))

    @rule(which=WHICH, fault=strategies.sampled_from(["topic", "flag", "key"]))
    def stranger(self, which: int, fault: str) -> None:
        # Looks like what a commit left, and is none.
        self._message(self.chains[which % len(self.chains)], 0, fault)

    @rule(kind=strategies.sampled_from(STORED), which=WHICH)
    def repeat(self, kind: str, which: int) -> None:
        if known := [*self.landed[kind].values()]:
            self.waiting[kind].append(known[which % len(known)])

    @rule(
        kinds=strategies.lists(strategies.sampled_from(STORED), min_size=1, max_size=2, unique=True),
        order=strategies.randoms(use_true_random=False),
        share=strategies.sampled_from([1, 1, 2]),
        jobs=strategies.sampled_from([(), ("reconcile",), ("audit",), ("reconcile", "audit")]),
    )
    def land(self, kinds: list[str], order, share: int, jobs: tuple[str, ...]) -> None:
        for kind in kinds:
            order.shuffle(self.waiting[kind])
            size = -(-len(self.waiting[kind]) // share)
            now, self.waiting[kind] = self.waiting[kind][:size], self.waiting[kind][size:]
            self._land(kind, now)
        for job in jobs:
            getattr(self, f"_{job}")()

    @rule(step=strategies.sampled_from([1, 3_001, -4_000]))
    def clock(self, step: int) -> None:
        self.now += step

    @rule(reserved=strategies.sampled_from(RESERVED))
    def reserve(self, reserved: int) -> None:
        self.reserved = reserved
        self._set()

    @rule(kind=strategies.sampled_from(STORED))
    def broken(self, kind: str) -> None:
        # No queue offset: it costs itself alone.
        self.bad += 1
        self.house.land_rows(
            kind.replace("_", "-"), [{"topic": "Topic", "queueId": 0, "body": str(self.bad)}], broker="b"
        )

    @rule(job=strategies.sampled_from(["reconcile", "audit", "land"]))
    def mistaken(self, job: str) -> None:
        known = [(kind, row) for kind, rows in self.landed.items() for row in rows.values()]
        if not known:
            return
        (kind, row), *_ = known
        jobs = {
            "reconcile": lambda: self.house.reconcile(moment(self.now)),
            "audit": lambda: self.house.audit(moment(self.now)),
            "land": lambda: self.house.land_rows(kind.replace("_", "-"), [row], broker="b"),
        }
        self._set("engine")
        before = self.house.versions()
        with pytest.raises(TxmqError) as caught:
            jobs[job]()
        assert (caught.value.code, self.house.versions()) == ("ROLE_CHANGED", before)
        self._set("audit")

    @rule(order=strategies.randoms(use_true_random=False))
    def deciding_for_a_while(self, order) -> None:
        if self.open or not any(self.landed.values()):
            return
        self._give_role("engine")
        for kind in STORED:
            order.shuffle(self.waiting[kind])
            half = len(self.waiting[kind]) // 2
            now, self.waiting[kind] = self.waiting[kind][:half], self.waiting[kind][half:]
            self._land(kind, now)
        self.house.reconcile(moment(self.now))
        self.house.audit(moment(self.now))
        self._give_role("audit")

    @rule(write=strategies.integers(1, 4), job=strategies.sampled_from(["reconcile", "audit"]))
    def crash(self, write: int, job: str) -> None:
        if job in self.open:
            return
        with self.house.on_write(dying_after(write)):
            try:
                getattr(self.house, job)(moment(self.now))
            except Killed:
                self.open.add(job)

    def teardown(self) -> None:
        for kind, rows in self.waiting.items():
            self._land(kind, rows)
        self._reconcile()
        self._audit()
        checks = Counter((key_of(row), row["check_times"]) for row in self.house.rows("check_request"))
        assert {*checks.values()} <= {1}
        for kind, table in {"half": "half_message", "message": "message", "max_time": "trans_check_max_time"}.items():
            assert len(self.house.rows(table)) == len(self.landed[kind])
        tokens = sum(row["body"].count(",") for row in self.landed["op"].values())
        assert len(self.house.rows("op_message")) == tokens
        assert len(self.house.rows("quarantine")) == self.bad

    def _set(self, role: str | None = None) -> None:
        self.role = role or self.role
        assignments = [f"role={self.role}", *SETTINGS[:3], f"file_reserved_time={self.reserved}ms"]
        self.house.settings = Settings.load(assignments=assignments, warehouse=self.house.warehouse.uri)

    def _give_role(self, role: str) -> None:
        self._set(role)
        run_take_back(
            self.house.warehouse, self.house.settings, broker_name="b", decisions=True,
            now=moment(self.now), wall_clock=wall_clock, tell=lambda counts: None,
        )  # fmt: skip

    def _expired(self) -> set[tuple[str, int]]:
        """Which undecided ones are older than is reserved, by the newest store time that landed or the clock."""
        newest = max((row["storeTimestamp"] for kind in self.landed.values() for row in kind.values()), default=0)
        facts = facts_of_rows(self.landed)
        return {
            (key.transaction_id, key.born_ms)
            for key in said(facts)
            if key.born_ms < min(newest, self.latest) - self.reserved
        }

    def _reconcile(self) -> None:
        self.house.reconcile(moment(self.now))
        self.open.discard("reconcile")
        found = Counter((row["transaction_id"], ms(row["born_timestamp"])) for row in self.house.rows("pending_half"))
        assert found == Counter((key.transaction_id, key.born_ms) for key in pending(facts_of_rows(self.landed)))

    def _audit(self) -> None:
        # What a clock set back makes young again stays expired until something else is told of it.
        self.latest = max(self.latest, self.now)
        self.house.audit(moment(self.latest))
        self.open.discard("audit")
        expected, expired = said(facts_of_rows(self.landed)), self._expired()
        rows = Counter(
            # What is proved of a rollback, tests/end_to_end/test_proof_of_rollback.py judges: here it is resolved.
            (
                row["transaction_id"],
                ms(row["born_timestamp"]),
                row["verdict"].replace("RESOLVED_UNKNOWN", "ROLLED_BACK"),
            )
            for row in self.house.rows("verdict")
            if row["half_count"]
        )
        assert rows == Counter(
            (key.transaction_id, key.born_ms, in_words(verdict, (key.transaction_id, key.born_ms) in expired))
            for key, verdict in expected.items()
        )

    def _land(self, kind: str, rows: list[dict]) -> None:
        if rows:
            self.house.land_rows(kind.replace("_", "-"), rows, broker="b")
            self.landed[kind] |= {row["commitLogOffset"]: row for row in rows}

    def _op(self, chain: list[dict], copy: int) -> None:
        halves = [row for row in chain if row["topic"] == HALF_TOPIC]
        named = halves[copy % len(halves)]["queueOffset"]
        self._stored("op", OP_TOPIC, {"TAGS": "d"}, self.now, body=f"{named}," * (1 + copy % 2))

    def _message(self, chain: list[dict], copy: int, fault: str | None = None) -> None:
        half = chain[copy % len(chain)]
        self._stored(
            "message",
            "%RETRY%G" if fault == "topic" else "Topic",
            half["properties"] | ({"UNIQ_KEY": "another"} if fault == "key" else {}),
            half["bornTimestamp"],
            sys_flag=0 if fault == "flag" else 8,
            prepared=half["commitLogOffset"],
        )

    def _stored(self, kind: str, topic: str, properties: dict[str, str], born_ms: int, **more) -> dict:
        row = message_row(
            topic,
            queue_offset=next(self.offsets[topic]),
            place=next(self.places),
            born_ms=born_ms,
            stored_ms=self.now,
            properties=properties,
            **{"body": "body", **more},
        )
        self.waiting[kind].append(row)
        return row


def in_words(verdict: str, is_expired: bool) -> str:
    """As the audit says it of what is resolved, and of what hangs."""
    if verdict == "PENDING" and is_expired:
        return "EXPIRED_UNSEEN"
    return verdict.replace("RESOLVED_UNKNOWN", "ROLLED_BACK")


@pytest.mark.parametrize("machine", [Machine, Watched])
def test_any_order_of_landing_clock_pass_and_crash_ends_as_in_the_models(open_house, machine):
    chosen = settings(
        max_examples=EXAMPLES,
        stateful_step_count=STEPS,
        deadline=None,
        derandomize=EXAMPLES < 10,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(lambda: machine(open_house), settings=chosen)
