"""Settings of resolvers: who knows the state of a producer group's local transactions. Holds no secret, reads nothing.

A secret is named (an environment variable, a file), never given: settings are shown and recorded.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, ValidationInfo, model_validator

from txmq_lib.config.durations import duration_text, milliseconds
from txmq_lib.config.secrets import has_secret
from txmq_lib.config.setting_types import RECORDED, EnvironmentName, Location, Name, Seconds, Section

KEYS_PARAMETER = ":keys"
PROPERTY_KEY = "property "


def state_text(value: object) -> str:
    """A state as it is compared: the text of what a database, or YAML, gives; no trailing blanks of CHAR columns."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("utf-8", errors="replace").rstrip()
    return str(value).rstrip()


def _state(value: object) -> str:
    if not isinstance(value, str | int | float):
        raise ValueError("must be a text, a number or true/false")
    return state_text(value)


def _endpoint(value: str, info: ValidationInfo) -> str:
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("must be a URL such as https://orders.internal/check")
    if parts.username or parts.password:
        raise ValueError("must not hold a name or password: give them as a header, by headers_env")
    if has_secret(value) and info.context != RECORDED:
        raise ValueError("must not hold a secret in its parameters: give it as a header, by headers_env")
    return value


def _looked_up(value: str) -> str:
    if value in ("transaction_id", "keys") or (value.startswith(PROPERTY_KEY) and value[len(PROPERTY_KEY) :].strip()):
        return value
    raise ValueError("must be transaction_id, keys or `property NAME`")


def _age(value: object) -> int:
    return 0 if value == 0 and not isinstance(value, bool) else milliseconds(value, unit="s")


def _age_text(span_ms: int) -> str | int:
    return duration_text(span_ms) if span_ms else 0


States = Annotated[tuple[Annotated[str, BeforeValidator(_state)], ...], Field(strict=False)]
Age = Annotated[int, BeforeValidator(_age), PlainSerializer(_age_text, when_used="json")]
Endpoints = Annotated[tuple[Annotated[str, AfterValidator(_endpoint)], ...], Field(strict=False, min_length=1)]


class StateRules(Section):
    """Where a row says the state of one local transaction, and what its values mean."""

    key_column: Name
    state_column: Name
    key: Annotated[str, AfterValidator(_looked_up)] = "transaction_id"
    key_type: Literal["text", "integer"] = "text"
    commit: Annotated[States, Field(min_length=1)]
    rollback: States = ()
    unknown: States = ()
    unmapped: Literal["unknown", "rollback"] = "unknown"
    absent_rollback_after_ms: Age | None = Field(default=None, alias="absent_rollback_after")

    @model_validator(mode="after")
    def _each_state_means_one_thing(self) -> Self:
        listed = [*self.commit, *self.rollback, *self.unknown]
        if twice := sorted({state for state in listed if listed.count(state) > 1}):
            raise ValueError(f"states listed twice: {', '.join(twice)}")
        return self


class SqlResolver(StateRules):
    """A transaction log in a database that SQLAlchemy speaks to."""

    kind: Literal["sql"]
    url_env: EnvironmentName | None = None
    url_file: Location | None = None
    table: Name | None = None
    query: Name | None = None
    batch_size: Annotated[int, Field(ge=1, le=10_000)] = 500
    timeout_ms: Seconds = Field(default=10_000, alias="timeout")

    @model_validator(mode="after")
    def _one_of_each(self) -> Self:
        if (self.url_env is None) == (self.url_file is None):
            raise ValueError("give one of url_env and url_file, which name where the database's URL is")
        if (self.table is None) == (self.query is None):
            raise ValueError("give one of table and query")
        if self.query is not None and KEYS_PARAMETER not in self.query:
            raise ValueError(f"query must ask for `in {KEYS_PARAMETER}`, or it would read the whole table")
        return self


class DeltaResolver(StateRules):
    """A transaction log in a Delta table that Spark can read."""

    kind: Literal["delta"]
    uri: Location
    batch_size: Annotated[int, Field(ge=1, le=100_000)] = 5_000


class HttpResolver(Section):
    """An endpoint of the producer that answers checkLocalTransactionState."""

    kind: Literal["http"]
    endpoints: Endpoints
    headers_env: dict[Name, EnvironmentName] = Field(default_factory=dict)
    ca_file: Location | None = None
    timeout_ms: Seconds = Field(default=3_000, alias="timeout")
    tries: Annotated[int, Field(ge=1, le=10)] = 3
    backoff_ms: Seconds = Field(default=200, alias="backoff")
    concurrency: Annotated[int, Field(ge=1, le=256)] = 8
    down_after: Annotated[int, Field(ge=1)] = 20


ResolverSettings = SqlResolver | DeltaResolver | HttpResolver
RESOLVER_KINDS: dict[str, type[Section]] = {"sql": SqlResolver, "delta": DeltaResolver, "http": HttpResolver}


class Resolve(Section):
    """How a resolve pass keeps what it was told."""

    checks_per_write: Annotated[int, Field(ge=1, le=100_000)]
