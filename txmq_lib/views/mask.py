"""What of a message is not shown: bodies, and properties by their names. What a row is known by always is."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase

from txmq_lib import names
from txmq_lib.schemas import Field
from txmq_lib.views.reader import sql_literal

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
        if column.name == "properties":
            return self._properties(expression) if self.properties else shown
        is_masked = (
            (column.type == "binary" and self.bodies)
            or (column.name == RAW and (self.bodies or bool(self.properties)))
            or (column.name in COLUMNS and self._hides(COLUMNS[column.name]))
        )
        return f"CASE WHEN {expression} IS NOT NULL THEN '{MASKED}' END" if is_masked else shown

    def _hides(self, name: str) -> bool:
        return any(fnmatchcase(name, pattern) for pattern in self.properties)

    def _properties(self, expression: str) -> str:
        is_hidden = " OR ".join(f"item.key GLOB {sql_literal(pattern)}" for pattern in self.properties)
        value = f"CASE WHEN {is_hidden} THEN '{MASKED}' ELSE item.value END"
        entry = f"lambda item: struct_pack(key := item.key, value := {value})"
        return f"map_from_entries(list_transform(map_entries({expression}), {entry}))"


NOTHING_MASKED = Mask()
