"""The resolve job: asks who knows about checks that nobody answered, and turns what is said into ends.

An answer is no function of the plan, so the plan fixes what is asked, in which step, and each step lands once: what
landed first is what was said. Ends are made of that alone, when all steps are there. A step that is left off lands with
what was said by then; the rest of its checks stay open, and the next pass asks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from txmq_lib.answers.credentials import missing_secrets
from txmq_lib.answers.protocol import Answer, Resolver
from txmq_lib.answers.resolvers import resolver_of
from txmq_lib.config.settings import Settings
from txmq_lib.config.table_specs import table_spec
from txmq_lib.delta.conflicts import is_left_off
from txmq_lib.delta.conform import rows_at_hand
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.errors import SettingsError
from txmq_lib.names import COMMIT, ORIGIN_RESOLVE, ROLE_AUDIT, ROLLBACK, UNKNOWN
from txmq_lib.passes.current import Pass, PassReport
from txmq_lib.passes.job import job_of_steps
from txmq_lib.passes.runner import run_passes
from txmq_lib.pipeline.open_checks import Question, by_resolver, in_turn, parted, with_halves
from txmq_lib.pipeline.shared.evidence import evidence_of
from txmq_lib.pipeline.shared.orphans import known_orphans
from txmq_lib.pipeline.shared.pruning import Values
from txmq_lib.pipeline.shared.roles import require_same_role
from txmq_lib.rules.answers import DEFINITE, QUESTION, end_of_answers, given_up_checks, open_checks, when_given_up
from txmq_lib.rules.decisions import held
from txmq_lib.rules.evidence import transaction_figures
from txmq_lib.rules.transaction_key import join_transaction, transactions_of
from txmq_lib.spark.jvm import uncancelled

JOB = "resolve"
ANSWERS = "check_answer"
STEP = "answers_"
NO_ANSWER = "no_answer"
NO_GROUP = "(no producer group)"


@dataclass
class _Asking:
    """What the process learns beside the rows: groups that nobody serves, and why a group had no answer."""

    environ: Mapping[str, str]
    unserved: Counter[str] = field(default_factory=Counter)
    silent: dict[str, Answer] = field(default_factory=dict)


def run_resolve(
    warehouse: Warehouse,
    settings: Settings,
    *,
    now: datetime,
    wall_clock: Callable[[], datetime],
    environ: Mapping[str, str],
    given_up: bool = False,
) -> PassReport:
    """Ask about every open check whose group has a resolver; with `given_up` also about given-up transactions.

    environ  where secrets that the settings name are looked up; SettingsError where one is missing
    Counts: asked; commit, rollback and unknown; no_answer, in all and per group; no_resolver.
    """
    require_secrets(settings, environ)
    asking = _Asking(environ)

    def is_idle(current: Pass) -> bool:
        groups = _open(current).groupBy("producer_group").count().collect()
        asking.unserved = Counter(
            {row["producer_group"] or NO_GROUP: row["count"] for row in groups if not _is_served(current, row[0])}
        )
        return not any(_is_served(current, row["producer_group"]) for row in groups)

    job = job_of_steps(JOB, lambda current: _resolve(current, asking), is_idle=is_idle, require=require_same_role)
    report = run_passes(
        warehouse,
        job,
        now=now,
        settings=settings,
        wall_clock=wall_clock,
        arguments=lambda: {"given_up": given_up},
    )
    unserved = {"no_resolver": asking.unserved.total()} if asking.unserved else {}
    return replace(report, counts={**report.counts, **unserved}, findings=tuple(_findings(report, asking)))


def require_secrets(settings: Settings, environ: Mapping[str, str]) -> None:
    """SettingsError with every secret that the resolvers name and nobody gave."""
    if faults := missing_secrets(settings, environ):
        raise SettingsError(faults)


def _findings(report: PassReport, asking: _Asking) -> Iterator[str]:
    for group, count in sorted(asking.unserved.items()):
        yield f"{group}: {count} checks stay asked, no resolver serves the group"
    for group, answer in sorted(asking.silent.items()):
        count = report.counts.get(f"{NO_ANSWER}:{group}", 0)
        yield f"{group}: {count} checks without an answer: {answer.reason}: {answer.detail}"


def _is_served(current: Pass, producer_group: str | None) -> bool:
    return current.settings.resolver_for(producer_group) is not None


def _open(current: Pass) -> DataFrame:
    """Every question of this pass as QUESTION and `known_reasons`."""
    # Nobody is asked about what a person holds, also where no reconcile has seen that yet.
    held_ones = F.broadcast(held(current.read("manual_decision")))
    pending = join_transaction(current.read("pending_half"), held_ones, "left_anti")
    moments = Values(pending, "last_check_timestamp", "born_timestamp")
    raised, born = (
        moments.near("check_timestamp", "last_check_timestamp"),
        moments.near("born_timestamp", "born_timestamp"),
    )
    questions = open_checks(pending, raised.rows(current, "check_request"), born.rows(current, ANSWERS))
    return questions.unionByName(_given_up(current)) if current.arguments["given_up"] else questions


def _given_up(current: Pass) -> DataFrame:
    given_up = when_given_up(current.read("trans_check_max_time"), current.read("verdict"))
    evidence = evidence_of(current, current.cached(transactions_of(given_up)), known_orphans(current))
    still_so = transaction_figures(evidence).where("is_discarded or given_up_count = 0")
    undecided = still_so.where("op_count = 0 and visible_count = 0")
    return given_up_checks(undecided, given_up, evidence.halves, current.read(ANSWERS))


def _resolve(current: Pass, asking: _Asking) -> PassReport:
    asking.silent.clear()
    with current.timed("open"):
        questions = current.cached(_open(current))
        counts = {
            row["producer_group"]: row["count"]
            for row in questions.groupBy("producer_group").count().collect()
            if _is_served(current, row["producer_group"])
        }
        in_order = in_turn(current, questions, counts)
    resolvers: dict[str, Resolver] = {}
    try:
        for number, part in enumerate(parted(in_order, current.settings.resolve.checks_per_write), start=1):
            step = f"{STEP}{number:06}"
            if not current.is_own and current.has_landed(ANSWERS, step):
                continue
            _land(current, step, _rows_of_step(current, part, step, resolvers, asking))
    finally:
        for resolver in resolvers.values():
            resolver.close()
    return _ended(current, counts)


def _rows_of_step(
    current: Pass, part: Sequence[Question], step: str, resolvers: dict[str, Resolver], asking: _Asking
) -> list[dict[str, Any]]:
    """Rows of check_answer for the questions of one step; where it is left off, what was said by then lands."""
    rows: list[dict[str, Any]] = []
    try:
        with current.timed("ask"):
            for one_resolvers in by_resolver(part):
                for batch in _told(current, one_resolvers, resolvers, asking):
                    rows += batch
                    current.warehouse.on_part(ANSWERS, step)
    except Exception as error:
        if rows and (is_left_off(error)):
            with uncancelled(current.warehouse.spark):
                _land(current, step, rows)
        raise
    return rows


def _land(current: Pass, step: str, rows: Sequence[Mapping[str, Any]]) -> None:
    # Also where nothing was said: a process that carries this plan on must not be told something else later.
    current.append(ANSWERS, rows_at_hand(ANSWERS, rows), step=step, even_if_empty=True)


def _told(
    current: Pass, one_resolvers: tuple[str, list[Question]], resolvers: dict[str, Resolver], asking: _Asking
) -> Iterator[list[dict[str, Any]]]:
    """Rows of check_answer for questions to one resolver, batch by batch."""
    name, questions = one_resolvers
    if name not in resolvers:
        resolvers[name] = resolver_of(
            current.settings.resolvers[name], spark=current.warehouse.spark, environ=asking.environ, now=current.now
        )
    resolver = resolvers[name]
    for part in parted(questions, resolver.batch_size):
        checks = [question.check for question in part]
        if resolver.half_columns and resolver.down is None:
            checks = with_halves(current, checks, resolver.half_columns)
        rows = []
        for question, answer in zip(part, resolver.answers(checks), strict=True):
            if answer.answer is None:
                asking.silent.setdefault(question.check.producer_group, answer)
            # The same silence is told once per check, or a database that is down would fill the table.
            if answer.answer is not None or answer.reason not in question.known_reasons:
                rows.append(_row(current, question, answer))
        yield rows


def _row(current: Pass, question: Question, answer: Answer) -> dict[str, Any]:
    check, settings = question.check, current.settings
    is_brokers = settings.for_broker(check.broker_name).role == ROLE_AUDIT
    kept = {column: getattr(check, column) for column in table_spec(ANSWERS).columns if column in QUESTION}
    return {
        **kept,
        "answer": answer.answer,
        "state": answer.state,
        "reason": answer.reason,
        "detail": answer.detail,
        "resolver": question.resolver,
        "is_planned_for_broker": is_brokers and settings.end_on_broker == "plan" and answer.answer in DEFINITE,
        "answered_timestamp": current.now,
        "pass_number": current.number,
    }


def _ended(current: Pass, counts: Mapping[str | None, int]) -> PassReport:
    # The newest version, not the plan's: all steps are there, and no other pass writes rows of this number.
    answers = current.cached(current.warehouse.read(ANSWERS).where(F.col("pass_number") == current.number))
    with current.timed("tally"):
        tally = answers.where("answer is not null").groupBy("producer_group", "answer").count().collect()
    said = Counter({answer: 0 for answer in (COMMIT, ROLLBACK, UNKNOWN)})
    silent = Counter(counts)
    for row in tally:
        said[row["answer"]] += row["count"]
        silent[row["producer_group"]] -= row["count"]
    ends = end_of_answers(answers, now=current.now, origin=ORIGIN_RESOLVE, pass_number=current.number)
    current.append("end_transaction", ends, step="end_transaction", count=said[COMMIT] + said[ROLLBACK])
    # Rows per step say less than what was said.
    current.counts = {step: count for step, count in current.counts.items() if not step.startswith(STEP)}
    groups = {f"{NO_ANSWER}:{group}": count for group, count in sorted(silent.items()) if count}
    return current.commit({"asked": sum(counts.values()), **said, NO_ANSWER: silent.total(), **groups})
