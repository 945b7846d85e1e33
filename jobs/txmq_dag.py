"""A DAG for Airflow 3: land, reconcile, resolve, rollup, audit, maintain by spark-submit; alert, metrics by `txmq`.

What lands is what the settings file names under `sources`. Airflow variables, read when a run begins, say where things
are (docs/pages/airflow.md). A run submitted twice is safe: its passes are carried on or found idle, never done twice.

Where a source cannot be read `land` fails, and the passes go on with what landed. The run fails at its end.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.providers.standard.operators.bash import BashOperator
from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, Variable, task

JOBS = "{{ var.value.get('txmq_jobs', '" + str(Path(__file__).parent) + "') }}"
CONNECTION = "spark_default"
ENVIRONMENT = {
    "TXMQ": "{{ var.value.get('txmq_command', 'txmq') }}",
    "CONF": "{{ var.value.get('txmq_conf', '') }}",
    "METRICS": "{{ var.value.get('txmq_metrics', '') }}",
}
WATCHES = {
    "alert": '"$TXMQ" ${CONF:+--conf "$CONF"} alert --if-configured',
    # Status 99 has Airflow show the task as skipped.
    "metrics": '[ -n "$METRICS" ] || exit 99; "$TXMQ" ${CONF:+--conf "$CONF"} metrics --out "$METRICS"',
}

# A broker that cannot be read keeps nobody from the others: `land` gives up soon, since the next run tries it again.
OWN: dict[str, dict[str, Any]] = {"land": {"retries": 1}, "reconcile": {"trigger_rule": "all_done"}}


def _settings() -> list[str]:
    conf = Variable.get("txmq_conf", default=None)
    return ["--conf", conf] if conf else []


@task
def pass_arguments(dag_run: Any = None) -> list[str]:  # noqa: ANN401 - Airflow hands it in
    """The clock is the run's: kept over retries, the same when the run is submitted again."""
    return [*_settings(), "--now", (dag_run.logical_date or dag_run.start_date).isoformat()]


@task
def landing_arguments(arguments: list[str]) -> list[str]:
    """All configured sources, one after another."""
    return ["sources", *arguments]


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
    # All that must have gone well: the run is judged by it, whatever came after a task that failed.
    whole = EmptyOperator(task_id="whole")
    last: Any = None
    for job, file, arguments in (
        ("land", "land.py", landing_arguments(of_pass)),
        ("reconcile", "reconcile.py", of_pass),
        ("resolve", "resolve.py", of_pass),
        ("rollup", "rollup_offsets.py", of_pass),
        ("audit", "audit.py", of_pass),
        ("maintain", "maintain.py", upkeep_arguments()),
    ):
        step: Any = SparkSubmitOperator(
            task_id=job,
            application=f"{JOBS}/{file}",
            application_args=arguments,
            conn_id=CONNECTION,
            name=f"txmq {job}",
            **OWN.get(job, {}),
        )
        step >> whole
        if last is not None:
            last >> step
        if job == "maintain":
            # Beside it, and whatever became of the passes: a failure is what alerts are for.
            for name, command in WATCHES.items():
                last >> BashOperator(
                    task_id=name, bash_command=command, env=ENVIRONMENT, append_env=True, trigger_rule="all_done"
                )
        last = step
