"""One remoting command as bytes (F6): length, header word, JSON header, body. Must not know sockets."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from struct import Struct
from typing import Any, Final

from txmq_lib.errors import ProtocolError
from txmq_lib.rocketmq.lenient_json import storable

# What RocketMQ's own decoders take (RCM). A header has a few fields and a remark: nobody needs more than that.
MAX_FRAME_BYTES: Final = 16 * 1024 * 1024
MAX_HEADER_BYTES: Final = 256 * 1024
LENGTH_BYTES: Final = 4

FLAG_RESPONSE: Final = 0x1

_LENGTH: Final = Struct(">i")
_HEADER_WORD: Final = Struct(">I")
_SERIALISED_AS_JSON: Final = 0
_HIGHEST_INT: Final = 2**31 - 1
_SHOWN: Final = 200


@dataclass(frozen=True)
class Command:
    """A request or an answer: its code, its header fields (all are texts), its body.

    opaque  which request an answer belongs to; flag  FLAG_RESPONSE in an answer
    """

    code: int
    fields: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    opaque: int = 0
    flag: int = 0
    remark: str | None = None

    @property
    def is_response(self) -> bool:
        """Whether it answers a request."""
        return bool(self.flag & FLAG_RESPONSE)


def encode(command: Command) -> bytes:
    """The whole frame; ProtocolError where it would be longer than anybody takes."""
    header: dict[str, Any] = {
        "code": command.code,
        "language": "PYTHON",
        "version": 0,
        "opaque": command.opaque,
        "flag": command.flag,
        "extFields": dict(command.fields),
        "serializeTypeCurrentRPC": "JSON",
    }
    if command.remark is not None:
        header["remark"] = command.remark
    head = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    length = _HEADER_WORD.size + len(head) + len(command.body)
    if length > MAX_FRAME_BYTES or len(head) > MAX_HEADER_BYTES:
        raise ProtocolError(f"a request of {length} bytes is longer than a broker takes")
    return b"".join((_LENGTH.pack(length), _HEADER_WORD.pack(len(head)), head, command.body))


def frame_length(prefix: bytes) -> int:
    """Bytes that follow the length of a frame; ProtocolError where no frame has so many or so few."""
    (length,) = _LENGTH.unpack(prefix)
    if not _HEADER_WORD.size <= length <= MAX_FRAME_BYTES:
        raise ProtocolError(f"a frame of {length} bytes: this is no RocketMQ remoting port, or TLS is set differently")
    return int(length)


def decode(frame: bytes) -> Command:
    """The command in the bytes behind the length; ProtocolError where they are none."""
    (word,) = _HEADER_WORD.unpack_from(frame)
    serialisation, header_size = word >> 24, word & 0xFFFFFF
    if serialisation != _SERIALISED_AS_JSON:
        raise ProtocolError(f"a header of serialisation {serialisation}, where JSON was asked for")
    body_start = _HEADER_WORD.size + header_size
    if header_size > MAX_HEADER_BYTES or body_start > len(frame):
        raise ProtocolError(f"a header of {header_size} bytes in a frame of {len(frame)}")
    head = frame[_HEADER_WORD.size : body_start]
    try:
        header = storable(json.loads(head))
    except (ValueError, RecursionError):
        header = None
    if not isinstance(header, dict):
        raise ProtocolError(f"a header that is no JSON object: {head[:_SHOWN]!r}")
    fields, remark = header.get("extFields") or {}, header.get("remark")
    if not isinstance(fields, dict):
        raise ProtocolError("extFields of a header are no object")
    return Command(
        code=_whole(header, "code"),
        fields={name: value if isinstance(value, str) else json.dumps(value) for name, value in fields.items()},
        body=frame[body_start:],
        opaque=_whole(header, "opaque"),
        flag=_whole(header, "flag"),
        remark=remark if isinstance(remark, str) else None,
    )


def _whole(header: Mapping[str, object], name: str) -> int:
    number = header.get(name)
    if type(number) is not int or abs(number) > _HIGHEST_INT + 1:
        raise ProtocolError(f"{name} of a header is no whole number of 32 bits")
    return number
