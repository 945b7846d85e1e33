"""What is a secret: settings that are never shown, and locations that may not carry any. Decides nothing else."""

from __future__ import annotations

import re
from collections.abc import Mapping

# What Spark itself hides (spark.redaction.regex), and the names that its connectors to object stores have.
_SECRET = re.compile(
    r"secret|passw|passphrase|token|credential|\bsas\b"
    r"|(access|account|api|encryption|private|shared|signing)[._-]?key",
    re.IGNORECASE,
)
_WITH_PASSWORD = re.compile(r"[a-z]://[^/@\s]*:[^/@\s]*@", re.IGNORECASE)


def is_secret(key: str, value: object = None) -> bool:
    """True where the name of a setting says so, or the value of a Spark setting (Java options may name a password)."""
    return bool(_SECRET.search(key) or (key.startswith("spark.") and _SECRET.search(str(value))))


def has_password(text: str) -> bool:
    """True for a text with a URI of the form scheme://user:password@place: locations are recorded and shown."""
    return _WITH_PASSWORD.search(text) is not None


def missing_variables(named: Mapping[str, str], environ: Mapping[str, str]) -> list[str]:
    """One fault per setting (key: the environment variable it names) whose variable is not set."""
    return [
        f"{key}: the environment variable {variable} is not set"
        for key, variable in named.items()
        if not environ.get(variable)
    ]
