"""Types that settings are made of: sections that know all their keys, names, counts, spans. Reads nothing."""

from __future__ import annotations

import re
from functools import partial
from typing import Annotated

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    StringConstraints,
    ValidationInfo,
)

from txmq_lib.config.durations import duration_text, milliseconds
from txmq_lib.config.secrets import has_secret

RECORDED = "recorded"  # in the context of a validation: settings that a pass began with, so that it can end with them

Name = Annotated[str, StringConstraints(min_length=1)]
Names = Annotated[tuple[Name, ...], Field(strict=False)]
Seconds = Annotated[
    int, BeforeValidator(partial(milliseconds, unit="s")), PlainSerializer(duration_text, when_used="json")
]
Hours = Annotated[
    int, BeforeValidator(partial(milliseconds, unit="h")), PlainSerializer(duration_text, when_used="json")
]
# A span that follows from other settings where nobody gives one.
AUTO = -1
DERIVED = "auto"
SecondsOrAuto = Annotated[
    int,
    BeforeValidator(lambda value: AUTO if value == DERIVED else milliseconds(value, unit="s")),
    PlainSerializer(lambda value: DERIVED if value == AUTO else duration_text(value), when_used="json"),
]
Count = Annotated[int, Field(ge=0)]


def _environment_name(value: str, info: ValidationInfo) -> str:
    # The value may be the secret itself, given by mistake: it is not repeated. Tokens are seldom in capitals alone.
    any_case = re.IGNORECASE if info.context == RECORDED else 0
    if not re.fullmatch(r"[A-Z_][A-Z0-9_]*", value, any_case):
        raise ValueError("must be the name of an environment variable in capitals, not what it holds")
    return value


def _location(value: str, info: ValidationInfo) -> str:
    if has_secret(value) and info.context != RECORDED:
        raise ValueError("must not carry a password: give credentials as the environment or Spark's settings have them")
    return value


EnvironmentName = Annotated[str, AfterValidator(_environment_name)]
Location = Annotated[Name, AfterValidator(_location)]


class Section(BaseModel):
    """A mapping of settings: frozen, no key it does not know, no value of another type."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
