"""`txmq serve` over a real RocketMQ 5.5.0 broker under a steady load, stopped and killed at random; TXMQ_SERVE_MINUTES long."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from real_broker import RealRocketmq, plans, real_rocketmq
from serving import health, open_passes, rows, serving, until

from txmq_lib.config.table_specs import table_specs

pytestmark = pytest.mark.real

MINUTES = float(os.environ.get("TXMQ_SERVE_MINUTES", "3"))
TOPIC, GIVEN_UP = "TopicServe", "TRANS_CHECK_MAX_TIME_TOPIC"
# The state at once, then the answer to checks. Late commits come when the broker already asks: it commits twice (R64, R78).
STEADY, LATE = ("CU", "RU", "UC", "UR", "UU"), ("LC",)
STEADY_PAUSE_MS, LATE_PAUSE_MS, LATE_MS = 200, 500, 2500
MOST_STEPS, LONGEST_REST_S, LONGEST_S = 9, 3.0, 900
SEED = 6


@pytest.fixture
def rocketmq() -> Iterator[RealRocketmq]:
    # Ops are written up to this long after their commit: meanwhile the broker asks about what is committed (R78).
    with real_rocketmq(transactionOpBatchInterval="1500") as server:
        yield server


@pytest.fixture
def place(tmp_path: Path, rocketmq: RealRocketmq) -> Path:
    (tmp_path / "serve.yaml").write_text(
        f"""
role: audit
warehouse: {tmp_path / "warehouse"}
transaction_timeout: 2s
transaction_check_interval: 3s
transaction_check_max: 2
land: {{topics: [{TOPIC}]}}
thresholds: {{unread: null}}
sources:
  - {{kind: rocketmq, namesrv: ["{rocketmq.namesrv}"]}}
spark: {{spark.driver.memory: 1g}}
""",
        encoding="utf-8",
    )
    return tmp_path


def wait_for_steps(place: Path, count: int, *, of: str = "") -> None:
    """Wait until so many steps of the serve that runs now (those called `of`, or all) have succeeded."""
    seen: set[tuple[str, str]] = set()

    def has_come() -> bool:
        steps = health(place)["steps"].items()
        seen.update((name, step["last_success"]) for name, step in steps if "last_success" in step and of in name)
        return len(seen) >= count

    until(has_come, place, seconds=LONGEST_S)


def stopped_and_killed_at_random(place: Path, is_over: Callable[[], bool]) -> Counter[str]:
    """How often serve was ended how; each time it is started anew and does some steps, so that it comes forward."""
    dice, ends = random.Random(SEED), Counter[str]()
    while not is_over():
        with serving(place, "--now-first") as process:
            until(lambda: health(place).get("pid") == process.pid and health(place)["state"] != "starting", place)
            wait_for_steps(place, dice.randrange(MOST_STEPS))
            time.sleep(dice.uniform(0, LONGEST_REST_S))
            how = dice.choice(("SIGTERM", "SIGKILL", "SIGKILL with its JVM"))
            if how == "SIGKILL with its JVM":
                os.killpg(process.pid, signal.SIGKILL)
            else:
                process.send_signal(signal.Signals[how])
            assert process.wait(150) == (0 if how == "SIGTERM" else -signal.SIGKILL), how
        ends[how] += 1
    return ends


def served_to_the_end(place: Path) -> None:
    """Serve until a round that began after this call has landed and judged everything; then stop cleanly."""
    with serving(place, "--now-first") as process:
        until(lambda: health(place)["pid"] == process.pid, place)
        wait_for_steps(place, 2, of="audit")
        process.send_signal(signal.SIGTERM)
        assert process.wait(150) == 0


def listed(server: RealRocketmq, topic: str) -> list[tuple[int, int, str]]:
    """Queue, offset and transaction of every message of a topic, as RocketMQ's own client reads it."""
    client = server.client("list", server.namesrv, topic)
    client.wait_for("pulled", seconds=LONGEST_S)
    return [(*map(int, place.split(":")), id_) for id_, _, place in client.told("got")]


def right_verdicts(plan: str, visible: int, is_given_up: bool) -> set[str]:
    """What a transaction of a plan is to be called, by what the broker's own client sees of it."""
    if visible > 1:
        return {"DUPLICATED"}
    if visible:
        return {"COMMITTED_AND_DISCARDED" if is_given_up else "COMMITTED"}
    if "R" in plan:  # an answer that came too late rolls back what was given up
        return {"ROLLED_BACK", "DISCARDED"} if is_given_up else {"ROLLED_BACK"}
    return {"DISCARDED"}


def test_serve_stopped_and_killed_under_load_ends_with_the_right_verdict_of_every_transaction(
    rocketmq: RealRocketmq, place: Path, record_testsuite_property: Callable[[str, object], None]
):
    seconds = MINUTES * 60
    steady = rocketmq.client(
        "produce", rocketmq.namesrv, "GID_STEADY", TOPIC, ",".join(STEADY), str(int(seconds * 1000 / STEADY_PAUSE_MS)),
        str(STEADY_PAUSE_MS),
    )  # fmt: skip
    late = rocketmq.client(
        "produce", rocketmq.namesrv, "GID_LATE", TOPIC, ",".join(LATE),
        str(int(seconds * 1000 / (LATE_MS + LATE_PAUSE_MS))), str(LATE_PAUSE_MS),
    )  # fmt: skip
    steady.wait_for("sent", seconds=LONGEST_S)
    ends = stopped_and_killed_at_random(place, lambda: bool(steady.told("done") and late.told("done")))
    # Two checks of the last one, each after its interval and the time out, then it is given up; and the ops behind.
    time.sleep(20)
    served_to_the_end(place)

    planned_ends = plans([*steady.told("sent"), *late.told("sent")])
    visible, given_up = listed(rocketmq, TOPIC), listed(rocketmq, GIVEN_UP)
    seen, gone = Counter(id_ for *_, id_ in visible), {id_ for *_, id_ in given_up}
    found = {row["transaction_id"]: row["verdict"] for row in rows(place, "verdict")}
    counted = Counter((planned_ends[id_], verdict) for id_, verdict in found.items())
    for name, value in {
        "ends": dict(ends),
        "transactions": len(planned_ends),
        "verdicts": sorted(counted.items()),
    }.items():
        record_testsuite_property(f"serve_live_{name}", json.dumps(value))
        print(name, value)  # noqa: T201 - what a long run saw
    assert set(found) == set(planned_ends)
    wrong = {id_: (planned_ends[id_], seen[id_], id_ in gone, verdict) for id_, verdict in found.items()
             if verdict not in right_verdicts(planned_ends[id_], seen[id_], id_ in gone)}  # fmt: skip
    assert not wrong
    # What the producer committed or rolled back at once became so, whatever was asked beside it.
    assert all(seen[id_] for id_, plan in planned_ends.items() if plan[0] in "CL")
    assert not any(seen[id_] for id_, plan in planned_ends.items() if "C" not in plan)
    assert Counter(found.values())["DUPLICATED"] == sum(count > 1 for count in seen.values()) > 0
    landed = [(row["queue_id"], row["queue_offset"], row["transaction_id"]) for row in rows(place, "message")]
    assert sorted(landed) == sorted(visible)
    for name, spec in table_specs().items():
        keys = Counter(tuple(row[column] for column in spec.key) for row in rows(place, name))
        assert [key for key, count in keys.items() if count > 1] == [], name
    assert not open_passes(place)
    assert not rows(place, "quarantine")
    assert not rows(place, "pending_half")
    steady.stop()
    late.stop()
    assert set(ends) == {"SIGTERM", "SIGKILL", "SIGKILL with its JVM"} or MINUTES < 3
