"""Types that settings are made of: sections that know all their keys, names, counts, spans. Reads nothing."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer, StringConstraints

from txmq_lib.durations import duration_text, milliseconds

Name = Annotated[str, StringConstraints(min_length=1)]
Names = Annotated[tuple[Name, ...], Field(strict=False)]
Seconds = Annotated[
    int, BeforeValidator(partial(milliseconds, unit="s")), PlainSerializer(duration_text, when_used="json")
]
Hours = Annotated[
    int, BeforeValidator(partial(milliseconds, unit="h")), PlainSerializer(duration_text, when_used="json")
]
Count = Annotated[int, Field(ge=0)]


class Section(BaseModel):
    """A mapping of settings: frozen, no key it does not know, no value of another type."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)
