"""A DAG for Airflow 3: land, reconcile, resolve, rollup, audit and maintain, each a spark-submit of its job file.

Settings are Airflow variables, read when a run begins (docs/pages/airflow.md). A run submitted twice is safe: its
passes are carried on or found idle, never done twice.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, Variable, task

JOBS = "{{ var.value.get('txmq_jobs', '" + str(Path(__file__).parent) + "') }}"
CONNECTION = "spark_default"


def _settings() -> list[str]:
    conf = Variable.get("txmq_conf", default=None)
    return ["--conf", conf] if conf else []


@task
def pass_arguments(dag_run: Any = None) -> list[str]:  # noqa: ANN401 - Airflow hands it in
    """The clock is the run's: kept over retries, the same when the run is submitted again."""
    return [*_settings(), "--now", (dag_run.logical_date or dag_run.start_date).isoformat()]


@task
def landings(arguments: list[str]) -> list[list[str]]:
    """The arguments of each landing."""
    landings = Variable.get("txmq_land", default=[], deserialize_json=True)
    return [[*landing, *arguments] for landing in landings]


@task
def upkeep_arguments() -> list[str]:
    """Upkeep has no clock of the run's: it looks after files."""
    return _settings()


with DAG(
    dag_id="txmq",
    schedule="*/5 * * * *",
    start_date=datetime(2026, 1, 1),  # noqa: DTZ001 - Airflow reads it in UTC
    catchup=False,
    max_active_runs=1,
    # Status 4, another process holds the pass, goes by itself; so does most of what else can fail.
    default_args={"retries": 5, "retry_delay": timedelta(minutes=1)},
    tags=["txmq"],
    doc_md=__doc__,
) as dag:
    of_pass: Any = pass_arguments()
    last: Any = SparkSubmitOperator.partial(
        task_id="land", application=f"{JOBS}/land.py", conn_id=CONNECTION, name="txmq land"
    ).expand(application_args=landings(of_pass))
    for job, file, arguments in (
        ("reconcile", "reconcile.py", of_pass),
        ("resolve", "resolve.py", of_pass),
        ("rollup", "rollup_offsets.py", of_pass),
        ("audit", "audit.py", of_pass),
        ("maintain", "maintain.py", upkeep_arguments()),
    ):
        step = SparkSubmitOperator(
            task_id=job,
            application=f"{JOBS}/{file}",
            application_args=arguments,
            conn_id=CONNECTION,
            name=f"txmq {job}",
            # Nothing to land is no reason to skip the rest.
            trigger_rule="none_failed",
        )
        last >> step
        last = step
