"""The signature that a broker with ACL wants on every request. Must not read, show or keep secrets elsewhere."""

from __future__ import annotations

import hmac
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha1
from typing import Final

ACCESS_KEY: Final = "AccessKey"
SIGNATURE: Final = "Signature"


@dataclass(frozen=True)
class Credentials:
    """An access key and its secret key."""

    access_key: str
    secret_key: str = field(repr=False)

    def signed(self, fields: Mapping[str, str], body: bytes) -> dict[str, str]:
        """`fields` with the access key and the signature over all of them, in order of their names, and the body."""
        named = {**fields, ACCESS_KEY: self.access_key}
        content = "".join(value for _, value in sorted(named.items())).encode() + body
        digest = hmac.new(self.secret_key.encode(), content, sha1).digest()
        return {**named, SIGNATURE: b64encode(digest).decode()}
