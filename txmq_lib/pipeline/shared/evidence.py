"""All that landed or was written for some transactions, as the plan of a pass saw it."""

from __future__ import annotations

from pyspark.sql import DataFrame

from txmq_lib.names import TRANSACTION_KEY
from txmq_lib.passes.current import Pass
from txmq_lib.pipeline.shared.pruning import Near, near_messages, near_ops, near_values, places_of
from txmq_lib.rules.decisions import resumes
from txmq_lib.rules.evidence import Evidence, diverted_halves
from txmq_lib.rules.transaction_key import join_transaction

# Kept, and in a small pass by the driver: no body and no properties among them.
_PLACE = ("queue_id", "queue_offset", "commit_log_offset", "store_timestamp")
_OF_MESSAGE = (*TRANSACTION_KEY, *_PLACE, "offset_msg_id", "real_topic", "real_queue_id", "broker_check_times")
HALF_COLUMNS = (*_OF_MESSAGE, "prepared_queue_offset", "check_immunity")
GIVEN_UP_COLUMNS = (*_OF_MESSAGE, "half_commit_log_offset")


def evidence_of(current: Pass, touched: DataFrame, orphans: DataFrame, born: Near | None = None) -> Evidence:
    """Evidence for the transactions `touched` (their keys), of the past only what can concern them.

    born  what was born when they were, where somebody else looks there, too
    """
    born = born or near_values("born_timestamp", touched, "born_timestamp")

    def of_touched(table: str) -> DataFrame:
        return join_transaction(born.rows(current, table), touched, "left_semi")

    halves = current.cached(of_touched("half_message").select(*HALF_COLUMNS))
    given_up = current.cached(of_touched("trans_check_max_time").select(*GIVEN_UP_COLUMNS))
    places = places_of(current, halves)
    ops = near_ops(places).rows(current, "op_message")
    visible = near_messages(places, given_up).rows(current, "message")
    diverted = join_transaction(diverted_halves(born.rows(current, "message")), touched, "left_semi")
    return Evidence(
        halves=halves,
        ops=ops,
        visible=visible,
        given_up=given_up,
        diverted=diverted,
        checks=of_touched("check_request"),
        outcomes=of_touched("end_outcome"),
        resumed=resumes(of_touched("manual_decision")),
        orphans=orphans,
    )


def whole_evidence(current: Pass, orphans: DataFrame) -> Evidence:
    """Evidence for every transaction."""
    messages = current.read("message")
    outcomes = current.read("end_outcome").where("transaction_id is not null")
    return Evidence(
        halves=current.read("half_message"),
        ops=current.read("op_message"),
        visible=messages,
        given_up=current.read("trans_check_max_time"),
        diverted=diverted_halves(messages),
        checks=current.read("check_request"),
        outcomes=outcomes,
        resumed=resumes(current.read("manual_decision")),
        orphans=orphans,
    )
