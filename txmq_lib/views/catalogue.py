"""Every read view, in the order in which help lists them."""

from __future__ import annotations

from txmq_lib.views.declared.consumer_offsets import OFFSETS
from txmq_lib.views.declared.questions import ANSWERS, CHECKS, DECISIONS, SENT
from txmq_lib.views.declared.running import BROKERS, LANDED, PASSES, QUARANTINE, RUNS
from txmq_lib.views.declared.transactions import END_TRACES, ENDS, GIVEN_UP, MESSAGES, PENDING
from txmq_lib.views.declared.verdicts import ORPHANS, VERDICTS

VIEWS = (
    PENDING, CHECKS, ANSWERS, GIVEN_UP, DECISIONS, SENT, MESSAGES, ENDS, END_TRACES, OFFSETS, VERDICTS, ORPHANS,
    BROKERS, RUNS, PASSES, LANDED, QUARANTINE,
)  # fmt: skip
