"""Reason codes that a filter may ask for, by view: whoever mistypes one is told the nearest."""

from __future__ import annotations

from itertools import chain
from typing import Final

from txmq_lib import errors, names

# Why an end was refused.
REFUSALS: Final = (
    *("COMMIT_OR_ROLLBACK_WRONG", "PREPARED_NOT_FOUND", "HALF_NEVER_LANDED", "IMMUNITY_EXPIRED"),
    *("PRODUCER_GROUP_MISSING", "PRODUCER_GROUP_WRONG", "STATE_TABLE_OFFSET_WRONG", "TRANSACTION_ID_WRONG"),
    *("REAL_TOPIC_MISSING", "REAL_TOPIC_IS_SYSTEM", "REAL_QUEUE_MISSING"),
)
# Why an input could not be used.
QUARANTINE: Final = (
    *("BROKEN_JSON", "MISSING_FIELD", "WRONG_TYPE", "NEGATIVE_NUMBER", "OFFSET_OUT_OF_RANGE", "TIMESTAMP_OUT_OF_RANGE"),
    *("PROPERTY_REPEATED", "BODY_NOT_BASE64", "WRONG_TOPIC", "BROKER_MISMATCH", "UNKNOWN_EVENT", names.KEY_CONFLICT),
    *(*names.OPS_CLOSING_NOTHING, *names.OPS_READ_IN_PART, "NOT_PREPARED"),
    *("TIMER_IN_TRANSACTION", "TRACE_BODY_TOO_LARGE", "TRACE_RECORD", "HALF_IN_ROCKSDB", "BATCH_IN_TRANSACTION"),
    *(*names.DAMAGES, names.BODY_TOO_LARGE),
    *("LINE_TOO_LONG", "FILE_BROKEN", "FILE_UNREADABLE"),
    *("OFFSET_FILE_UNREADABLE", "OFFSET_ENTRY_MALFORMED", "OFFSET_NOT_INTEGER", "OFFSET_NEGATIVE"),
    *REFUSALS,
)
# Why a check has no answer, or what its answer rests on.
ANSWERS: Final = (
    *("ABSENT", "UNMAPPED", "UNREACHABLE", "QUERY_FAILED", "BAD_ANSWER", "STATES_DIFFER", "FOREIGN_KEYS"),
    *("KEY_MISSING", "KEY_NOT_INTEGER", "RESOLVER_UNUSABLE"),
)
VERDICTS: Final = tuple(dict.fromkeys(chain.from_iterable(names.REASONS.values())))
GIVEN_UP: Final = (names.GIVEN_UP_CHECK_MAX, names.GIVEN_UP_EXPIRED)
# Why a run failed.
RUNS: Final = (
    *(each.code for each in vars(errors).values() if isinstance(each, type) and issubclass(each, errors.TxmqError)),
    "UNEXPECTED",
)
