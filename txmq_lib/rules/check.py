"""Who is asked now, who is given up, and when the rest is due (R44-R52, R61-R63). Pure."""

from __future__ import annotations

from datetime import datetime

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from txmq_lib.names import GIVEN_UP_CHECK_MAX, GIVEN_UP_EXPIRED, ROLE_ENGINE, TRANSACTION_KEY
from txmq_lib.rules.end import java_long, milliseconds
from txmq_lib.rules.half import half_topic, stored_queue_id
from txmq_lib.rules.moments import age_ms, later
from txmq_lib.rules.policy import Policies
from txmq_lib.rules.transaction_key import join_transaction

ASK, GIVE_UP, WAIT = "ask", "give_up", "wait"


def check_limit_ms(policies: Policies) -> Column:
    """Age a half must pass before it is asked about (R48, R49); ms, the property is in seconds.

    An unparsable value or -1 means the transaction timeout; 0 and other negatives mean no immunity at all.
    """
    timeout = policies.column("transaction_timeout_ms").cast("bigint")
    seconds = java_long(F.col("check_immunity"))
    return F.when(seconds.isNull() | (seconds == -1), timeout).otherwise(milliseconds(seconds))


def is_immune(policies: Policies, now: datetime) -> Column:
    """True while a half is too young to be asked about: age <= limit, inclusive (R48, R49).

    Born in the future and without an immunity property, it is asked at once (R52 c).
    """
    age = age_ms(now, F.col("born_timestamp"))
    is_from_future = F.col("check_immunity").isNull() & (age < 0)
    return (age <= check_limit_ms(policies)) & ~is_from_future


def check_interval_ms(policies: Policies) -> Column:
    """Time between the newest check and the next (R35), ms: the same always, but for producer groups with a backoff."""
    plain = policies.column("transaction_check_interval_ms").cast("bigint")
    interval = plain
    for group, backoff in policies.backoffs.items():
        grown = plain * F.pow(F.lit(backoff.factor), F.col("check_times") - 1)
        bounded = F.greatest(F.least(grown, F.lit(float(backoff.longest_ms))).cast("bigint"), plain)
        interval = F.when(F.col("producer_group") == group, bounded).otherwise(interval)
    return interval


def with_held_by_people(open_transactions: DataFrame, held: DataFrame | None) -> DataFrame:
    """`open_transactions` with `is_held`: true where its key is among `held`, else null; None holds nothing."""
    if held is None:
        return open_transactions.withColumn("is_held", F.lit(None).cast("boolean"))
    marked = F.broadcast(held.withColumn("is_held", F.lit(True)))
    return join_transaction(open_transactions, marked, "left")


def with_action(open_transactions: DataFrame, *, policies: Policies, now: datetime) -> DataFrame:
    """`open_transactions` (with `is_held`) with `action` (ask, give_up or wait) and `reason` of giving up.

    Rule  giving up is judged before asking (R44); the last check keeps its full interval of grace (R61); immunity
          burns no check times (R63). In the audit role nothing is given up: the broker does that. One that a person
          holds waits, whatever is due.
    """
    has_waited = age_ms(now, F.col("last_check_timestamp")) >= check_interval_ms(policies)
    is_due = F.coalesce(has_waited, ~is_immune(policies, now))
    is_expired = age_ms(now, F.col("born_timestamp")) > policies.column("file_reserved_time_ms")
    is_over_limit = F.col("check_times") >= policies.column("transaction_check_max")
    is_engine = policies.has_role(ROLE_ENGINE)
    reason = F.when(is_expired, GIVEN_UP_EXPIRED).when(is_over_limit & is_due, GIVEN_UP_CHECK_MAX)
    is_held = F.coalesce("is_held", F.lit(False))
    action = (
        F.when(is_held, WAIT)
        .when(is_engine & reason.isNotNull(), GIVE_UP)
        .when(is_due & ~is_over_limit & ~is_expired, ASK)
        .otherwise(WAIT)
    )
    return open_transactions.withColumns({"action": action, "reason": F.when(~is_held & is_engine, reason)})


def pending_after(open_transactions: DataFrame, *, policies: Policies, now: datetime) -> DataFrame:
    """Rows of pending_half after the pass: of those to ask, one more check at `now`; when each is next due.

    The engine has giving up to do after the last check, and when a half expires; in the audit role nothing more is
    due then, and nothing is for what is held.
    """
    is_asked = F.col("action") == ASK
    counted = open_transactions.withColumns(
        {
            "check_times": F.col("check_times") + is_asked.cast("int"),
            "last_check_timestamp": F.when(is_asked, F.lit(now)).otherwise(F.col("last_check_timestamp")),
        }
    )
    # The first millisecond in which it is older than its limit, else an interval after the last check.
    first_due = later(F.col("born_timestamp"), F.least(check_limit_ms(policies), F.lit(2**52)) + 1)
    next_due = later(F.col("last_check_timestamp"), check_interval_ms(policies))
    due = F.coalesce(next_due, first_due)
    is_engine, reserved = policies.has_role(ROLE_ENGINE), policies.column("file_reserved_time_ms").cast("bigint")
    expiry = later(F.col("born_timestamp"), reserved + 1)
    is_last = F.col("check_times") >= policies.column("transaction_check_max")
    is_over = is_last | (F.greatest(due, F.lit(now)) >= expiry)
    is_free = ~F.coalesce("is_held", F.lit(False))
    next_check = F.when(is_free, F.when(is_engine, F.least(due, expiry)).when(~is_over, due))
    return counted.withColumn("next_check_timestamp", next_check).drop("action", "reason")


def check_requests(open_transactions: DataFrame, *, now: datetime, pass_number: int) -> DataFrame:
    """Rows of check_request: the header of R65 for the newest copy of each transaction to ask."""
    return open_transactions.where(F.col("action") == ASK).select(
        *TRANSACTION_KEY,
        (F.col("check_times") + 1).alias("check_times"),
        F.lit(now).alias("check_timestamp"),
        half_topic().alias("topic"),
        stored_queue_id().alias("queue_id"),
        F.col("queue_offset").alias("tran_state_table_offset"),
        "commit_log_offset",
        F.col("transaction_id").alias("msg_id"),
        *("offset_msg_id", "half_offsets", "real_topic", "real_queue_id"),
        F.lit(pass_number).cast("bigint").alias("pass_number"),
    )
