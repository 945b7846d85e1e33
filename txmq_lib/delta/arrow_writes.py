"""Commits of files that tasks, or this process, have written from Arrow (arrow_files.py): one per step and table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from deltalake import CommitProperties, DeltaTable, Transaction
from deltalake.transaction import AddAction

from txmq_lib.delta.arrow_files import WrittenFile
from txmq_lib.delta.small_writes import HOOKS


@dataclass(frozen=True)
class ArrowWrite:
    """What the commit of one write carries: whose step it is, the number of its pass, and its tag."""

    app_id: str
    number: int
    tag: str

    def append(self, path: str, files: Sequence[WrittenFile]) -> None:
        """Append the rows of `files`, once: none of them is named where the step has landed already.

        CommitFailedError where somebody else wrote the same step meanwhile.
        """
        table = DeltaTable(path)
        if (table.transaction_version(self.app_id) or 0) >= self.number:
            return
        table.create_write_transaction(
            [_add(file) for file in files],
            "append",
            table.schema(),
            commit_properties=self._properties(),
            post_commithook_properties=HOOKS,
        )

    def _properties(self) -> CommitProperties:
        return CommitProperties(
            custom_metadata={"userMetadata": self.tag},
            app_transactions=[Transaction(app_id=self.app_id, version=self.number)],
        )


def _add(file: WrittenFile) -> AddAction:
    return AddAction(
        path=file.path,
        size=file.size,
        partition_values=dict(file.partition),
        modification_time=file.modified_ms,
        data_change=True,
        stats=file.stats,
    )
