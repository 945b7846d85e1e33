"""Settings: YAML layers into one frozen object, every fault of every layer reported at once. No session, no clock."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PrivateAttr,
    StringConstraints,
    ValidationError,
)

from txmq_lib.durations import duration_text, milliseconds
from txmq_lib.errors import SettingsError
from txmq_lib.layers import Layer, Tree, leaves, merge, origins, read_assignment, read_file
from txmq_lib.resources import conf_dir
from txmq_lib.secrets import has_password

# Where the tables lie and how Spark runs change no result; Spark's keys may be secrets, so no table records them.
_NOT_RECORDED = frozenset({"warehouse", "spark", "sources"})
_LONGEST_SHOWN = 200  # characters of a wrong value that its fault repeats


def _spark_key(key: str) -> str:
    if not key.startswith("spark."):
        raise ValueError("is no Spark setting: their names begin with `spark.`")
    return key


def _spark_value(value: object) -> str:
    if not isinstance(value, str | int | float):
        raise ValueError("must be a text, a number or true/false")  # and may be a secret
    return str(value).lower() if isinstance(value, bool) else str(value)


def _location(value: str) -> str:
    if has_password(value):
        raise ValueError("must not carry a password: give credentials as the environment or Spark's settings have them")
    return value


def _section(value: object) -> object:
    return {} if value is None else value


Name = Annotated[str, StringConstraints(min_length=1)]
Location = Annotated[Name, AfterValidator(_location)]
Names = Annotated[tuple[Name, ...], Field(strict=False)]
Seconds = Annotated[
    int, BeforeValidator(partial(milliseconds, unit="s")), PlainSerializer(duration_text, when_used="json")
]
Hours = Annotated[
    int, BeforeValidator(partial(milliseconds, unit="h")), PlainSerializer(duration_text, when_used="json")
]
Role = Literal["engine", "audit"]
Count = Annotated[int, Field(ge=0)]


class _Section(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)


class Broker(_Section):
    """What one broker has of its own; None: as for all."""

    role: Role | None = None
    transaction_timeout_ms: Seconds | None = Field(default=None, alias="transaction_timeout")
    transaction_check_interval_ms: Seconds | None = Field(default=None, alias="transaction_check_interval")
    transaction_check_max: Count | None = None
    file_reserved_time_ms: Hours | None = Field(default=None, alias="file_reserved_time")


class Land(_Section):
    """What landing takes from a store beyond the topics of transactions."""

    topics: Names


class Source(_Section):
    """One input of `txmq run`."""

    kind: Literal["half", "op", "message", "max-time", "end", "offset", "ack", "store"]
    paths: Annotated[tuple[Location, ...], Field(strict=False, min_length=1)]
    broker: Name


class Thresholds(_Section):
    """Counts past which a command ends with status 1; None: never."""

    quarantined: Count | None


@dataclass(frozen=True)
class BrokerPolicy:
    """The limits that hold for one broker; spans in milliseconds."""

    role: Role
    transaction_timeout_ms: int
    transaction_check_interval_ms: int
    transaction_check_max: int
    file_reserved_time_ms: int


class Settings(_Section):
    """Everything that can be set, as `conf/base.yaml` explains it; spans in milliseconds."""

    role: Role
    transaction_timeout_ms: Seconds = Field(alias="transaction_timeout")
    transaction_check_interval_ms: Seconds = Field(alias="transaction_check_interval")
    transaction_check_max: Count
    file_reserved_time_ms: Hours = Field(alias="file_reserved_time")
    roll_back_given_up: bool
    persist_consumer_offset_interval_ms: Seconds = Field(alias="persist_consumer_offset_interval")
    brokers: dict[Name, Annotated[Broker, BeforeValidator(_section)]]
    warehouse: Location
    land: Land
    sources: Annotated[tuple[Source, ...], Field(strict=False)]
    thresholds: Thresholds
    spark: dict[Annotated[str, AfterValidator(_spark_key)], Annotated[str, BeforeValidator(_spark_value)]]

    _origins: dict[tuple[str, ...], str] = PrivateAttr(default_factory=dict)

    @classmethod
    def load(
        cls, conf_files: Sequence[str | Path] = (), assignments: Sequence[str] = (), warehouse: str | None = None
    ) -> Self:
        """base.yaml, `conf_files`, `key=value` assignments, warehouse, in this order; SettingsError with all faults."""
        layers = [
            _base_layer(),
            *(read_file(Path(file), str(file)) for file in conf_files),
            *(read_assignment(assignment) for assignment in assignments),
        ]
        if warehouse is not None:
            layers.append(Layer("--warehouse", {"warehouse": warehouse}))
        return cls._of_layers(layers)

    @classmethod
    def from_json(cls, text: str, *, running: Self | None = None) -> Self:
        """Recorded settings again; what is not recorded (see `to_json`) from `running`, else from base.yaml."""
        base = _base_layer()
        local = Layer("running", running._tree(_NOT_RECORDED)) if running else Layer("running", {})
        return cls._of_layers([base, local, Layer("recorded settings", json.loads(text))])

    @classmethod
    def _of_layers(cls, layers: Sequence[Layer]) -> Self:
        base = layers[0].values
        # Each layer is judged alone over base.yaml, so that a fault hidden by a later layer is still told.
        faults = [fault for layer in layers for fault in (*layer.faults, *_faults(cls, base, layer))]
        if faults:
            raise SettingsError(list(dict.fromkeys(faults)))
        merged: Tree = {}
        for layer in layers:
            merged = merge(merged, layer.values)
        settings = cls.model_validate(merged)
        settings._origins.update(origins(layers))
        return settings

    def for_broker(self, broker_name: str) -> BrokerPolicy:
        """The limits for one broker: its own where it has them, else those for all."""
        own = self.brokers.get(broker_name, Broker()).model_dump(exclude_none=True)
        return BrokerPolicy(**{limit.name: own.get(limit.name, getattr(self, limit.name)) for limit in _LIMITS})

    def to_json(self) -> str:
        """Everything that decides results, one canonical line; no locations, sources or Spark keys (may be secrets)."""
        recorded = self._tree(set(type(self).model_fields) - _NOT_RECORDED)
        return json.dumps(recorded, sort_keys=True, separators=(",", ":"), ensure_ascii=False)

    def fingerprint(self) -> str:
        """Twelve hex digits that are equal where `to_json` is equal, however the values were written."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()[:12]

    def rows(self) -> list[tuple[str, Any, str]]:
        """Every value as (dotted key, value as YAML has it, the layer that set it), in the order of base.yaml."""
        return [(".".join(path), value, self._origins.get(path, "")) for path, value in leaves(self._tree())]

    def origin(self, key: str) -> str:
        """The layer that set the value of a dotted `key`: base.yaml, a file as given, --set or --warehouse."""
        return next((layer for dotted, _, layer in self.rows() if dotted == key), "")

    def _tree(self, keys: Iterable[str] | None = None) -> Tree:
        include = None if keys is None else set(keys)
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True, include=include)


_PROBLEMS = {
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "tuple_type": "must be a list",
    "string_type": "must be a text",
    "invalid_key": "must be a text",
    "int_type": "must be a whole number",
    "bool_type": "must be true or false",
    "too_short": "must not be empty",
    "string_too_short": "must not be empty",
}
_LIMITS = fields(BrokerPolicy)
_SECTIONS: dict[str, type[_Section]] = {"brokers": Broker, "land": Land, "sources": Source, "thresholds": Thresholds}


def _base_layer() -> Layer:
    return read_file(conf_dir() / "base.yaml", "base.yaml")


def _faults(model: type[Settings], base: Tree, layer: Layer) -> list[str]:
    try:
        model.model_validate(merge(base, layer.values))
    except ValidationError as error:
        return [f"{layer.name}: {_fault(details)}" for details in error.errors(include_url=False)]
    return []


def _fault(details: Mapping[str, Any]) -> str:
    path = [part for part in details["loc"] if part != "[key]"]
    key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
    if details["type"] == "extra_forbidden":
        return f"{key}: unknown key{_did_you_mean(path)}"
    if "error" in details.get("ctx", {}):
        return f"{key}: {details['ctx']['error']}"
    problem = _PROBLEMS.get(details["type"], details["msg"]).replace("Input should be", "must be", 1)
    return f"{key}: {problem[0].lower()}{problem[1:]}{_instead(path, details['input'])}"


def _instead(path: Sequence[str | int], value: object) -> str:
    """What was given, where that may be shown and can be."""
    if path[:1] == ["spark"]:
        return ""
    try:
        shown = repr(value)
    except ValueError:  # Python writes no whole number of thousands of digits
        return ""
    if has_password(shown):
        return ""
    return f", not {shown if len(shown) <= _LONGEST_SHOWN else shown[:_LONGEST_SHOWN] + '...'}"


def _did_you_mean(path: Sequence[str | int]) -> str:
    model: type[_Section] = Settings if len(path) == 1 else _SECTIONS[str(path[0])]
    known = {(field.alias or name).replace("_", ""): field.alias or name for name, field in model.model_fields.items()}
    squeezed = str(path[-1]).replace("_", "").replace("-", "").lower()  # RocketMQ's transactionTimeOut is a near miss
    close = difflib.get_close_matches(squeezed, known, n=1)
    return f"; did you mean {known[close[0]]}?" if close else ""
