"""Settings: YAML layers into one frozen object, every fault of every layer reported at once. No session, no clock."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, PrivateAttr

from txmq_lib.config.resolver_settings import HttpResolver, Resolve, ResolverSettings, SqlResolver
from txmq_lib.config.resources import conf_dir
from txmq_lib.config.secrets import HIDDEN, is_secret
from txmq_lib.config.sections import (
    Alerts,
    Broker,
    BrokerOrEmpty,
    BrokerPolicy,
    CheckBackoff,
    EndOnBroker,
    Land,
    Maintain,
    Mask,
    Rocketmq,
    Role,
    Source,
    SparkKey,
    SparkValue,
    TablesLocation,
    Thresholds,
)
from txmq_lib.config.setting_faults import faults_of, resolver_faults
from txmq_lib.config.setting_types import RECORDED, Count, Hours, Name, Seconds, Section
from txmq_lib.config.yaml_layers import Layer, Tree, leaves, merge, origins, read_assignment, read_file
from txmq_lib.errors import SettingsError
from txmq_lib.names import ROLE_ENGINE

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
    brokers: dict[Name, BrokerOrEmpty]
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
    spark: dict[SparkKey, SparkValue]

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
        faults = [fault for layer in layers for fault in (*layer.faults, *faults_of(cls, base, layer, context))]
        merged: Tree = {}
        for layer in layers:
            merged = merge(merged, layer.values)
        faults += resolver_faults(cls, merged, layers, context)
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


_LIMITS = fields(BrokerPolicy)


def _base_layer() -> Layer:
    return read_file(conf_dir() / "base.yaml", "base.yaml")
