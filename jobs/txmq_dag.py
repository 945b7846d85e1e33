"""A DAG for Airflow 3: land, reconcile, resolve, rollup, audit and maintain, each a spark-submit of its job file.

Settings are Airflow variables, read when a run begins (README, Airflow). A run submitted twice is safe: its passes are
carried on or found idle, never done twice.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, Variable, task

JOBS = "{{ var.value.get('txmq_jobs', '" + str(Path(__file__).parent) + "') }}"
CONNECTION = "{{ var.value.get('txmq_spark_connection', 'spark_default') }}"


@task(multiple_outputs=True)
def arguments(dag_run: Any = None) -> dict[str, list[Any]]:  # noqa: ANN401 - Airflow hands it in
    """What each job is given. The clock is the run's: kept over retries, the same when the run is submitted again."""
    now = (dag_run.logical_date or dag_run.start_date).isoformat()
    conf = Variable.get("txmq_conf", default=None)
    settings = ["--conf", conf] if conf else []
    landings = Variable.get("txmq_land", default=[], deserialize_json=True)
    return {
        "land": [[*landing, *settings, "--now", now] for landing in landings],
        "pass": [*settings, "--now", now],
        "maintain": settings,
    }


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
    given = arguments()
    land = SparkSubmitOperator.partial(
        task_id="land", application=f"{JOBS}/land.py", conn_id=CONNECTION, name="txmq land"
    ).expand(application_args=given["land"])
    last: Any = land
    for job, file, key in (
        ("reconcile", "reconcile.py", "pass"),
        ("resolve", "resolve.py", "pass"),
        ("rollup", "rollup_offsets.py", "pass"),
        ("audit", "audit.py", "pass"),
        ("maintain", "maintain.py", "maintain"),
    ):
        step = SparkSubmitOperator(
            task_id=job,
            application=f"{JOBS}/{file}",
            application_args=given[key],
            conn_id=CONNECTION,
            name=f"txmq {job}",
            # Nothing to land is no reason to skip the rest.
            trigger_rule="none_failed",
        )
        last >> step
        last = step
