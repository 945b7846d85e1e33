"""What of a message is not shown: bodies, and properties by their names. What a row is known by always is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase

from txmq_lib import names
from txmq_lib.config.table_specs import Field

MASKED = "***"
# Properties that have a column of their own.
COLUMNS = {"keys": names.PROPERTY_KEYS, "tags": names.PROPERTY_TAGS}
# A record as it came, with all that was in it.
RAW = "raw"


@dataclass(frozen=True)
class Mask:
    """Whether bodies are masked, and which properties, as shell patterns of their names."""

    bodies: bool = False
    properties: tuple[str, ...] = ()

    def over(self, column: Field, expression: str, shown: str) -> str:
        """SQL for what is shown of a column instead of `shown`; `expression` is the column as it is stored."""
        is_masked = (
            (column.type == "binary" and self.bodies)
            or (column.name == RAW and (self.bodies or bool(self.properties)))
            or (column.name in COLUMNS and self._hides(COLUMNS[column.name]))
        )
        return f"CASE WHEN {expression} IS NOT NULL THEN '{MASKED}' END" if is_masked else shown

    def over_properties(self, properties: Mapping[str, str] | None) -> dict[str, str] | None:
        """What is shown of properties. Not told in SQL: no pattern of DuckDB's reads as those of a shell do."""
        if properties is None:
            return None
        return {name: MASKED if self._hides(name) else value for name, value in properties.items()}

    def _hides(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self.properties)


NOTHING_MASKED = Mask()
