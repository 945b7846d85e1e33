"""Addresses of name servers as options give them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer

from txmq_lib.cli.options import Options, settings_of
from txmq_lib.errors import UsageError
from txmq_lib.rocketmq.host_port import host_and_port

NameServers = Annotated[list[str], typer.Option("--namesrv", metavar="HOST:PORT", help="Name server; may be repeated.")]
NameServersIfAny = Annotated[
    list[str] | None,
    typer.Option("--namesrv", metavar="HOST:PORT", help="Name server, for --to-broker; else those of the sources."),
]


def name_servers_of(options: Options, texts: Sequence[str] | None, *, what: str = "--to-broker") -> list[str]:
    """Those given to send `what`, else those of the configured sources; UsageError where there are none."""
    if texts:
        return name_servers(texts)

    settings = settings_of(options)
    known = list(dict.fromkeys(address for source in settings.sources for address in source.namesrv or ()))
    if not known:
        raise UsageError(f"{what} needs a name server: give --namesrv, or a source of kind rocketmq")
    return known


def name_servers(texts: Sequence[str]) -> list[str]:
    """One address per option, or several with `;` between as RocketMQ writes them; UsageError where one is none."""
    addresses = [address.strip() for text in texts for address in text.split(";") if address.strip()]
    for address in addresses:
        try:
            host_and_port(address)
        except ValueError as fault:
            raise UsageError(f"--namesrv {fault}") from None
    if not addresses:
        raise UsageError("--namesrv must be host:port")
    return addresses
