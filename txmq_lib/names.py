"""RocketMQ's wire names and txmq's own vocabulary, each spelt once. Imports nothing."""

from __future__ import annotations

from typing import Final

# --- topics and groups (rules.md)
HALF_TOPIC: Final = "RMQ_SYS_TRANS_HALF_TOPIC"
OP_TOPIC: Final = "RMQ_SYS_TRANS_OP_HALF_TOPIC"
MAX_TIME_TOPIC: Final = "TRANS_CHECK_MAX_TIME_TOPIC"
SCHEDULE_TOPIC: Final = "SCHEDULE_TOPIC_XXXX"
TIMER_TOPIC: Final = "rmq_sys_wheel_timer"
# Where a broker keeps the index of its halves in RocksDB (R116, R117).
ROCKSDB_HALF_TOPIC: Final = "RMQ_SYS_ROCKSDB_TRANS_HALF_TOPIC"
ROCKSDB_OP_TOPIC: Final = "RMQ_SYS_ROCKSDB_TRANS_OP_HALF_TOPIC"
HALF_TOPICS: Final = (HALF_TOPIC, ROCKSDB_HALF_TOPIC)
OP_TOPICS: Final = (OP_TOPIC, ROCKSDB_OP_TOPIC)
OP_TOPIC_OF: Final = dict(zip(HALF_TOPICS, OP_TOPICS, strict=True))
TRANSACTION_TOPICS: Final = (*HALF_TOPICS, *OP_TOPICS, MAX_TIME_TOPIC)
# queue_id of halves and ops of that pair in tables; both are stored in queue 0 of their topics, as others may be.
ROCKSDB_QUEUE_ID: Final = -2
# Where brokers that trace keep what clients tell of what they did (R129): kinds of records, and a field between two.
TRACE_END: Final = "EndTransaction"
DIVERTING_TOPICS: Final = (SCHEDULE_TOPIC, TIMER_TOPIC)
# The row of a broker among those of its producer groups (table connected_producer); no group has such a name.
EVERY_GROUP: Final = "*"
CHECK_GROUP: Final = "CID_RMQ_SYS_TRANS"
# RocketMQ's own business: no message that a transaction commits lies there, and some may not be read.
SYSTEM_TOPICS: Final = ("TBW102", "SELF_TEST_TOPIC", "OFFSET_MOVED_EVENT")
SYSTEM_TOPIC_PREFIX: Final = "rmq_sys_"
# flushDiskType of a broker that answers before anything is on disk.
FLUSH_LATER: Final = "ASYNC_FLUSH"

# --- message properties
PROPERTY_TRAN_MSG: Final = "TRAN_MSG"
PROPERTY_PRODUCER_GROUP: Final = "PGROUP"
PROPERTY_UNIQ_KEY: Final = "UNIQ_KEY"
PROPERTY_TRANSACTION_ID: Final = "__transactionId__"
PROPERTY_REAL_TOPIC: Final = "REAL_TOPIC"
PROPERTY_REAL_QUEUE_ID: Final = "REAL_QID"
PROPERTY_CHECK_TIMES: Final = "TRANSACTION_CHECK_TIMES"
PROPERTY_CHECK_IMMUNITY: Final = "CHECK_IMMUNITY_TIME_IN_SECONDS"
PROPERTY_PREPARED_QUEUE_OFFSET: Final = "TRAN_PREPARED_QUEUE_OFFSET"
PROPERTY_TAGS: Final = "TAGS"
PROPERTY_KEYS: Final = "KEYS"
PROPERTY_DELAY: Final = "DELAY"
TIMER_PROPERTIES: Final = ("TIMER_DELAY_SEC", "TIMER_DELAY_MS", "TIMER_DELIVER_MS")
# Added to what a pulling client sees, never stored (F4).
PROPERTY_MAX_OFFSET: Final = "MAX_OFFSET"
PROPERTY_HALF_PLACE: Final = "TRANS_OFFSET"  # of an op in RocksDB: physical offset of its half (R117)
READER_PROPERTIES: Final = ("MIN_OFFSET", PROPERTY_MAX_OFFSET)
OP_TAG: Final = "d"

# --- system flag bits (FLG)
SYS_FLAG_TRANSACTION_MASK: Final = 0xC
SYS_FLAG_PREPARED: Final = 0x4
SYS_FLAG_COMMIT: Final = 0x8
SYS_FLAG_ROLLBACK: Final = 0xC
SYS_FLAG_BATCH_MASK: Final = 0xC0

# --- END_TRANSACTION.commitOrRollback (ETH)
END_UNKNOWN: Final = 0
END_COMMIT: Final = 8
END_ROLLBACK: Final = 12

# --- what an end, an answer or a person decides
COMMIT: Final = "commit"
ROLLBACK: Final = "rollback"
UNKNOWN: Final = "unknown"
# As a client's LocalTransactionState spells it.
LOCAL_STATES: Final = {"COMMIT_MESSAGE": COMMIT, "ROLLBACK_MESSAGE": ROLLBACK, "UNKNOW": UNKNOWN}

# --- what a consumer did with a queue (table consumer_ack)
ACK_ALLOCATED: Final = "allocated"
ACK_TAKEN: Final = "taken"
ACK_ACKED: Final = "acked"
ACK_DROPPED: Final = "dropped"

# --- brokers
ROLE_ENGINE: Final = "engine"
ROLE_AUDIT: Final = "audit"

# --- who wrote a row of a table that both landing and txmq write
ORIGIN_LANDED: Final = "landed"
ORIGIN_TXMQ: Final = "txmq"
ORIGIN_RESOLVE: Final = "resolve"
ORIGIN_MANUAL: Final = "manual"
ORIGIN_ACK: Final = "ack"
ORIGIN_BROKER_FILE: Final = "broker_file"

# --- what a resolver was asked about (table check_answer)
ASKED_FOR_CHECK: Final = "check"
ASKED_FOR_GIVEN_UP: Final = "given_up"

# --- what somebody decided by hand (table manual_decision), beside commit and rollback
ACTION_RESUME: Final = "resume"
ACTION_HOLD: Final = "hold"
ACTION_RELEASE: Final = "release"
ACTION_RESEND: Final = "resend"  # of requests to a live broker
# Why a plan of decisions leaves a transaction as it is.
PLAN_EXPIRED: Final = "expired"
PLAN_BROKERS: Final = "left_to_broker"
PLAN_SETTLED_BEFORE: Final = "settled_before"
PLAN_RESUMED_BEFORE: Final = "resumed_before"
PLAN_HELD_BEFORE: Final = "held_before"

# --- what became of a request to a live broker (table broker_request); sending alone: it may have arrived
REQUEST_SENDING: Final = "sending"
REQUEST_ACCEPTED: Final = "accepted"
REQUEST_REFUSED: Final = "refused"
REQUEST_UNANSWERED: Final = "unanswered"
REQUEST_NOT_SENT: Final = "not_sent"

# --- what became of an END_TRANSACTION (table end_outcome)
OUTCOME_ACCEPTED: Final = "accepted"
OUTCOME_REPEATED: Final = "repeated"
OUTCOME_CONTRADICTING: Final = "contradicting"
OUTCOME_REFUSED: Final = "refused"
OUTCOME_HELD: Final = "held"

# --- verdicts, in the order in which they are told; rules/verdict.py has the order in which they are judged
DUPLICATED: Final = "DUPLICATED"
CONFLICT: Final = "CONFLICT"
COMMITTED_AND_DISCARDED: Final = "COMMITTED_AND_DISCARDED"
COMMITTED_OP_LOST: Final = "COMMITTED_OP_LOST"
COMMITTED: Final = "COMMITTED"
ROLLED_BACK: Final = "ROLLED_BACK"
RESOLVED_UNKNOWN: Final = "RESOLVED_UNKNOWN"
DISCARDED: Final = "DISCARDED"
DISCARDED_UNSEEN: Final = "DISCARDED_UNSEEN"
DIVERTED: Final = "DIVERTED"
EXPIRED_UNSEEN: Final = "EXPIRED_UNSEEN"
PENDING: Final = "PENDING"
VERDICTS: Final = (
    DUPLICATED,
    CONFLICT,
    COMMITTED_AND_DISCARDED,
    COMMITTED_OP_LOST,
    COMMITTED,
    ROLLED_BACK,
    RESOLVED_UNKNOWN,
    DISCARDED,
    DISCARDED_UNSEEN,
    DIVERTED,
    EXPIRED_UNSEEN,
    PENDING,
)
ENDED_TWICE: Final = (DUPLICATED, CONFLICT)  # a second end was accepted
GIVEN_UP_IN_A_ROW: Final = (DISCARDED,)  # a row of trans_check_max_time tells that its checks are over
GIVEN_UP_UNSEEN: Final = (DISCARDED_UNSEEN,)  # the last audit alone tells it
GIVEN_UP_VERDICTS: Final = (*GIVEN_UP_IN_A_ROW, *GIVEN_UP_UNSEEN)
WITHOUT_TRACE: Final = (*GIVEN_UP_UNSEEN, EXPIRED_UNSEEN)  # nobody asks about it any more: the last audit alone tells
# Nobody has decided it, or nobody saw it decided.
NOT_ASKED_ABOUT: Final = (*GIVEN_UP_IN_A_ROW, *WITHOUT_TRACE)
STILL_ASKED: Final = (PENDING,)  # nobody decided it, and its group is asked, or would be
UNDECIDED: Final = (*STILL_ASKED, *NOT_ASKED_ABOUT)

# --- why a verdict is what it is (column reason of verdict)
# RESOLVED_UNKNOWN: what is missing; the first that fits.
REASON_ELSEWHERE: Final = "elsewhere"
REASON_NO_REAL_TOPIC: Final = "no_real_topic"
REASON_LEFT_OUT: Final = "left_out"
REASON_QUARANTINED: Final = "quarantined"
REASON_UNTOLD: Final = "untold"
REASON_LOST: Final = "lost"
REASON_GAP: Final = "gap"
REASON_UNREAD: Final = "unread"
UNKNOWN_REASONS: Final = (
    REASON_ELSEWHERE,
    REASON_NO_REAL_TOPIC,
    REASON_LEFT_OUT,
    REASON_QUARANTINED,
    REASON_UNTOLD,
    REASON_LOST,
    REASON_GAP,
    REASON_UNREAD,
)
# ROLLED_BACK: by what it is proved; the first that fits.
REASON_READ_PAST_OP: Final = "read_past_op"
REASON_LOG_READ: Final = "log_read"
REASON_LIVE_READ: Final = "live_read"
REASON_FROM_BEGINNING: Final = "from_beginning"
REASON_FILE_END: Final = "file_end"
REASON_DECIDED: Final = "decided"
ROLLBACK_REASONS: Final = (
    REASON_READ_PAST_OP,
    REASON_LOG_READ,
    REASON_LIVE_READ,
    REASON_FROM_BEGINNING,
    REASON_FILE_END,
    REASON_DECIDED,
)
REASON_NO_OP: Final = "no_op"
REASON_OP_UNREAD: Final = "op_unread"
REASON_RESERVED_TIME: Final = "reserved_time"
REASON_UNDECIDED: Final = "undecided"
REASON_GIVEN_UP: Final = "given_up"
REASON_CHECKS_OVER: Final = "checks_over"
REASON_VISIBLE: Final = "visible"
REASON_VISIBLE_TWICE: Final = "visible_twice"
REASON_TWO_OPS: Final = "two_ops"
REASON_CONTRADICTING_ENDS: Final = "contradicting_ends"
REASON_DIVERTED: Final = "diverted"
REASONS: Final = {
    DUPLICATED: (REASON_VISIBLE_TWICE,),
    CONFLICT: (REASON_TWO_OPS, REASON_CONTRADICTING_ENDS),
    COMMITTED_AND_DISCARDED: (REASON_GIVEN_UP,),
    COMMITTED_OP_LOST: (REASON_NO_OP, REASON_OP_UNREAD),
    COMMITTED: (REASON_VISIBLE,),
    ROLLED_BACK: ROLLBACK_REASONS,
    RESOLVED_UNKNOWN: UNKNOWN_REASONS,
    DISCARDED: (REASON_GIVEN_UP, REASON_OP_UNREAD),
    DISCARDED_UNSEEN: (REASON_CHECKS_OVER, REASON_OP_UNREAD),
    DIVERTED: (REASON_DIVERTED,),
    EXPIRED_UNSEEN: (REASON_RESERVED_TIME, REASON_OP_UNREAD),
    PENDING: (REASON_UNDECIDED, REASON_OP_UNREAD),
}

# --- a committed message without a half (table orphan, column state)
ORPHAN: Final = "orphan"
ORPHAN_BEFORE_FIRST: Final = "before_first"
ORPHAN_HALF_LANDED: Final = "half_landed"

# --- what became of a run (table run, column outcome)
RUN_DONE: Final = "done"
RUN_FINDINGS: Final = "findings"
RUN_FAILED: Final = "failed"
RUN_ENDED: Final = "ended"
RUN_KILLED: Final = "killed"
RUN_OUTCOMES: Final = (RUN_DONE, RUN_FINDINGS, RUN_FAILED, RUN_ENDED, RUN_KILLED)

# --- where a consumer group's next offset lies in its queue
OFFSET_OK: Final = "ok"
OFFSET_BEYOND_END: Final = "beyond_end"
OFFSET_BELOW_OLDEST: Final = "below_oldest"
OFFSET_UNKNOWN: Final = "unknown"

# --- what a consumer group does with a queue, judged over a window
LAG_FINE: Final = "fine"
LAG_FALLING_BEHIND: Final = "falling_behind"
LAG_STALLED: Final = "stalled"
LAG_STOPPED: Final = "stopped"
LAG_REWOUND: Final = "rewound"
LAG_AHEAD: Final = "ahead_of_queue"
LAG_BELOW_OLDEST: Final = "below_oldest"
LAG_NEVER_COMMITTED: Final = "never_committed"
LAG_POP: Final = "pop"
LAG_UNKNOWN: Final = "unknown"
LAG_STATES: Final = (
    LAG_FINE,
    LAG_FALLING_BEHIND,
    LAG_STALLED,
    LAG_STOPPED,
    LAG_REWOUND,
    LAG_AHEAD,
    LAG_BELOW_OLDEST,
    LAG_NEVER_COMMITTED,
    LAG_POP,
    LAG_UNKNOWN,
)
# A POP group has a retry topic of its own for each topic: both names, with one of these between them.
RETRY_PREFIX: Final = "%RETRY%"
POP_RETRY_SEPARATORS: Final = ("_", "+")
# How a broker names a broadcast group whose offsets it keeps (its table's key is topic@group@broadcast).
BROADCAST_SUFFIX: Final = "@broadcast"

# --- why a message was given up (table trans_check_max_time)
GIVEN_UP_CHECK_MAX: Final = "check_max"
GIVEN_UP_EXPIRED: Final = "expired"

# --- jobs that are no part of a cycle (column job of pass)
JOB_MAINTAIN: Final = "maintain"
JOB_TAKE_BACK: Final = "take-back"
JOB_TO_BROKER: Final = "to_broker"

# --- an end in end_transaction and its outcome in end_outcome
END_KEY: Final = ("broker_name", "origin", "landed_pass", "landing_order")

OFFSET_KEY: Final = ("broker_name", "consumer_group", "topic", "queue_id")
EVENT_ORDER: Final = ("ts", "landed_pass", "landing_order")  # of what consumers report, as it happened
# --- why a stored record could not be used (column reason of the store reader, quarantine)
# No queue and no log gets there; the offset after it must still be a number.
HIGHEST_OFFSET: Final = 2**62
OFFSET_OUT_OF_RANGE: Final = "OFFSET_OUT_OF_RANGE"
RECORD_TORN: Final = "RECORD_TORN"
RECORD_MALFORMED: Final = "RECORD_MALFORMED"
BODY_CRC: Final = "BODY_CRC"
BODY_UNREADABLE: Final = "BODY_UNREADABLE"
# What another copy of the store may have whole.
DAMAGES: Final = (RECORD_TORN, RECORD_MALFORMED, BODY_CRC, BODY_UNREADABLE)
BODY_TOO_LARGE: Final = "BODY_TOO_LARGE"
TIMESTAMP_OUT_OF_RANGE: Final = "TIMESTAMP_OUT_OF_RANGE"
# Other content landed before under its key.
KEY_CONFLICT: Final = "KEY_CONFLICT"
# Or txmq had written a row there: so its detail begins.
MET_TXMQ: Final = "txmq wrote a row"
# Of an op: what names no half, and what names one that cannot be read.
OP_BODY_EMPTY: Final = "OP_BODY_EMPTY"
OP_BODY_TOO_LARGE: Final = "OP_BODY_TOO_LARGE"
OP_HALF_PLACE: Final = "OP_HALF_PLACE"
OP_TOKEN: Final = "OP_TOKEN"
OPS_CLOSING_NOTHING: Final = ("OP_TAG", OP_BODY_EMPTY)
OPS_READ_IN_PART: Final = (OP_BODY_TOO_LARGE, OP_HALF_PLACE, OP_TOKEN)

# --- why a line, or all the rest of a file, could not be used
BROKEN_JSON: Final = "BROKEN_JSON"
LINE_TOO_LONG: Final = "LINE_TOO_LONG"
FILE_BROKEN: Final = "FILE_BROKEN"
FILE_UNREADABLE: Final = "FILE_UNREADABLE"

# --- why a stored consumer offset could not be used
OFFSET_FILE_UNREADABLE: Final = "OFFSET_FILE_UNREADABLE"
OFFSET_ENTRY_MALFORMED: Final = "OFFSET_ENTRY_MALFORMED"
OFFSET_NOT_INTEGER: Final = "OFFSET_NOT_INTEGER"
OFFSET_NEGATIVE: Final = "OFFSET_NEGATIVE"

TRANSACTION_KEY: Final = ("broker_name", "transaction_id", "producer_group", "born_timestamp")
