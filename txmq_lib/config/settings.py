"""Settings: YAML layers into one frozen object, every fault of every layer reported at once. No session, no clock."""

from __future__ import annotations

import difflib
import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, PrivateAttr, ValidationError, model_validator

from txmq_lib.config.resolver_settings import RESOLVER_KINDS, HttpResolver, Resolve, ResolverSettings, SqlResolver
from txmq_lib.config.resources import conf_dir
from txmq_lib.config.secrets import HIDDEN, has_secret, is_secret
from txmq_lib.config.setting_types import (
    RECORDED,
    Count,
    EnvironmentName,
    Hours,
    Location,
    Name,
    Names,
    Seconds,
    SecondsOrAuto,
    Section,
)
from txmq_lib.config.yaml_layers import Layer, Tree, leaves, merge, origins, read_assignment, read_file
from txmq_lib.errors import SettingsError
from txmq_lib.names import CHECK_GROUP, ROLE_ENGINE
from txmq_lib.rocketmq.host_port import host_and_port

# Change no result: where the tables and brokers are, how Spark runs, upkeep, what is thought too much, what is shown or
# told, who may read it. Spark's keys may be secrets. What a pass reads of a broker is in its plan.
_NOT_RECORDED = frozenset(
    {
        "warehouse",
        "spark",
        "sources",
        "thresholds",
        "maintain",
        "lag_window_ms",
        "mask",
        "alerts",
        "rocketmq",
        "readable_by",
    }
)
_ANOTHER_PATH = re.compile(r"\\|%[0-9A-Fa-f]{2}")  # to deltalake, which reads tables for the views
_LONGEST_SHOWN = 200  # characters of a wrong value that its fault repeats


def _spark_key(key: str) -> str:
    if not key.startswith("spark."):
        raise ValueError("is no Spark setting: their names begin with `spark.`")
    return key


def _spark_value(value: object) -> str:
    if not isinstance(value, str | int | float):
        raise ValueError("must be a text, a number or true/false")  # and may be a secret
    return str(value).lower() if isinstance(value, bool) else str(value)


def _readable_location(value: str) -> str:
    is_elsewhere = "://" in value and not value.startswith("file:")
    if not is_elsewhere and _ANOTHER_PATH.search(value):
        raise ValueError("must not have a backslash or a % before two of 0-9 and a-f: views would look elsewhere")
    return value


def _reading_group(value: str) -> str:
    if value == CHECK_GROUP:
        raise ValueError(f"must not be {CHECK_GROUP}: its offsets are the broker's own check cursors")
    return value


def _address(value: str) -> str:
    host_and_port(value)
    return value


def _section(value: object) -> object:
    return {} if value is None else value


def _end_on_broker(value: object) -> object:
    if value == "apply":
        raise ValueError(
            "apply is not possible: no pass sends by itself; take plan, and txmq resolve --to-broker --apply"
        )
    return "off" if value is False else value  # what YAML makes of a bare off


TablesLocation = Annotated[Location, AfterValidator(_readable_location)]
Address = Annotated[Name, AfterValidator(_address)]
Role = Literal["engine", "audit"]
EndOnBroker = Annotated[Literal["off", "plan"], BeforeValidator(_end_on_broker)]


class Broker(Section):
    """What one broker has of its own; None: as for all."""

    role: Role | None = None
    transaction_timeout_ms: Seconds | None = Field(default=None, alias="transaction_timeout")
    transaction_check_interval_ms: Seconds | None = Field(default=None, alias="transaction_check_interval")
    transaction_check_max: Count | None = None
    file_reserved_time_ms: Hours | None = Field(default=None, alias="file_reserved_time")


class CheckBackoff(Section):
    """How the time between the checks of a producer group grows."""

    factor: Annotated[float, Field(ge=1, le=100)]
    longest_ms: Seconds = Field(alias="longest")


class Land(Section):
    """What landing takes: topics beyond those of transactions, that of traces, and how large a body may be (MiB)."""

    topics: Names
    trace_topic: Name | None
    max_body_size: Annotated[int, Field(ge=1, le=64)]

    @property
    def max_body_bytes(self) -> int:
        """The largest body that lands."""
        return self.max_body_size << 20


class Rocketmq(Section):
    """How live name servers and brokers are reached, and how much of them is read at once."""

    access_key_env: EnvironmentName | None
    secret_key_env: EnvironmentName | None
    tls: bool
    ca_file: Location | None
    checks_host_name: bool
    timeout_ms: Seconds = Field(alias="timeout")
    consumer_group: Annotated[Name, AfterValidator(_reading_group)]
    messages_per_run: Annotated[int, Field(ge=1)]


class Source(Section):
    """One input of `txmq run`: paths of one broker, or, of kind rocketmq, name servers and perhaps one broker."""

    kind: Literal["half", "op", "message", "max-time", "end", "trace", "offset", "ack", "store", "rocketmq"]
    paths: Annotated[tuple[Location, ...], Field(strict=False, min_length=1)] | None = None
    namesrv: Annotated[tuple[Address, ...], Field(strict=False, min_length=1)] | None = None
    broker: Name | None = None

    @model_validator(mode="after")
    def _has_what_its_kind_needs(self) -> Self:
        if self.kind == "rocketmq":
            if self.namesrv is None or self.paths is not None:
                raise ValueError("kind rocketmq needs namesrv, a list of host:port, and no paths")
        elif self.paths is None or self.broker is None or self.namesrv is not None:
            raise ValueError(f"kind {self.kind} needs paths and broker, and no namesrv")
        return self


class Maintain(Section):
    """What upkeep does in one run, and how long it keeps what no newest version needs; sizes in MiB."""

    small_files: Annotated[int, Field(ge=2)]
    small_file_size: Annotated[int, Field(ge=1)]
    file_size: Annotated[int, Field(ge=1)]
    files_per_run: Annotated[int, Field(ge=2)]
    size_per_run: Annotated[int, Field(ge=1)]
    file_retention_ms: Hours = Field(alias="file_retention")
    log_retention_ms: Hours = Field(alias="log_retention")
    pass_retention_ms: Hours | None = Field(alias="pass_retention")


class Mask(Section):
    """What of a message no view shows."""

    bodies: bool
    properties: Names


class Alerts(Section):
    """Where what is past the thresholds is told."""

    url_env: EnvironmentName | None
    headers_env: dict[Name, EnvironmentName]
    timeout_ms: Seconds = Field(alias="timeout")
    tries: Annotated[int, Field(ge=1, le=10)]
    state_file: Location | None


class ProducerGroupThresholds(Section):
    """What a producer group has of its own; what is not set is as for all."""

    pending: Count | None = None
    pending_age_ms: Seconds | None = Field(default=None, alias="pending_age")


class ConsumerGroupThresholds(Section):
    """What a consumer group has of its own; what is not set is as for all."""

    lag: Count | None = None
    lag_states: Count | None = None


class BrokerThresholds(Section):
    """What a broker has of its own; what is not set is as for all."""

    landing_behind_ms: Seconds | None = Field(default=None, alias="landing_behind")
    no_landing_ms: Seconds | None = Field(default=None, alias="no_landing")


class Thresholds(Section):
    """Counts and spans past which a command ends with status 1; None: never."""

    quarantined: Count | None
    unanswered: Count | None
    unread: Count | None
    pending: Count | None
    pending_age_ms: SecondsOrAuto | None = Field(alias="pending_age")
    given_up: Count | None
    contradicted: Count | None
    orphans: Count | None
    unchecked: Count | None
    lag: Count | None
    lag_states: Count | None
    landing_behind_ms: SecondsOrAuto | None = Field(alias="landing_behind")
    no_landing_ms: SecondsOrAuto | None = Field(alias="no_landing")
    failing: Count | None
    producer_groups: dict[Name, Annotated[ProducerGroupThresholds, BeforeValidator(_section)]]
    consumer_groups: dict[Name, Annotated[ConsumerGroupThresholds, BeforeValidator(_section)]]
    brokers: dict[Name, Annotated[BrokerThresholds, BeforeValidator(_section)]]


@dataclass(frozen=True)
class BrokerPolicy:
    """The limits that hold for one broker; spans in milliseconds. A role that nobody said is `engine`."""

    role: Role
    transaction_timeout_ms: int
    transaction_check_interval_ms: int
    transaction_check_max: int
    file_reserved_time_ms: int


class Settings(Section):
    """Everything that can be set, as `conf/base.yaml` explains it; spans in milliseconds."""

    role: Role | None
    transaction_timeout_ms: Seconds = Field(alias="transaction_timeout")
    transaction_check_interval_ms: Seconds = Field(alias="transaction_check_interval")
    transaction_check_max: Count
    file_reserved_time_ms: Hours = Field(alias="file_reserved_time")
    check_backoff: dict[Name, CheckBackoff]
    roll_back_given_up: bool
    persist_consumer_offset_interval_ms: Seconds = Field(alias="persist_consumer_offset_interval")
    brokers: dict[Name, Annotated[Broker, BeforeValidator(_section)]]
    resolvers: dict[Name, Annotated[ResolverSettings, Field(discriminator="kind")]]
    resolve: Resolve
    end_on_broker: EndOnBroker
    warehouse: TablesLocation
    land: Land
    rocketmq: Rocketmq
    sources: Annotated[tuple[Source, ...], Field(strict=False)]
    lag_window_ms: Seconds = Field(alias="lag_window")
    readable_by: Literal["owner", "group", "all"]
    mask: Mask
    thresholds: Thresholds
    maintain: Maintain
    alerts: Alerts
    spark: dict[Annotated[str, AfterValidator(_spark_key)], Annotated[str, BeforeValidator(_spark_value)]]

    _origins: dict[tuple[str, ...], str] = PrivateAttr(default_factory=dict)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        """What a notebook or a trace shows of it: no value that may be a secret."""
        for name, value in super().__repr_args__():
            hidden = {key: HIDDEN if is_secret(key, text) else text for key, text in self.spark.items()}
            yield name, hidden if name == "spark" else value

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
        return cls._of_layers([base, local, Layer("recorded settings", json.loads(text))], RECORDED)

    @classmethod
    def _of_layers(cls, layers: Sequence[Layer], context: str = "") -> Self:
        base = layers[0].values
        # Each layer is judged alone over base.yaml, so that a fault hidden by a later layer is still told.
        faults = [fault for layer in layers for fault in (*layer.faults, *_faults(cls, base, layer, context))]
        merged: Tree = {}
        for layer in layers:
            merged = merge(merged, layer.values)
        faults += _resolver_faults(cls, merged, layers, context)
        if faults:
            raise SettingsError(list(dict.fromkeys(faults)))
        settings = cls.model_validate(merged, context=context)
        settings._origins.update(origins(layers))
        return settings

    def for_broker(self, broker_name: str) -> BrokerPolicy:
        """The limits for one broker: its own where it has them, else those for all."""
        own = self.brokers.get(broker_name, Broker()).model_dump(exclude_none=True)
        limits = {limit.name: own.get(limit.name, getattr(self, limit.name)) for limit in _LIMITS}
        return BrokerPolicy(**{**limits, "role": self.said_role(broker_name) or ROLE_ENGINE})

    def past_checks_ms(self) -> int:
        """Twice the longest time in which any broker asks about a half as often as it may: none should be older."""
        policies = [self.for_broker(name) for name in ("", *self.brokers)]
        return 2 * max(
            each.transaction_timeout_ms + (each.transaction_check_max + 1) * each.transaction_check_interval_ms
            for each in policies
        )

    def landing_due_ms(self) -> int:
        """Half the shortest time for which any broker keeps its files: what is not read in the other half is lost."""
        return min(self.for_broker(name).file_reserved_time_ms for name in ("", *self.brokers)) // 2

    def said_role(self, broker_name: str) -> Role | None:
        """The role that somebody gave a broker, by name or for all; None where nobody did."""
        return self.brokers.get(broker_name, Broker()).role or self.role

    def role_origin(self, broker_name: str) -> str:
        """The layer that gave a broker its role; empty where none did."""
        is_own = self.brokers.get(broker_name, Broker()).role is not None
        path = ("brokers", broker_name, "role") if is_own else ("role",)
        return self._origins.get(path, "") if self.said_role(broker_name) else ""

    def resolver_for(self, producer_group: str | None) -> str | None:
        """The name under `resolvers` that serves a group: its own, else the longest pattern that fits it; or None."""
        if producer_group is None:
            return None
        if producer_group in self.resolvers:
            return producer_group
        fitting = [pattern for pattern in self.resolvers if fnmatchcase(producer_group, pattern)]
        # By length and name, since recorded settings keep no order.
        return min(fitting, key=lambda pattern: (-len(pattern), pattern), default=None)

    def to_json(self) -> str:
        """Everything that decides results, on one line; locations, sources, thresholds and Spark keys do not."""
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

    def secret_variables(self) -> frozenset[str]:
        """The environment variables with secrets that this process alone needs: of resolvers and alerts."""
        named = {*self.alerts.headers_env.values(), self.alerts.url_env}
        for resolver in self.resolvers.values():
            if isinstance(resolver, SqlResolver):
                named.add(resolver.url_env)
            elif isinstance(resolver, HttpResolver):
                named |= set(resolver.headers_env.values())
        # The keys for brokers with ACL are for tasks too, which find them there.
        ours = {self.rocketmq.access_key_env, self.rocketmq.secret_key_env}
        return frozenset(name for name in named - ours if name is not None)

    def _tree(self, keys: Iterable[str] | None = None) -> Tree:
        include = None if keys is None else set(keys)
        return self.model_dump(mode="json", by_alias=True, exclude_unset=True, include=include)


_PROBLEMS = {
    "dict_type": "must be a mapping",
    "model_type": "must be a mapping",
    "model_attributes_type": "must be a mapping",
    "tuple_type": "must be a list",
    "string_type": "must be a text",
    "invalid_key": "must be a text",
    "int_type": "must be a whole number",
    "bool_type": "must be true or false",
    "too_short": "must not be empty",
    "string_too_short": "must not be empty",
    "missing": "is missing",
}
_LIMITS = fields(BrokerPolicy)
RESOLVERS = "resolvers"
_SECTIONS: dict[str, type[Section]] = {
    "brokers": Broker,
    "check_backoff": CheckBackoff,
    "land": Land,
    "rocketmq": Rocketmq,
    "sources": Source,
    "mask": Mask,
    "alerts": Alerts,
    "thresholds": Thresholds,
    "resolve": Resolve,
    "maintain": Maintain,
}


def _base_layer() -> Layer:
    return read_file(conf_dir() / "base.yaml", "base.yaml")


def _faults(model: type[Settings], base: Tree, layer: Layer, context: str) -> list[str]:
    try:
        model.model_validate(merge(base, layer.values), context=context)
    except ValidationError as error:
        return [
            f"{layer.name}: {_fault(details)}"
            for details in error.errors(include_url=False)
            if details["loc"][0] != RESOLVERS
        ]
    return []


def _resolver_faults(model: type[Settings], merged: Tree, layers: Sequence[Layer], context: str) -> list[str]:
    """Faults of resolvers: one layer may set a part of one only, so they are judged when all layers are together."""
    try:
        model.model_validate(merged, context=context)
    except ValidationError as error:
        faults = [details for details in error.errors(include_url=False) if details["loc"][0] == RESOLVERS]
        return [f"{_layer_of(details['loc'], layers)}: {_fault(details)}" for details in faults]
    return []


def _layer_of(place: Sequence[str | int], layers: Sequence[Layer]) -> str:
    path = tuple(str(part) for part in _without_kind(place))
    known = origins(layers)
    for length in range(len(path), 0, -1):
        named = [layer for leaf, layer in known.items() if leaf[:length] == path[:length]]
        if named:
            return named[-1]
    return layers[-1].name


def _without_kind(place: Sequence[str | int]) -> list[str | int]:
    """Where a fault is, as people wrote it: pydantic names the kind of a resolver after its group."""
    path = [part for part in place if part != "[key]"]
    is_of_kind = len(path) > 2 and path[0] == RESOLVERS and path[2] in RESOLVER_KINDS
    return [*path[:2], *path[3:]] if is_of_kind else path


def _fault(details: Mapping[str, Any]) -> str:
    path = _without_kind(details["loc"])
    key = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
    if details["type"] == "extra_forbidden":
        return f"{key}: unknown key{_did_you_mean(details['loc'], path)}"
    if "error" in details.get("ctx", {}):
        return f"{key}: {details['ctx']['error']}"
    if details["type"] in ("union_tag_not_found", "union_tag_invalid"):
        return f"{key}: kind must be one of {', '.join(RESOLVER_KINDS)}"
    problem = _PROBLEMS.get(details["type"], details["msg"]).replace("Input should be", "must be", 1)
    return f"{key}: {problem[0].lower()}{problem[1:]}{_instead(path, details['input'])}"


def _instead(path: Sequence[str | int], value: object) -> str:
    """What was given, where that may be shown and can be: not a secret given where its name belongs."""
    if path[0] in ("spark", RESOLVERS, "alerts", "rocketmq") or any(is_secret(str(part)) for part in path):
        return ""
    try:
        shown = repr(value)
    except ValueError:  # Python writes no whole number of thousands of digits
        return ""
    if has_secret(shown) or ("namesrv" in path and "@" in shown):
        return ""
    return f", not {shown if len(shown) <= _LONGEST_SHOWN else shown[:_LONGEST_SHOWN] + '...'}"


def _did_you_mean(place: Sequence[str | int], path: Sequence[str | int]) -> str:
    model: type[Section] = Settings
    if path[0] == RESOLVERS:
        model = RESOLVER_KINDS[str(place[2])]
    elif len(path) > 1:
        model = _SECTIONS[str(path[0])]
    known = {(field.alias or name).replace("_", ""): field.alias or name for name, field in model.model_fields.items()}
    squeezed = str(path[-1]).replace("_", "").replace("-", "").lower()  # RocketMQ's transactionTimeOut is a near miss
    close = difflib.get_close_matches(squeezed, known, n=1)
    return f"; did you mean {known[close[0]]}?" if close else ""
