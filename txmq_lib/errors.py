"""The error tree: what went wrong, where, what to do, and the exit status it means. Imports nothing of txmq."""

from __future__ import annotations

import re
from collections.abc import Sequence

EXIT_DONE = 0
EXIT_FINDINGS = 1
EXIT_USAGE = 2
EXIT_FAILED = 3
EXIT_RETRY_LATER = 4


class TxmqError(Exception):
    """Base of every error txmq raises on purpose; `code` is stable, the sentence is not."""

    code = "FAILED"
    exit_status = EXIT_FAILED

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class SettingsError(TxmqError):
    """Settings that cannot be used; `faults` holds every one of them, not the first."""

    code = "SETTINGS_INVALID"
    exit_status = EXIT_USAGE

    def __init__(self, faults: Sequence[str]) -> None:
        self.faults = tuple(faults)
        listed = "\n".join(f"  - {fault}" for fault in self.faults)
        super().__init__(f"{len(self.faults)} fault(s) in the settings:\n{listed}")


class UsageError(TxmqError):
    """A command asked for something that cannot be done as asked."""

    code = "USAGE"
    exit_status = EXIT_USAGE


class RoleChanged(TxmqError):
    """The settings give a broker another role than the one its rows were made under; nothing was written."""

    code = "ROLE_CHANGED"
    exit_status = EXIT_USAGE


class NothingToLandError(UsageError):
    """No file where files to land were named."""

    code = "NOTHING_TO_LAND"


class SchemaError(TxmqError):
    """A frame or a stored table does not have the columns its YAML in `schemas/` declares."""

    code = "SCHEMA_MISMATCH"


class InputError(TxmqError):
    """An input (a file, a store directory) that cannot be read at all; single bad records never raise."""

    code = "INPUT_UNREADABLE"


class WarehouseUnreached(InputError):
    """The place of the warehouse, an object store, does not answer or does not take the credentials."""

    code = "WAREHOUSE_UNREACHED"


class WarehouseUnsafe(TxmqError):
    """The store of the warehouse lets one of two writers take the place of the other; nothing is written there."""

    code = "WAREHOUSE_UNSAFE"


class StoreRefusedError(InputError):
    """A store whose broker is set up in a way that txmq cannot read from disk; nothing of it has landed."""

    code = "STORE_REFUSED"


class RemotingError(TxmqError):
    """A name server or broker could not be asked, or did not do what it was asked."""

    code = "REMOTING"


class UnreachableError(RemotingError):
    """No connection, no answer in time, or the connection was closed."""

    code = "BROKER_UNREACHABLE"


class ProtocolError(RemotingError):
    """What came is no remoting frame, or not the answer that was due."""

    code = "REMOTING_PROTOCOL"


class RefusedError(RemotingError):
    """The answer is a refusal; `response_code` is RocketMQ's, `remark` its words."""

    code = "BROKER_REFUSED"

    def __init__(self, message: str, *, response_code: int, remark: str) -> None:
        super().__init__(message)
        self.response_code, self.remark = response_code, remark


class TableMissingError(TxmqError):
    """A table of the warehouse does not exist yet."""

    code = "TABLE_MISSING"
    exit_status = EXIT_USAGE


class InvariantViolation(TxmqError):
    """Rows that must never be; the pass does not commit."""

    code = "INVARIANT_VIOLATED"


class PassConflict(TxmqError):
    """Another process holds the plan of this job; the only error worth trying again as it is."""

    code = "PASS_CONFLICT"
    exit_status = EXIT_RETRY_LATER


class LeftOff(TxmqError):
    """A pass was left in the middle because the service stops; the next start carries it on."""

    code = "LEFT_OFF"


class PassReplayed(TxmqError):
    """A table knows this pass number from another plan: the warehouse is not of one moment."""

    code = "PASS_REPLAYED"


class PlanInputsGone(TxmqError):
    """An unfinished pass cannot be computed again: what its plan reads is no longer there."""

    code = "PLAN_INPUTS_GONE"


class WarehouseDamaged(TxmqError):
    """Commits that committed passes rely on are empty or torn: the disk lost what it had been given to keep."""

    code = "WAREHOUSE_DAMAGED"


class AlertUnsentError(TxmqError):
    """A webhook did not take an alert; the next time tries again."""

    code = "ALERT_UNSENT"


class EnvironmentFault(TxmqError):
    """The machine lacks something txmq needs (Java, a jar, a permission)."""

    code = "ENVIRONMENT"


# What Hadoop's connector for S3, and deltalake, say below whatever was asked for.
_SILENT_STORE = re.compile(r"Unable to execute HTTP request: ([^\n]*)|error sending request")
_TRACEBACK = "Traceback (most recent call last):"


def code_and_words(error: BaseException) -> tuple[str, str]:
    """What people are told of an error: its code, and one line (all of it where txmq raised it on purpose)."""
    if isinstance(error, TxmqError):
        return error.code, error.message
    if silent := _SILENT_STORE.search(str(error)):
        why = f" ({silent[1].strip()})" if silent[1] else ""
        return (
            WarehouseUnreached.code,
            f"the object store cannot be reached{why}: look at the network and its server; the same"
            " command carries an unfinished pass on",
        )
    lines = str(error).strip().splitlines() or [""]
    words = lines[0].removesuffix(_TRACEBACK)
    if words != lines[0]:
        # Of a Python worker, in words of Spark: the error stands behind its frames, which are indented.
        words += next((line for line in lines[1:] if line and not line[0].isspace()), "")
    return "UNEXPECTED", f"{type(error).__name__}: {words}"
