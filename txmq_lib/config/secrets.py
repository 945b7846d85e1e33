"""What is a secret, and how words are freed of it. The only owner of both: settings, locations, drivers' words, Spark.

A secret is known by the name of what holds it, by where it stands in a URL, or because it is given.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode
from binascii import Error as NotBase64
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from urllib.parse import quote, quote_plus, unquote

HIDDEN = "***"

# What Spark itself hides (spark.redaction.regex), and the names that its connectors to object stores and databases
# have. In words that Python and Java read alike.
_NAMES = (
    r"secret|passw|passphrase|passcode|token|credential|signature|cookie|bearer|authorization|jwt|keyfile|pwd?\b"
    r"|\b(?:sas|sig|pass)\b"
    r"|(?:access|account|api|client|encryption|license|master|private|shared|signing)[._-]?key"
)
SPARK_REGEX = rf"(?i){_NAMES}|://[^/@\s:]*:[^@\s]*@|https?://[^/@\s:]+@"
_SECRET = re.compile(_NAMES, re.IGNORECASE)

# scheme://user:password@place. What stands behind the colon may hold a slash, unless it is a port. A bucket has none.
_USER_AND_PASSWORD = re.compile(
    r"(?P<before>(?<=s3)://[^/@\s:]{0,256}:|(?<=s3[an])://[^/@\s:]{0,256}:|://[^/@\s:]{0,256}:(?!\d+(?:[/?#\s]|$)))"
    r"[^@\s]{0,2048}+(?=@)",
    re.IGNORECASE,
)
_USER = re.compile(r"(?P<before>\bhttps?://)[^/@\s:]{1,2048}+(?=@)", re.IGNORECASE)
# In a URL, a JDBC URL or the words of a database's client: name=value.
_ASSIGNED = re.compile(rf"(?P<before>(?:{_NAMES})[\w.-]{{0,64}}=)(?:'[^']*'|\"[^\"]*\"|[^\s&;,'\")]+)", re.IGNORECASE)
_PARAMETER = re.compile(rf"[?&;][\w.-]{{0,64}}(?:{_NAMES})[\w.-]{{0,64}}=.", re.IGNORECASE)
_BEARER = re.compile(r"(?P<before>\bbearer )[\w.~+/=-]+", re.IGNORECASE)


def is_secret(key: str, value: object = None) -> bool:
    """True where the name of a setting says so, or its value: Java options and URLs may hold a password."""
    text = str(value)
    return bool(_SECRET.search(key) or (key.startswith("spark.") and _SECRET.search(text)) or has_secret(text))


def has_secret(location: str) -> bool:
    """True for a URI with a password, or a parameter that is a secret by its name: locations are recorded and shown."""
    if "://" not in location:
        return False
    squeezed = "".join(location.split())  # a password may have blanks
    return any(sign.search(squeezed) for sign in (_USER_AND_PASSWORD, _USER, _PARAMETER))


def scrubbed(words: str, secrets: Iterable[str] = ()) -> str:
    """`words` without `secrets`, in whatever form, and without what looks like one."""
    forms = {form for secret in secrets for form in _forms(secret)}
    for form in sorted(forms, key=len, reverse=True):
        words = words.replace(form, HIDDEN)
    for sign in (_USER_AND_PASSWORD, _USER, _ASSIGNED, _BEARER):
        words = sign.sub(rf"\g<before>{HIDDEN}", words)
    return words


def secrets_of_header(value: str) -> list[str]:
    """What of a header's value must not be told: all of it, each of its words, and what Basic stands for."""
    found = [value, *value.split()]
    for word in value.split()[1:]:
        try:
            name_and_password = b64decode(word, validate=True).decode()
        except (NotBase64, UnicodeDecodeError):
            continue
        found += [name_and_password, name_and_password.partition(":")[2]]
    return [each for each in found if each]


def secrets_of_url(url: str, password: str | None, parameters: Mapping[str, object]) -> list[str]:
    """What of a database's URL must not be told: all of it, its password, parameters that are secrets by name."""
    named = [value if isinstance(value, tuple) else (value,) for name, value in parameters.items() if is_secret(name)]
    return [str(each) for each in (url, password, *chain(*named)) if each]


def is_ambiguous(url: str) -> bool:
    """True where a password of `url` may go on behind its `@`: whoever reads it takes the rest for a host."""
    parts = re.fullmatch(r"[^:]*://[^:/]*:[^@]*@(.*)", url, re.DOTALL)
    return parts is not None and "@" in parts[1]


def missing_variables(named: Mapping[str, str], environ: Mapping[str, str]) -> list[str]:
    """One fault per setting (key: the environment variable it names) whose variable is not set."""
    return [
        f"{key}: the environment variable {variable} is not set"
        for key, variable in named.items()
        if not environ.get(variable)
    ]


def _forms(secret: str) -> Iterator[str]:
    """A secret as it is, as URLs write it, and as Python and JSON show it."""
    plain = {secret, unquote(secret)}
    for each in plain:
        yield from (each, quote(each), quote(each, safe=""), quote_plus(each), repr(each)[1:-1], json.dumps(each)[1:-1])
