"""What a reconcile pass reads: new rows, and of the past only what they can concern.

What is read of the past may hold rows of others as well: whoever uses it joins by key.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from txmq_lib.names import COMMIT, END_KEY, HALF_TOPICS, ORIGIN_LANDED, ROLE_ENGINE, ROLLBACK, TRANSACTION_KEY, UNKNOWN
from txmq_lib.passes.current import Pass
from txmq_lib.pipeline.shared.evidence import evidence_of
from txmq_lib.pipeline.shared.orphans import known_orphans
from txmq_lib.pipeline.shared.policies import policies_of
from txmq_lib.pipeline.shared.pruning import Values, near_messages, near_ops, near_values, places_of
from txmq_lib.rules.decisions import held, resumes
from txmq_lib.rules.end import END_COLUMNS, HALF_OF_END, HALF_PLACE
from txmq_lib.rules.kept_out import kept_out
from txmq_lib.rules.pending import FOLDED_FROM, messages_there, named_by_ops
from txmq_lib.rules.policy import Policies
from txmq_lib.rules.transaction_key import join_transaction, transactions_of

# A pass has work when one of them has moved. It reads others as well.
WAKING_TABLES = ("half_message", "op_message", "message", "trans_check_max_time", "end_transaction", "manual_decision")
# Of a half row, what matching and folding need: no body.
OF_HALVES = tuple(dict.fromkeys((*HALF_PLACE, *HALF_OF_END.values(), *FOLDED_FROM)))


class Ends(NamedTuple):
    """Ends to judge, and what of the past they name: half rows, and HALF_PLACE of halves in quarantine."""

    rows: DataFrame
    halves: DataFrame
    quarantined_places: DataFrame


class Touched(NamedTuple):
    """All half rows of transactions of which something new has landed (FOLDED_FROM, and maybe columns more), their
    places, and ops that may name them."""

    halves: DataFrame
    places: Values
    ops: DataFrame


@dataclass(frozen=True)
class Inputs:
    """What a pass reads before it decides.

    None says that there is nothing of the kind, and spares Spark a plan.

    ends     None where nobody sent one and none waits
    pending  rows of pending_half
    touched  None where none of WAKING_TABLES has new rows
    held_by_people  transactions that a person holds; None where nobody has decided anything by hand
    """

    policies: Policies
    ends: Ends | None
    pending: DataFrame
    touched: Touched | None
    held_by_people: DataFrame | None


def read_inputs(current: Pass) -> Inputs:
    """What can be read before anything is decided.

    `_decide` reads what of the past a decision needs (prior_decisions, relevant_...): it follows from the matches.
    """
    policies, pending = policies_of(current.settings), current.read("pending_half")
    return Inputs(policies, _ends(current), pending, _touched(current), _held_by_people(current))


def _ends(current: Pass) -> Ends | None:
    if not current.has_new_rows("end_transaction") and not has_waiting_ends(current):
        return None
    with current.timed("judge"):
        ends = current.kept_in_small_pass(ends_to_judge(current))
        refused = current.sent_if_few(quarantined_places(current, ends))
        return Ends(ends, halves_named_by(current, ends), refused)


def _touched(current: Pass) -> Touched | None:
    if not any(current.has_new_rows(table) for table in WAKING_TABLES):
        return None
    with current.timed("pending"):
        near, exact = touched_halves(current)
        halves = current.kept_in_small_pass(exact)
        # Where the others near them are costs less to look up with than to leave out.
        places = places_of(current, current.exact_in_small_pass(halves, near))
        return Touched(halves, places, relevant_ops(current, places))


def _held_by_people(current: Pass) -> DataFrame | None:
    has_decisions = not current.was_never_written("manual_decision")
    return held(current.read("manual_decision")) if has_decisions else None


def has_waiting_ends(current: Pass) -> bool:
    """Whether ends wait for their half."""
    return not current.read_part("end_outcome", "is_held", value=True).isEmpty()


def ends_to_judge(current: Pass) -> DataFrame:
    """Ends to judge: new ones, and those held so far (`was_held`)."""
    new = current.new_rows("end_transaction").select(*END_COLUMNS)
    if current.known_to("end_transaction") is None:
        # All ends there are, as nobody knows which are new: those judged before have their outcome.
        judged = current.read("end_outcome").select(*END_KEY)
        new = new.join(judged, on=list(END_KEY), how="left_anti").select(*END_COLUMNS)
    return new.withColumn("was_held", F.lit(False)).unionByName(waiting_before(current))


def waiting_before(current: Pass) -> DataFrame:
    """Ends held so far, as rows of end_transaction, with `was_held`."""
    waiting = current.read_part("end_outcome", "is_held", value=True).drop("transaction_id")
    named = waiting.withColumnRenamed("end_transaction_id", "transaction_id").select(*END_COLUMNS)
    return named.withColumn("was_held", F.lit(True))


def ends_without_outcome(current: Pass, which: Column) -> DataFrame:
    """Ends of `which` that no reconcile has judged, or that are held: whoever is not the reconcile job asks so."""
    ends = current.read("end_transaction").where(which).select(*END_COLUMNS)
    judged = current.read("end_outcome").where(which & ~F.col("is_held")).select(*END_KEY)
    return ends.join(judged, on=list(END_KEY), how="left_anti").select(*END_COLUMNS)


def halves_named_by(current: Pass, ends: DataFrame, *, whole_if_new: bool = True) -> DataFrame:
    """Half rows at the physical or queue offsets that `ends` name, and some around them.

    whole_if_new  all of them, where all are new: as many as there are ends
    """
    named = Values(ends, "commit_log_offset", "tran_state_table_offset")
    by_either = named.near("commit_log_offset", "commit_log_offset") | named.near(
        "queue_offset", "tran_state_table_offset"
    )
    return by_either.rows(current, "half_message", whole_if_new=whole_if_new, narrow=OF_HALVES)


def quarantined_places(current: Pass, ends: DataFrame) -> DataFrame:
    """Places (end.HALF_PLACE) of halves in quarantine near the physical offsets that `ends` name."""
    near = near_values("commit_log_offset", ends, "commit_log_offset").rows(current, "quarantine")
    halves = near.where(F.col("topic").isin(*HALF_TOPICS) & F.col("commit_log_offset").isNotNull())
    return halves.select(*HALF_PLACE).distinct()  # a bad record may be there under several reasons


def prior_decisions(current: Pass, named: DataFrame, halves: DataFrame) -> DataFrame:
    """Transactions decided before: key and `prior_decision`.

    named   ends matched with their halves, or rows of half_message: those born when these were are looked at
    halves  what `halves_named_by` gives for the ends to judge
    """
    near_born = near_values("born_timestamp", named, "born_timestamp")
    decided = near_born.rows(current, "end_outcome").where("is_effective")
    rolled_back = near_born.rows(current, "trans_check_max_time").where("is_rolled_back")
    prior = decided.select(*TRANSACTION_KEY, F.col("decision").alias("prior_decision")).unionByName(
        rolled_back.select(*TRANSACTION_KEY, F.lit(ROLLBACK).alias("prior_decision"))
    )
    by_landed_rows = _decided_by_landed_rows(current, halves)
    prior = prior if by_landed_rows is None else prior.unionByName(by_landed_rows)
    # Given up and rolled back twice over, after a resume: still one decision. What is visible was committed.
    # As a text "commit" comes before "rollback", and both before "unknown".
    return prior.groupBy(*TRANSACTION_KEY).agg(F.min("prior_decision").alias("prior_decision"))


def _decided_by_landed_rows(current: Pass, halves: DataFrame) -> DataFrame | None:
    """Of brokers where txmq decides: transactions of `halves` that a broker's op or message had decided before it did.

    It has landed, or a row that txmq wrote kept it out. None where no such broker landed any. Of an op without a
    message nobody knows what it decided.
    """
    # Queues of txmq's own rows have no store time.
    frontier = current.read_once("landing_frontier").where("highest_store_timestamp is not null")
    brokers = frontier.where(~F.col("topic").isin(*HALF_TOPICS)).select("broker_name").toArrow()["broker_name"].unique()
    engines = [name for name in brokers.to_pylist() if current.settings.for_broker(name).role == ROLE_ENGINE]
    if not engines:
        return None
    touched = current.cached(transactions_of(halves.where(F.col("broker_name").isin(engines))))
    evidence = evidence_of(current, touched, known_orphans(current))
    has_landed = F.col("origin") == ORIGIN_LANDED
    messages, ops = kept_out(current.read("quarantine").where(F.col("broker_name").isin(engines)))
    messages = evidence.visible.where(has_landed).select(*messages.columns).unionByName(messages)
    ops = evidence.ops.where(has_landed).unionByName(ops.withColumn("origin", F.lit(ORIGIN_LANDED)), True)
    visible = messages_there(evidence.halves, evidence.given_up, messages).where("is_committed")
    resolved = named_by_ops(evidence.halves, ops)
    return visible.select(*TRANSACTION_KEY, F.lit(COMMIT).alias("prior_decision")).unionByName(
        resolved.select(*TRANSACTION_KEY, F.lit(UNKNOWN).alias("prior_decision"))
    )


def touched_halves(current: Pass) -> tuple[DataFrame, DataFrame]:
    """New half rows with all other copies of their transactions, and all half rows of those resumed since.

    First with others that were born when they were. Columns FOLDED_FROM, and maybe others.
    """
    new = current.new_rows_once("half_message", *OF_HALVES)
    has_resumes = current.has_new_rows("manual_decision")
    if current.known_to("half_message") is None or not (current.has_new_rows("half_message") or has_resumes):
        return new, new
    touched = new
    if has_resumes:
        resumed = resumes(current.new_rows("manual_decision")).select(*TRANSACTION_KEY)
        touched = current.kept_in_small_pass(new.select(*TRANSACTION_KEY).unionByName(resumed))
    near = near_values("born_timestamp", touched, "born_timestamp").rows(current, "half_message", narrow=OF_HALVES)
    if near is new:  # none of their transactions has a copy elsewhere
        return new, new
    near = near.select(*FOLDED_FROM)
    return near, join_transaction(near, touched.select(*TRANSACTION_KEY), "left_semi")


def relevant_ops(current: Pass, places: Values) -> DataFrame:
    """New op rows, and those that name a half at one of `places` (an op may land before its half)."""
    # Where only the feed of a table is lost, its new rows are all its rows.
    if current.is_first:
        return current.read("op_message")
    return current.new_rows("op_message").unionByName(near_ops(places).rows(current, "op_message"))


def relevant_messages(current: Pass, places: Values, given_up: DataFrame) -> DataFrame:
    """New visible messages, and those prepared at `places` or at one of `given_up`; no bodies. Each may land last."""
    columns = ("broker_name", "topic", "sys_flag", "prepared_transaction_offset", "transaction_id", "store_timestamp")
    if current.is_first:
        return current.read("message").select(*columns)
    past = near_messages(places, given_up).rows(current, "message")
    return current.new_rows("message").select(*columns).unionByName(past.select(*columns))


def relevant_given_up(current: Pass, candidates: DataFrame) -> DataFrame:
    """New given-up rows, and those of transactions born when `candidates` were (a resumed one has some); no bodies."""
    columns = (*TRANSACTION_KEY, "real_topic", "queue_offset", "commit_log_offset", "half_commit_log_offset")
    if current.is_first:
        return current.read("trans_check_max_time").select(*columns)
    near_born = near_values("born_timestamp", candidates, "born_timestamp")
    past = near_born.rows(current, "trans_check_max_time").select(*columns)
    return current.new_rows("trans_check_max_time").select(*columns).unionByName(past)


def relevant_resumes(current: Pass, candidates: DataFrame) -> DataFrame:
    """Resumes of transactions born when `candidates` were."""
    near_born = near_values("born_timestamp", candidates, "born_timestamp")
    return resumes(near_born.rows(current, "manual_decision"))
