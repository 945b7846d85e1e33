"""One driver process of the fault matrix: carries the scenario on from where the last one was killed.

The file --progress holds how many steps are done; without it, step numbers are read from stdin and each is answered with
a line. With --points it kills itself, its JVM too, right before and right after every write, were it of no rows, not listed
there yet. With --beside it does none of them, but until it is killed lands the same files for brokers of other names, or
compacts. Its wall clock jumps back by up to two days at every look.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

from contents import OTHER
from scenario import ANSWER, ASSIGNMENTS, DATABASE, DATABASE_URL, DONE, LATER, RESOLVERS, Step
from written_files import kill_at_every_file

from txmq_lib.config.resources import conf_dir
from txmq_lib.config.settings import Settings
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.errors import PassConflict, TxmqError, UsageError, code_and_words
from txmq_lib.names import ACTION_RESUME, COMMIT
from txmq_lib.passes import retention, runner, writer
from txmq_lib.passes.current import Pass
from txmq_lib.pipeline.audit import run_audit
from txmq_lib.pipeline.decision_request import DecisionRequest
from txmq_lib.pipeline.decisions import decide
from txmq_lib.pipeline.land.job import run_land_files, run_land_store
from txmq_lib.pipeline.maintain import run_maintain
from txmq_lib.pipeline.reconcile.job import run_reconcile
from txmq_lib.pipeline.resolve import run_resolve
from txmq_lib.pipeline.rollup.job import run_rollup
from txmq_lib.pipeline.take_back import run_take_back
from txmq_lib.spark.session import build_session

MASTER = "local[2]"
SPARK = (
    f"spark.spark.master={MASTER}",
    "spark.spark.driver.memory=1g",
    "spark.spark.cores.max=2",  # of a cluster, which has another driver
)
UPKEEP = (
    "maintain.small_files=2",
    "maintain.file_retention=24h",
    "maintain.log_retention=24h",
    "resolve.checks_per_write=10",
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("warehouse")
    parser.add_argument("inputs", type=Path)
    parser.add_argument("--progress", type=Path)
    parser.add_argument("--points", type=Path)
    parser.add_argument("--until", type=int)
    parser.add_argument("--beside", choices=BESIDE)
    parser.add_argument("--classes", default="", help="jars that Spark needs for the warehouse")
    parser.add_argument("--patience", type=int, help="seconds after which a silent object store is asked anew")
    parser.add_argument("--master", default=MASTER, help="a cluster; its workers have the same disk and Python")
    parser.add_argument("--files", action="store_true", help="killed at files that no commit names, not at writes")
    parser.add_argument("--by-spark", action="store_true", help="every pass works as one of many rows does")
    options = parser.parse_args()
    steps = [Step(*step) for step in json.loads((options.inputs / "steps.json").read_text(encoding="utf-8"))]
    whose = ("driver", "executor") if options.classes else ()
    classes = [f"spark.spark.{each}.extraClassPath={options.classes}" for each in whose]
    spark = [*SPARK, f"spark.spark.master={options.master}"]
    if options.patience is not None:
        os.environ["AWS_TIMEOUT"] = f"{options.patience}s"
        spark.append(f"spark.spark.hadoop.fs.s3a.connection.request.timeout={options.patience}s")
    assignments = [*ASSIGNMENTS, *RESOLVERS, *spark, *UPKEEP, *classes]
    settings = Settings.load([conf_dir() / "few-rows.yaml"], assignments, warehouse=options.warehouse)
    warehouse = Warehouse(build_session("txmq-faults", settings), options.warehouse)
    if options.by_spark:
        runner.SMALL_PASS_BYTES = writer.FEW_ROWS = -1
    say("ready")
    if options.beside is not None:
        BESIDE[options.beside](warehouse, settings, options.inputs, steps)
    here: list[int] = []
    if options.points is not None and options.files:
        kill_at_every_file(options.points, here)
    elif options.points is not None:
        kill_at_every_write(warehouse, options.points, here)
    if options.progress is None:
        serve(warehouse, settings, options.inputs, steps)
        return
    for number in range(int(options.progress.read_text(encoding="utf-8")), options.until or len(steps)):
        here[:] = [number]
        run(warehouse, settings, options.inputs, steps[number])
        options.progress.write_text(str(number + 1), encoding="utf-8")


def serve(warehouse: Warehouse, settings: Settings, inputs: Path, steps: list[Step]) -> None:
    """Run the steps asked for by number, in the warehouse that may stand behind it; the answer is `done` or the code of
    the error."""
    for line in sys.stdin:
        answer = DONE
        number, _, place = line.strip().partition(" ")
        try:
            run(Warehouse(warehouse.spark, place) if place else warehouse, settings, inputs, steps[int(number)])
        except TxmqError as error:
            answer = error.code
        except Exception as error:
            if not place:
                raise
            # A store far away failed in a way that nobody has a code for: one line, as commands tell it.
            answer = " ".join(code_and_words(error)[1].split())[:300]
        say(answer)


def say(answer: str) -> None:
    """A line for whoever kills or asks and waits for it; told apart from what the JVM prints."""
    print(f"{ANSWER}{answer}", flush=True)  # noqa: T201 - the answer


def wall_clock() -> datetime:
    """A clock that nobody can rely on."""
    return datetime.now(UTC) - timedelta(hours=random.uniform(0, 48))


def land_others(warehouse: Warehouse, settings: Settings, inputs: Path, steps: list[Step]) -> None:
    """Land every file for a broker of another name, and another, until killed."""
    for turn in count():
        for step in steps:
            if step.job == "land":
                run(warehouse, settings, inputs, step._replace(broker=f"{OTHER}{turn}-{step.broker}"))


def keep_up(warehouse: Warehouse, settings: Settings, *_: object) -> None:
    """Compact whatever has more than one file, until killed; VACUUM finds nothing a day old."""
    while True:
        with suppress(PassConflict):
            maintain(warehouse, settings)


BY_WHOM = {"reason": "seen in the database", "decided_by": "somebody"}
BESIDE = {"land": land_others, "maintain": keep_up}


def maintain(warehouse: Warehouse, settings: Settings, ahead: timedelta = timedelta(0)) -> None:
    run_maintain(warehouse, settings, wall_clock=lambda: datetime.now(UTC) + ahead, tell=lambda _: None)


def run(warehouse: Warehouse, settings: Settings, inputs: Path, step: Step) -> None:
    arguments: dict[str, Any] = {"now": step.now, "wall_clock": wall_clock}
    match step.job:
        case "land":
            paths = [str(inputs / step.file)]
            run_land_files(warehouse, settings, kind=step.kind, paths=paths, broker_name=step.broker, **arguments)
        case "land-store":
            arguments |= {"path": str(inputs / step.file), "broker_name": step.broker, "is_idle_when_landed": True}
            run_land_store(warehouse, settings, **arguments)
        case "maintain":
            # Days later replaced files are to go.
            maintain(warehouse, settings, timedelta(days=2 if step.kind == LATER else 0))
        case "resolve":
            environ = {DATABASE_URL: f"sqlite:///{inputs / DATABASE}"}
            run_resolve(warehouse, settings, environ=environ, **arguments)
        case "settle":
            arguments["request"] = DecisionRequest((step.transaction,), brokers=("served",), decision=COMMIT, **BY_WHOM)
            with _settled_before():
                decide(warehouse, settings, **arguments)
        case "resume":
            decide(
                warehouse,
                settings,
                DecisionRequest(brokers=(step.broker,), decision=ACTION_RESUME, **BY_WHOM),
                **arguments,
            )
        case "take-back":
            # Done once more after it was committed, it finds nothing.
            with suppress(UsageError):
                arguments["tell"] = lambda _: None
                run_take_back(warehouse, settings, broker_name=step.broker, **arguments)
        case job:
            {"reconcile": run_reconcile, "rollup": run_rollup, "audit": run_audit}[job](
                warehouse, settings, **arguments
            )


@contextmanager
def _settled_before() -> Iterator[None]:
    """Done once more after it was committed, a settle is told so."""
    try:
        yield
    except UsageError as error:
        if not any(words in str(error) for words in ("was settled as", "only an undecided one can be settled")):
            raise


def kill_at_every_write(warehouse: Warehouse, listed: Path, here: list[int]) -> None:
    """Kill this process at each write of the scenario's step that `here` holds, once."""
    seen = set(listed.read_text(encoding="utf-8").splitlines()) if listed.exists() else set()
    write_once, append_row = Pass._write_once, Pass.append_row
    current: list[Pass] = []

    def reached(when: str, one: Pass, table: str, step: str) -> None:
        # By step: what is killed once it is committed is done once more by a pass of another number.
        point = f"{when} {one.job} {here[0]} {table} {step}"
        if point in seen:
            return
        with listed.open("a", encoding="utf-8") as points:
            points.write(point + "\n")
            points.flush()
            os.fsync(points.fileno())
        os.killpg(os.getpgrp(), signal.SIGKILL)

    def before_write(self: Pass, table: str, step: str, *rest: Any, **named: Any) -> int:
        current[:] = [self]
        reached("before", self, table, step)
        return write_once(self, table, step, *rest, **named)

    def before_row(one: Pass, state: str, *rest: Any) -> None:
        current[:] = [one]
        reached("before", one, "pass", state)
        append_row(one, state, *rest)

    def before_work(work: Callable[..., Any]) -> Callable[..., Any]:
        def watched(house: Warehouse, table: str, **named: Any) -> Any:
            reached("before", current[0], table, work.__name__)
            return work(house, table, **named)

        return watched

    retention.compact, retention.remove_expired = before_work(retention.compact), before_work(retention.remove_expired)
    Pass._write_once = before_write
    Pass.append_row = before_row
    warehouse.on_write = lambda table, step: reached("after", current[0], table, step)


if __name__ == "__main__":
    main()
