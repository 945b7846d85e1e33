"""Addresses of name servers and brokers: `host:port` or `[2001:db8::1]:port`."""

from __future__ import annotations


def host_and_port(address: str) -> tuple[str, int]:
    """The parts of an address; ValueError where it is none."""
    if "@" in address:  # what stands before it may be a password, and is not repeated
        raise ValueError("must be host:port, without a user or password")
    host, colon, port = address.rpartition(":")
    is_port = port.isascii() and port.isdecimal() and len(port) <= 5 and 0 < int(port) <= 0xFFFF
    if not (colon and host and is_port) or host.strip() != host:
        raise ValueError(f"must be host:port, not {address[:100]!r}")
    return host.removeprefix("[").removesuffix("]"), int(port)
