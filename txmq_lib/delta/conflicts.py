"""What Delta raises when somebody else wrote first, and Spark when somebody cancelled a job."""

from __future__ import annotations

from delta.exceptions import (
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    DeltaConcurrentModificationException,
    MetadataChangedException,
)
from deltalake.exceptions import CommitFailedError

WRITE_ATTEMPTS = 5
CONFLICTS = (  # in Python they have no common base
    ConcurrentAppendException,
    ConcurrentDeleteDeleteException,
    ConcurrentDeleteReadException,
    ConcurrentTransactionException,
    ConcurrentWriteException,
    DeltaConcurrentModificationException,
    MetadataChangedException,
    CommitFailedError,
)


def is_cancelled(error: Exception) -> bool:
    """Whether Spark raised this because its job was cancelled."""
    return "SPARK_JOB_CANCELLED" in str(error)
