"""The verdict of a transaction, from what landed or was written for it (docs/pages/verdicts.md). Pure."""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from txmq_lib.names import (
    COMMITTED,
    COMMITTED_AND_DISCARDED,
    COMMITTED_OP_LOST,
    CONFLICT,
    DISCARDED,
    DISCARDED_UNSEEN,
    DIVERTED,
    DUPLICATED,
    EXPIRED_UNSEEN,
    PENDING,
    REASON_CHECKS_OVER,
    REASON_CONTRADICTING_ENDS,
    REASON_DECIDED,
    REASON_FILE_END,
    REASON_FROM_BEGINNING,
    REASON_GIVEN_UP,
    REASON_LIVE_READ,
    REASON_LOG_READ,
    REASON_NO_OP,
    REASON_OP_UNREAD,
    REASON_RESERVED_TIME,
    REASON_TWO_OPS,
    REASON_UNDECIDED,
    REASONS,
    RESOLVED_UNKNOWN,
    ROLE_AUDIT,
    ROLE_ENGINE,
    ROLLED_BACK,
    TRANSACTION_KEY,
    UNDECIDED,
)
from txmq_lib.rules import undecided
from txmq_lib.rules.bad_places import has_message_kept_out, has_rival_half, has_unread_op
from txmq_lib.rules.check import check_limit_ms
from txmq_lib.rules.evidence import FIGURES
from txmq_lib.rules.policy import Policies
from txmq_lib.rules.proof import ops_of_former_life, with_proof
from txmq_lib.rules.transaction_key import join_transaction, transactions_of

# A broker with halves in RocksDB checks once more than transactionCheckMax (R119); another round may have begun just
# before a half is due.
ROUNDS_TO_SPARE = 2
UNSETTLED = (PENDING, RESOLVED_UNKNOWN)
# Other settings may turn one of them into another.
MOVED_BY_SETTINGS = (PENDING, DISCARDED_UNSEEN, EXPIRED_UNSEEN)
# What else lands may refute an end that a file told, or what has a hole, or prove better what was proved.
UNSETTLED_REASONS = (
    *(REASON_FILE_END, REASON_FROM_BEGINNING, REASON_LIVE_READ, REASON_LOG_READ),  # of a rollback
    *(REASON_NO_OP, REASON_OP_UNREAD),
)


def judged(
    figures: DataFrame,
    frontier: DataFrame,
    quarantine: DataFrame,
    *,
    policies: Policies,
    now: datetime,
    pass_number: int,
) -> DataFrame:
    """Rows of `verdict` from transaction_figures, landing_frontier and quarantine; the first rule that fits decides."""
    with_checks_end = figures.withColumn("checks_end_timestamp", _checks_end(policies))
    proved = with_proof(with_checks_end, frontier, quarantine).withColumn("_frontier_timestamp", _read_upto(now))
    verdict = F.coalesce(*[F.when(holds, F.lit(name)) for name, holds in _rules(policies)], F.lit(PENDING))
    reasoned = proved.withColumn("verdict", verdict).withColumn("reason", _reason(policies))
    # A hole among ops that shows later may hold its own.
    may_be_decided = policies.has_role(ROLE_AUDIT) & F.col("verdict").isin(*UNDECIDED)
    may_change = F.col("verdict").isin(*UNSETTLED) | F.col("reason").isin(*UNSETTLED_REASONS) | may_be_decided
    return reasoned.select(
        *TRANSACTION_KEY,
        *("real_topic", "real_queue_id", "verdict", "reason"),
        *[F.col(name).cast("bigint").alias(name) for name in FIGURES],
        *("check_times", "broker_check_times", "first_timestamp", "last_timestamp"),
        # It follows from settings: what they do not change keeps nothing of them.
        F.when(F.col("verdict").isin(*MOVED_BY_SETTINGS), F.col("checks_end_timestamp")).alias("checks_end_timestamp"),
        F.lit(pass_number).cast("bigint").alias("pass_number"),
        (~may_change).alias("is_settled"),
    )


def _rules(policies: Policies) -> list[tuple[str, Column]]:
    """Verdicts in the order in which they are looked for, each with where it holds."""
    return [
        (DUPLICATED, F.col("visible_count") >= 2),
        (CONFLICT, _is_conflict(policies)),
        (COMMITTED_AND_DISCARDED, (F.col("visible_count") == 1) & (F.col("given_up_count") > 0)),
        (COMMITTED_OP_LOST, (F.col("visible_count") == 1) & (F.col("op_count") == 0)),
        (COMMITTED, F.col("visible_count") == 1),
        # From here on nothing is visible. An op means rolled back only as what lacks proof is taken out before.
        (RESOLVED_UNKNOWN, _is_unknown(policies)),
        (ROLLED_BACK, F.col("op_count") >= 1),
        (DISCARDED, F.col("is_discarded")),
        (DISCARDED_UNSEEN, policies.has_role(ROLE_AUDIT) & _has_passed(_checks_over_ms())),
        (DIVERTED, (F.col("half_count") == 0) & (F.col("diverted_count") > 0)),
        (EXPIRED_UNSEEN, _is_expired(policies)),
    ]


def _reason(policies: Policies) -> Column:
    """The reason of rows with `verdict` and what `with_proof` adds; a verdict with several reasons has a line here."""
    is_engine = policies.has_role(ROLE_ENGINE)
    reason_of = {
        CONFLICT: F.when(_has_two_ops(), REASON_TWO_OPS).otherwise(REASON_CONTRADICTING_ENDS),
        COMMITTED_OP_LOST: F.when(is_engine | F.col("_is_op_read"), REASON_NO_OP).otherwise(REASON_OP_UNREAD),
        ROLLED_BACK: F.when(_is_decided_by_txmq(policies), REASON_DECIDED).otherwise(F.col("_proof")),
        RESOLVED_UNKNOWN: F.col("_missing"),
    }
    # Where txmq decides an op that nobody has read is a broker's, and lies in quarantine or names what does.
    is_read = ((is_engine & ~has_unread_op()) | F.col("_is_read")) & ~has_message_kept_out()
    of_undecided = {
        PENDING: (REASON_UNDECIDED, is_read),
        DISCARDED: (REASON_GIVEN_UP, is_read),
        # What kept the broker from forgetting it is an op of until then.
        DISCARDED_UNSEEN: (REASON_CHECKS_OVER, is_read & _has_passed(_checks_over_ms(), "_ops_read_at")),
        EXPIRED_UNSEEN: (REASON_RESERVED_TIME, is_read & _has_passed(_expires_ms(policies), "_ops_read_at")),
    }
    for verdict, (reason, would_be_seen) in of_undecided.items():
        reason_of[verdict] = F.when(would_be_seen, reason).otherwise(REASON_OP_UNREAD)
    only = {verdict: F.lit(reasons[0]) for verdict, reasons in REASONS.items() if len(reasons) == 1}
    return F.coalesce(*[F.when(F.col("verdict") == name, reason) for name, reason in {**reason_of, **only}.items()])


def changed(verdicts: DataFrame, known: DataFrame) -> DataFrame:
    """`verdicts` less those that stand in `known` with the same figures already."""
    same = [name for name in verdicts.columns if name != "pass_number" and name not in TRANSACTION_KEY]
    before = known.select(*TRANSACTION_KEY, F.struct(*same).alias("_known"))
    joined = join_transaction(verdicts, before, "left")
    return joined.where(~F.struct(*same).eqNullSafe(F.col("_known"))).drop("_known")


def expiring(unsettled: DataFrame, frontier: DataFrame, *, policies: Policies, now: datetime) -> DataFrame:
    """Keys of unsettled verdicts that time has changed, or what was read may have: expired unseen, or not proved."""
    of_brokers = _brokers(frontier, now).join(undecided.is_torn(frontier), on="broker_name", how="left")
    placed = unsettled.join(F.broadcast(of_brokers), on="broker_name", how="left")
    is_undecided = F.col("verdict").isin(*UNDECIDED)
    is_unproven = ~is_undecided | F.coalesce(F.col("reason") == REASON_OP_UNREAD, F.lit(False))
    may_be_decided = policies.has_role(ROLE_AUDIT) & F.coalesce("_is_torn", F.lit(True))
    is_over = policies.has_role(ROLE_AUDIT) & _has_passed(_checks_over_ms())
    # Of what the broker forgets, the end of its checks tells more than the reserved time does.
    may_be_unseen = is_over & F.col("verdict").isin(PENDING, EXPIRED_UNSEEN)
    has_expired = (F.col("verdict") == PENDING) & _is_expired(policies)
    return transactions_of(placed.where(is_unproven | may_be_decided | may_be_unseen | has_expired))


def moved_by_settings(verdicts: DataFrame) -> DataFrame:
    """Keys of `verdicts` that other settings may have changed; what expires under them alone `expiring` finds.

    EXPIRED_UNSEEN; of RocksDB all whose end of checks follows from settings.
    """
    is_of_rocksdb = F.col("verdict").isin(*MOVED_BY_SETTINGS) & F.col("checks_end_timestamp").isNotNull()
    return transactions_of(verdicts.where((F.col("verdict") == EXPIRED_UNSEEN) | is_of_rocksdb))


def next_change(unsettled: DataFrame, frontier: DataFrame, *, policies: Policies, now: datetime) -> DataFrame:
    """One row, due_ms: the epoch ms at which the clock alone changes the first of `unsettled`; null for none.

    It expires, or the checks of a half in RocksDB are over (R119). That takes a store time that landed and lies ahead
    of `now`: elsewhere nothing changes until more lands.
    """
    placed = unsettled.where(F.col("verdict").isin(PENDING, EXPIRED_UNSEEN)).join(
        F.broadcast(_brokers(frontier, now)), on="broker_name", how="left"
    )
    due_ms = F.least(
        F.when(~_is_expired(policies), _within_what_was_read(_expires_ms(policies) + 1)),
        F.when(~_has_passed(_checks_over_ms()), _within_what_was_read(_checks_over_ms() + 1)),
    )
    return placed.where(policies.has_role(ROLE_AUDIT)).agg(F.min(due_ms).alias("due_ms"))


def _within_what_was_read(due_ms: Column) -> Column:
    return F.when(due_ms <= F.unix_millis("_highest_timestamp"), due_ms)


def _is_unknown(policies: Policies) -> Column:
    """Whether nothing tells how it was decided, asked of what is not visible.

    An op names it and nothing proves that it stayed unseen, or a committed message whose half never landed has its id.
    """
    is_unproved = (F.col("op_count") >= 1) & ~_is_decided_by_txmq(policies) & F.col("_proof").isNull()
    return is_unproved | (policies.has_role(ROLE_AUDIT) & (F.col("orphan_count") > 0))


def _is_decided_by_txmq(policies: Policies) -> Column:
    """Whether all its ops are the engine's, which writes its messages itself, and none to the real topic of a copy."""
    is_own = (F.col("landed_op_count") == 0) & (F.col("elsewhere_count") == 0)
    return policies.has_role(ROLE_ENGINE) & is_own


def _is_conflict(policies: Policies) -> Column:
    return _has_two_ops() | (policies.has_role(ROLE_ENGINE) & (F.col("contradicting_count") > 0))


def _has_two_ops() -> Column:
    """Whether two ends of a visible message were accepted: each left an op (R25).

    Of two halves of one offset, each of another life of the broker, an op means either.
    """
    own_ops = F.col("op_count") - ops_of_former_life()
    return (F.col("visible_count") == 1) & (own_ops >= 2) & ~has_rival_half()


def _is_expired(policies: Policies) -> Column:
    # The engine gives a half this old up itself; only a broker can have passed it over unseen (R41, R42).
    return policies.has_role(ROLE_AUDIT) & _has_passed(_expires_ms(policies))


def _expires_ms(policies: Policies) -> Column:
    return F.unix_millis("born_timestamp") + policies.column("file_reserved_time_ms")


def _checks_over_ms() -> Column:
    return F.unix_millis("checks_end_timestamp")


def _checks_end(policies: Policies) -> Column:
    """When a broker that keeps halves in RocksDB is done with checking one, and forgets it (R119); null for others."""
    waited = F.greatest(
        F.unix_millis("born_timestamp") + check_limit_ms(policies), F.unix_millis("half_store_timestamp")
    )
    rounds = policies.column("transaction_check_max").cast("bigint") + ROUNDS_TO_SPARE
    end_ms = waited + rounds * policies.column("transaction_check_interval_ms").cast("bigint")
    return F.when(F.col("is_in_rocksdb"), F.timestamp_millis(end_ms))


def _has_passed(moment_ms: Column, read_at: str = "_frontier_timestamp") -> Column:
    """Whether a record stored later than a moment has landed: of the broker, or of what was read up to `read_at`."""
    return F.coalesce(F.unix_millis(read_at) > moment_ms, F.lit(False))


def _brokers(frontier: DataFrame, now: datetime) -> DataFrame:
    """Per broker how far anything of it has been read: _highest_timestamp, and _frontier_timestamp as of `now`."""
    highest = frontier.groupBy("broker_name").agg(F.max("highest_store_timestamp").alias("_highest_timestamp"))
    return highest.withColumn("_frontier_timestamp", _read_upto(now))


def _read_upto(now: datetime) -> Column:
    """At most `now`: where a broker's clock once ran ahead, all undecided would expire at once."""
    highest = F.col("_highest_timestamp")
    return F.when(highest.isNotNull(), F.least(highest, F.lit(now)))
