"""END_TRANSACTION requests judged as a broker would, each transaction decided once (R11-R18). Pure."""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.window import Window

from txmq_lib.names import (
    COMMIT,
    END_COMMIT,
    END_ROLLBACK,
    END_UNKNOWN,
    OUTCOME_ACCEPTED,
    OUTCOME_CONTRADICTING,
    OUTCOME_HELD,
    OUTCOME_REFUSED,
    OUTCOME_REPEATED,
    ROLE_ENGINE,
    ROLLBACK,
    TRANSACTION_KEY,
    TRANSACTION_TOPICS,
    UNKNOWN,
)
from txmq_lib.rules.moments import age_ms
from txmq_lib.rules.offset_bitmap import offset_bitmap, with_membership
from txmq_lib.rules.policy import Policies
from txmq_lib.rules.transaction_key import join_transaction

SYSTEM_ERROR, ILLEGAL_OPERATION = 1, 604
BEYOND_MS = 2**62

# reason -> (response code, remark): what a broker answers (R11, R14-R16)
REFUSALS = {
    "COMMIT_OR_ROLLBACK_WRONG": (SYSTEM_ERROR, "commitOrRollback field wrong"),
    "PREPARED_NOT_FOUND": (SYSTEM_ERROR, "Find prepared transaction message failed"),
    "HALF_NEVER_LANDED": (SYSTEM_ERROR, "its half did not land within the reserved time"),
    "IMMUNITY_EXPIRED": (ILLEGAL_OPERATION, "not set any response code"),
    "PRODUCER_GROUP_MISSING": (SYSTEM_ERROR, "the half names no producer group"),
    "PRODUCER_GROUP_WRONG": (SYSTEM_ERROR, "The producer group wrong"),
    "STATE_TABLE_OFFSET_WRONG": (SYSTEM_ERROR, "The transaction state table offset wrong"),
    "TRANSACTION_ID_WRONG": (SYSTEM_ERROR, "two halves claim this place, and the end names another transaction"),
    "REAL_TOPIC_MISSING": (SYSTEM_ERROR, "the half names no real topic"),
    "REAL_TOPIC_IS_SYSTEM": (SYSTEM_ERROR, "the half's real topic is one of the transaction topics"),
    "REAL_QUEUE_MISSING": (SYSTEM_ERROR, "the half names no real queue"),
}
# Of end_transaction, what judging an end needs.
END_COLUMNS = (
    *("broker_name", "ts", "producer_group", "tran_state_table_offset", "commit_log_offset", "commit_or_rollback"),
    *("from_transaction_check", "msg_id", "transaction_id", "origin", "landed_pass", "landing_order"),
)
HALF_PLACE = ("broker_name", "commit_log_offset")  # where a half lies
HALF_OF_END = {
    "transaction_id": "transaction_id",
    "half_producer_group": "producer_group",
    "born_timestamp": "born_timestamp",
    "half_queue_id": "queue_id",
    "half_queue_offset": "queue_offset",
    "real_topic": "real_topic",
    "real_queue_id": "real_queue_id",
    "check_immunity": "check_immunity",
}


# Columns that only the judging of an end needs.
OF_JUDGING = (
    *("_is_waiting", "_is_candidate", "_is_effective", "_deciding"),
    *("prior_decision", "is_queue_offset_landed", "is_contested"),
)


def landed_offset_bitmap(halves: DataFrame) -> DataFrame:
    """The queue offsets of `halves`, of whatever half queue, as a bitmap."""
    return offset_bitmap(halves.select("broker_name", F.lit(0).alias("queue_id"), "queue_offset"))


def matched_ends(
    ends: DataFrame,
    halves: DataFrame,
    landed_bitmap: DataFrame | None = None,
    quarantined_places: DataFrame | None = None,
) -> DataFrame:
    """`ends` with the half at their physical offset (R14), and whether the half at their queue offset has landed.

    Adds     HALF_OF_END (null where no half is there), is_contested (another half claims that place),
             is_queue_offset_landed
    quarantined_places  HALF_PLACE of halves in quarantine, each once
    landed_bitmap       what `landed_offset_bitmap` gives, where it fits into every task: ends are shuffled once less
    """
    named = ends.withColumnRenamed("transaction_id", "end_transaction_id")
    ours, theirs = _halves_at_places(halves).alias("half"), named.alias("end")
    same = [F.col(f"end.{name}") == F.col(f"half.{name}") for name in HALF_PLACE]
    is_meant = F.col("_is_alone") | (F.col("half_queue_offset") == F.col("tran_state_table_offset"))
    joined = theirs.join(ours, on=[*same, is_meant], how="left")
    matched = _with_contested(
        joined.select("end.*", *HALF_OF_END, (~F.col("_is_alone")).alias("_is_rival")), quarantined_places
    )
    if landed_bitmap is not None:
        place = {"queue_id": F.lit(0), "queue_offset": F.col("tran_state_table_offset")}
        return with_membership(matched.withColumns(place), landed_bitmap, "is_queue_offset_landed").drop(*place)
    landed = halves.select(
        "broker_name", F.col("queue_offset").alias("tran_state_table_offset"), F.lit(True).alias("_is_landed")
    ).dropDuplicates(["broker_name", "tran_state_table_offset"])  # one offset may exist in several half queues
    return (
        matched.join(landed, on=["broker_name", "tran_state_table_offset"], how="left")
        .withColumn("is_queue_offset_landed", F.coalesce("_is_landed", F.lit(False)))
        .drop("_is_landed")
    )


def _with_contested(matched: DataFrame, quarantined_places: DataFrame | None) -> DataFrame:
    is_rival = F.coalesce("_is_rival", F.lit(False))
    if quarantined_places is None:
        return matched.withColumn("is_contested", is_rival).drop("_is_rival")
    refused = quarantined_places.withColumn("_is_refused", F.lit(True))
    joined = matched.join(refused, on=list(HALF_PLACE), how="left")
    is_contested = is_rival | F.coalesce("_is_refused", F.lit(False))
    return joined.withColumn("is_contested", is_contested).drop("_is_rival", "_is_refused")


def _halves_at_places(halves: DataFrame) -> DataFrame:
    """HALF_PLACE and HALF_OF_END of `halves`, and whether each is alone at its place.

    A rebuilt broker may have had two halves at one physical offset: an end means that of its queue offset, or none. Of
    several half queues the first one counts; a broker has but one.
    """
    in_order = Window.partitionBy(*HALF_PLACE).orderBy("half_queue_offset", "half_queue_id")
    before, after = (step("half_queue_offset").over(in_order) for step in (F.lag, F.lead))
    placed = halves.select(*HALF_PLACE, *[F.col(name).alias(alias) for alias, name in HALF_OF_END.items()])
    marked = placed.withColumns({"_is_alone": before.isNull() & after.isNull(), "_before": before})
    return marked.where(~F.col("half_queue_offset").eqNullSafe(F.col("_before"))).drop("_before")


def judged_ends(matched: DataFrame, decided: DataFrame, *, policies: Policies, now: datetime) -> DataFrame:
    """`matched` with what became of each end.

    Adds     outcome, decision, reason, code, remark, is_effective (the first accepted end of its transaction)
    Order    ts, a commit before a rollback, then as landed
    decided  transactions decided before this pass: transaction key and `prior_decision`; `unknown` where it is decided
             and nobody knows how: every end repeats it then
    """
    reason = _reason(policies, now)
    with_reason = matched.withColumns({"decision": _decision(), "reason": reason})
    is_waiting = F.col("transaction_id").isNull() & F.col("reason").isNull() & ~_is_unknown()
    is_candidate = F.col("reason").isNull() & F.col("transaction_id").isNotNull() & ~_is_unknown()
    staged = with_reason.withColumns({"_is_waiting": is_waiting, "_is_candidate": is_candidate})
    # The transaction key's group is the half's; the end's own stays as it was named.
    keyed = staged.withColumnsRenamed({"producer_group": "_named_group", "half_producer_group": "producer_group"})
    with_prior = join_transaction(keyed, decided.select(*TRANSACTION_KEY, "prior_decision"), "left")
    # Numbers sort faster than keys, of which most begin alike.
    transaction = (F.xxhash64(*TRANSACTION_KEY), *[F.col(name) for name in TRANSACTION_KEY])
    in_order = Window.partitionBy(*transaction, "_is_candidate").orderBy(
        F.col("ts"), F.col("commit_or_rollback"), F.col("landed_pass"), F.col("landing_order"), F.col("origin")
    )
    first = F.first("decision").over(in_order.rowsBetween(Window.unboundedPreceding, Window.unboundedFollowing))
    deciding = F.coalesce("prior_decision", first)
    is_first = F.row_number().over(in_order) == 1
    is_effective = F.col("_is_candidate") & is_first & F.col("prior_decision").isNull()
    placed = with_prior.withColumns({"_is_effective": is_effective, "_deciding": deciding})
    answered = _with_answer(placed.withColumn("outcome", _outcome()))
    return answered.withColumn("is_effective", F.col("_is_effective")).drop(*OF_JUDGING)


def _outcome() -> Column:
    return (
        F.when(F.col("reason").isNotNull(), OUTCOME_REFUSED)
        .when(_is_unknown(), OUTCOME_ACCEPTED)
        .when(F.col("_is_waiting"), OUTCOME_HELD)
        .when(F.col("_is_effective"), OUTCOME_ACCEPTED)
        .when((F.col("_deciding") == UNKNOWN) | (F.col("_deciding") == F.col("decision")), OUTCOME_REPEATED)
        .otherwise(OUTCOME_CONTRADICTING)
    )


def _with_answer(judged: DataFrame) -> DataFrame:
    """`judged` ends with code and remark, as a broker would answer."""
    refusal = F.create_map(*[F.lit(part) for reason, (code, _) in REFUSALS.items() for part in (reason, code)])
    remark = F.create_map(*[F.lit(part) for reason, (_, text) in REFUSALS.items() for part in (reason, text)])
    # R13: an unknown gets no response at all; a held one none yet.
    code = F.when(F.col("reason").isNotNull(), refusal[F.col("reason")]).when(
        ~_is_unknown() & (F.col("outcome") != OUTCOME_HELD), F.lit(0)
    )
    return judged.withColumns({"code": code, "remark": remark[F.col("reason")]})


def immunity_limit_ms(policies: Policies) -> Column:
    """Age up to which an end not answering a check is taken when the half carries an immunity (R15).

    Units  ms; the property is in seconds; what is unparsable or below the timeout means the timeout
    """
    timeout = policies.column("transaction_timeout_ms").cast("bigint")
    return F.greatest(milliseconds(java_long(F.col("check_immunity"))), timeout)


def java_long(text: Column) -> Column:
    """What Java's Long.parseLong makes of `text`; null where it would throw."""
    return F.when(text.rlike(r"^[+-]?[0-9]+\z"), text.try_cast("bigint"))


def milliseconds(seconds: Column) -> Column:
    """`seconds` in ms; what overflows stays beyond every age, on its own side of zero."""
    beyond = F.when(seconds < 0, F.lit(-BEYOND_MS)).when(seconds >= 0, F.lit(BEYOND_MS))
    return F.coalesce(F.try_multiply(seconds, F.lit(1000)), beyond)


def _decision() -> Column:
    code = F.col("commit_or_rollback")
    return F.when(code == END_COMMIT, COMMIT).when(code == END_ROLLBACK, ROLLBACK).when(code == END_UNKNOWN, UNKNOWN)


def _is_unknown() -> Column:
    return F.col("commit_or_rollback") == END_UNKNOWN


def _reason(policies: Policies, now: datetime) -> Column:
    has_half = F.col("transaction_id").isNotNull()
    # R15 measures to the moment the end was received, not to now.
    age_at_end = F.unix_millis("ts") - F.unix_millis("born_timestamp")
    is_late = F.col("check_immunity").isNotNull() & ~F.col("from_transaction_check")
    has_waited = age_ms(now, F.col("ts")) > policies.column("file_reserved_time_ms")
    # A broker verifies no id (R17); but where two halves claim a place, only the id tells which one is meant.
    id_differs = F.col("is_contested") & (F.col("end_transaction_id") != F.col("transaction_id"))
    group_differs = ~F.col("producer_group").eqNullSafe(F.col("half_producer_group"))
    return (
        F.when(~F.col("commit_or_rollback").isin(END_UNKNOWN, END_COMMIT, END_ROLLBACK), "COMMIT_OR_ROLLBACK_WRONG")
        # R13: an unknown is logged and nothing about it is looked at.
        .when(_is_unknown(), F.lit(None))
        .when(~has_half & F.col("is_queue_offset_landed"), "PREPARED_NOT_FOUND")
        .when(~has_half & has_waited, "HALF_NEVER_LANDED")
        .when(~has_half, F.lit(None))
        .when(is_late & (age_at_end > immunity_limit_ms(policies)), "IMMUNITY_EXPIRED")
        .when(F.col("half_producer_group").isNull(), "PRODUCER_GROUP_MISSING")
        .when(group_differs, "PRODUCER_GROUP_WRONG")
        .when(F.col("tran_state_table_offset") != F.col("half_queue_offset"), "STATE_TABLE_OFFSET_WRONG")
        .when(id_differs, "TRANSACTION_ID_WRONG")
        .when(F.col("real_topic").isNull(), "REAL_TOPIC_MISSING")
        .when(F.col("real_topic").isin(*TRANSACTION_TOPICS), "REAL_TOPIC_IS_SYSTEM")
        # No message can lie in a queue below 0, and -1 names a whole log in landing_frontier.
        .when(F.coalesce(F.col("real_queue_id") < 0, F.lit(True)), "REAL_QUEUE_MISSING")
    )


def decides(policies: Policies) -> Column:
    """True for outcomes that decide a transaction of an engine broker; elsewhere the broker decides."""
    return F.col("is_effective") & policies.has_role(ROLE_ENGINE)


def outcome_rows(judged: DataFrame, *, now: datetime, pass_number: int) -> DataFrame:
    """Rows of `end_outcome` from judged_ends; the producer group is the one the end named."""
    named = judged.drop("producer_group", "check_immunity").withColumnsRenamed({"_named_group": "producer_group"})
    return named.withColumns(
        {
            "pass_number": F.lit(pass_number).cast("bigint"),
            "judged_timestamp": F.lit(now),
            "is_held": F.col("outcome") == OUTCOME_HELD,
        }
    )
