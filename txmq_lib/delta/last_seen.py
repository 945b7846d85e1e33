"""What the newest committed pass saw of all tables, as the note of its commit tells: where a first look may begin."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from txmq_lib.config.table_specs import table_specs
from txmq_lib.delta.log_view import COMMITS_LOOKED_BACK, DeltaLogView

VERSIONS, COLUMNS = "input_versions", "columns"


@dataclass(frozen=True)
class LastSeen:
    """The version that each table had reached, and whether all had the columns of `schemas/` by then."""

    versions: Mapping[str, int] = field(default_factory=dict)
    has_columns: bool = False


@cache
def columns_digest() -> str:
    """Stands for the columns of all tables."""
    columns = {name: spec.to_json() for name, spec in sorted(table_specs().items())}
    return hashlib.sha256(json.dumps(columns, sort_keys=True).encode()).hexdigest()[:16]


def last_seen(passes: DeltaLogView) -> LastSeen:
    """What the newest note in the log of `pass` tells; a warehouse without one is young, so every look is short."""
    for version in range(passes.version, max(-1, passes.version - COMMITS_LOOKED_BACK), -1):
        note = _note(passes.tag(version))
        if COLUMNS in note:
            return LastSeen(note[VERSIONS], note[COLUMNS] == columns_digest())
    return LastSeen(dict.fromkeys(table_specs(), 0)) if passes.version < COMMITS_LOOKED_BACK else LastSeen()


def _note(tag: str) -> dict[str, Any]:
    try:
        found = json.loads(tag.partition("\n")[2] or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
