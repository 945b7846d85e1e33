"""What Delta raises when somebody else wrote first, and what is raised when somebody asks for an end."""

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

from txmq_lib.errors import LeftOff

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


def is_left_off(error: Exception) -> bool:
    """Whether somebody asked for an end: Spark's job was cancelled, or work was left off between two steps."""
    return isinstance(error, LeftOff) or "SPARK_JOB_CANCELLED" in str(error)
