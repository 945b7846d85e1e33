"""What a read view is: a table, what may be asked of it, and how its rows are put together. Reads nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from txmq_lib.config.table_specs import Field, table_spec


@dataclass(frozen=True)
class Part:
    """Rows that a relation takes beside `base`: a table, its columns (none: those of `base`, under the same filters),
    and the files that may hold them; `like` narrows these to the values that a column has in another part. Where it
    `may_be_missing`, an older warehouse may lack its table."""

    table: str
    columns: tuple[str, ...] = ()
    files: str | None = None
    like: tuple[str, str] | None = None
    may_be_missing: bool = False


@dataclass(frozen=True)
class View:
    """One read view.

    `doc`      what its rows are, for the help
    `narrow`   columns of the table format, the most telling first
    `order`    columns with their direction; the table's key makes it total
    `time`     what --since and --older-than look at
    `filters`  option to columns it is compared with, the first that is not null
    `keys`     column --key looks at: KEYS of the message, or the transaction ids of the messages that have the key
    `states`   values that `--state` may take
    `reasons`  values that `--reason` is known to have; a row may hold one of an older version
    `relation` what rows are taken from, over `base` (the table, for which it needs the columns `needs`) and `joined`;
               a row of `base` stays or goes by itself, so filters narrow what is read of it, unless `is_whole`
    `files`    the files that may hold `base`
    `has_queues` whether rows lie in queues, and can be read from an offset on as a consumer reads them
    `elsewhere` where else to look, told where there are no rows
    `is_lag_judged` whether rows come from views/lag.py, judged over a window, and not from `relation` and `joined`
    """

    command: str
    doc: str
    table: str
    narrow: tuple[str, ...]
    order: tuple[str, ...]
    time: str
    filters: Mapping[str, tuple[str, ...]]
    keys: str | None = None
    states: tuple[str, ...] = ()
    reasons: tuple[str, ...] = ()
    relation: str = "base"
    needs: tuple[str, ...] = ()
    joined: Mapping[str, Part] = field(default_factory=dict)
    files: str | None = None
    extra: tuple[Field, ...] = ()
    is_lag_judged: bool = False
    is_whole: bool = False
    has_queues: bool = False
    elsewhere: str = ""

    @property
    def fields(self) -> dict[str, Field]:
        """Every column it can show, by name, in the order of the table."""
        return {column.name: column for column in (*table_spec(self.table).fields, *self.extra)}

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of every column it can show."""
        return tuple(self.fields)

    @property
    def bodies(self) -> tuple[str, ...]:
        """Columns of bytes: large, and shown on request."""
        return tuple(name for name, column in self.fields.items() if column.type == "binary")
