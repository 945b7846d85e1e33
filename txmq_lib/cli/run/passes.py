"""Runs a pipeline function on a Spark session and tells what it did. Only command bodies import it: it needs Spark."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

import typer
from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from txmq_lib.cli.options import Options, location, settings_of
from txmq_lib.cli.output.progress import SparkProgress
from txmq_lib.cli.output.said import say
from txmq_lib.cli.run.before_spark import require_warehouse_place
from txmq_lib.cli.run.recorded import recorded, unrecorded
from txmq_lib.config.sections import Thresholds
from txmq_lib.config.settings import Settings
from txmq_lib.config.table_specs import table_specs
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.errors import EXIT_FINDINGS, EnvironmentFault, code_and_words
from txmq_lib.passes.current import PassReport
from txmq_lib.passes.mending import mend_after_power_cut
from txmq_lib.spark.session import build_session, is_session_alive, open_to_others

# Takes a warehouse and its settings, and `on_step` where it has steps to tell of.
Job = Callable[..., PassReport]


def create_tables(options: Options) -> None:
    """Create the tables that do not exist yet and tell how many."""
    settings = settings_of(options)
    require_warehouse_place(settings)
    mend_warehouse(settings)
    with stopping_spark(), spark_warehouse("init", settings) as (warehouse, _):
        created = warehouse.create_missing()
    tell({"warehouse": location(settings.warehouse), "tables": len(table_specs()), "created": len(created)})


def run_job(
    label: str,
    options: Options,
    job: Job,
    *,
    require: Callable[[Settings], None] | None = None,
    show: Callable[[], None] | None = None,
    tells_steps: bool = False,
    is_recorded: bool = True,
) -> None:
    """Run a job on the warehouse of the settings, tell its report, `show` more, end with status 1 past a threshold.

    require  raises where the settings will not do, before Spark starts
    show     done whatever the thresholds say; where it ends the command, that status stands
    tells_steps  the job takes `on_step`
    is_recorded  whether `txmq runs` lists it: what only shows a plan is no run
    """
    settings = settings_of(options)
    with stopping_spark(), recorded(label, settings) if is_recorded else unrecorded(label) as run:
        mend_warehouse(settings)
        if require is not None:
            require(settings)
        require_warehouse_place(settings)
        with spark_warehouse(label, settings) as (warehouse, _):
            run.spark = warehouse.spark
            report = job(warehouse, settings, on_step=run.step) if tells_steps else job(warehouse, settings)
        run.step(label, report)
        _tell_report(report, settings.thresholds, show)


def _tell_report(report: PassReport, thresholds: Thresholds, show: Callable[[], None] | None) -> None:
    seconds = round(sum(report.seconds.values()), 1)
    tell({"job": report.job, "pass": report.number, **report.counts, "seconds": seconds})
    for finding in report.findings:
        say(finding, err=True)
    is_past = is_past_threshold(report, thresholds)
    if show is not None:
        show()
    if is_past:
        raise typer.Exit(EXIT_FINDINGS)


def mend_warehouse(settings: Settings) -> None:
    """Set aside, and tell, what a power cut has left of commits that nothing relies on; WarehouseDamaged for others."""
    mend_after_power_cut(location(settings.warehouse), lambda line: say(f"after a power cut: {line}", err=True))


def is_past_threshold(report: PassReport, thresholds: Thresholds) -> bool:
    """Whether the pass quarantined, left unanswered or could not read more than is allowed; each is told."""
    quarantined = sum(count for step, count in report.counts.items() if step.startswith("quarantine"))
    unanswered = report.counts.get("no_answer", 0)
    is_past = False
    for name, count, at_most, words in (
        ("quarantined", quarantined, thresholds.quarantined, "records quarantined"),
        ("unanswered", unanswered, thresholds.unanswered, "checks without an answer"),
        ("unread", report.counts.get("unread", 0), thresholds.unread, "sources or queues could not be read"),
    ):
        if at_most is not None and count > at_most:
            say(f"{count} {words}, thresholds.{name} is {at_most}", err=True)
            is_past = True
    return is_past


@contextmanager
def spark_warehouse(label: str, settings: Settings) -> Iterator[tuple[Warehouse, SparkProgress]]:
    """A Warehouse on a session of its own, which whoever asks for it stops, or on the one that is already there."""
    # py4j tells the root logger, trace and all, when the JVM goes while it waits for it.
    logging.getLogger().addHandler(logging.NullHandler())
    with SparkProgress(label) as progress:
        spark = build_session(f"txmq {label}", settings)
        if to_say := open_to_others(spark):
            say(to_say, err=True)
        progress.watch(spark.sparkContext.statusTracker())
        try:
            yield Warehouse(spark, location(settings.warehouse)), progress
        except (OSError, Py4JError) as error:
            if is_session_alive(spark):
                raise
            raise EnvironmentFault(
                "Spark has gone: somebody ended its JVM, or memory ran out (spark.spark.driver.memory says how much it"
                f" takes); the same command does what is missing ({code_and_words(error)[1]})"
            ) from error


@contextmanager
def stopping_spark() -> Iterator[None]:
    """Stops the session that was started inside, at the end; one that was there before is left running."""
    before = SparkSession._instantiatedSession
    try:
        yield
    finally:
        spark = SparkSession._instantiatedSession
        if spark is not None and spark is not before:
            # A JVM that is gone needs no stop, and what was said of it is not to be drowned.
            with suppress(OSError, Py4JError):
                spark.stop()


def tell(facts: Mapping[str, object]) -> None:
    """Facts on stdout: aligned on a terminal, plain `key value` lines elsewhere."""
    width = max(map(len, facts)) if sys.stdout.isatty() else 0
    for key, value in facts.items():
        say(f"{key:<{width}} {value}")
