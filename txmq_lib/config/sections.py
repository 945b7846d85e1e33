"""The sections of the settings: what each key may be. One class per section, one field per key."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from txmq_lib.config.setting_types import (
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
from txmq_lib.files.object_stores import place_fault
from txmq_lib.names import CHECK_GROUP
from txmq_lib.rocketmq.host_port import host_and_port

_ANOTHER_PATH = re.compile(r"\\|%[0-9A-Fa-f]{2}")  # to deltalake, which reads tables for the views


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
    if "\0" in value:
        raise ValueError("must not have a byte of zero")
    if fault := place_fault(value):
        raise ValueError(fault)
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


SparkKey = Annotated[str, AfterValidator(_spark_key)]
SparkValue = Annotated[str, BeforeValidator(_spark_value)]
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


BrokerOrEmpty = Annotated[Broker, BeforeValidator(_section)]  # a broker that is named with nothing behind it


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
