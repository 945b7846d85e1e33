"""Secrets of resolvers, taken from the environment given or from files. Must not log, show or keep them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from txmq_lib.config.resolver_settings import DeltaResolver, HttpResolver, ResolverSettings, SqlResolver
from txmq_lib.config.settings import Settings


class SecretMissingError(Exception):
    """A secret is not where the settings say."""


def database_url(settings: SqlResolver, environ: Mapping[str, str]) -> str:
    """The URL that url_env or url_file names; SecretMissingError where it is not there."""
    if settings.url_env is not None:
        return _variable("url_env", settings.url_env, environ)
    path = str(settings.url_file)
    try:
        url = Path(path).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise SecretMissingError(f"url_file: {path} cannot be read: {type(error).__name__}") from None
    if not url:
        raise SecretMissingError(f"url_file: {path} is empty")
    return url


def headers(settings: HttpResolver, environ: Mapping[str, str]) -> dict[str, str]:
    """The headers that headers_env names; SecretMissingError for the first that is not there, or is no header."""
    found = {header: _variable(f"headers_env.{header}", name, environ) for header, name in settings.headers_env.items()}
    for header, value in found.items():
        if not (value.isascii() and value.isprintable()):
            raise SecretMissingError(f"headers_env.{header}: holds what no header may")
    return found


def missing_secrets(settings: Settings, environ: Mapping[str, str]) -> list[str]:
    """One fault per resolver whose secret is not there."""
    faults = []
    for name, resolver in settings.resolvers.items():
        try:
            _look(resolver, environ)
        except SecretMissingError as missing:
            faults.append(f"resolvers.{name}.{missing}")
    return faults


def _look(resolver: ResolverSettings, environ: Mapping[str, str]) -> None:
    match resolver:
        case SqlResolver():
            database_url(resolver, environ)
        case HttpResolver():
            headers(resolver, environ)
        case DeltaResolver():
            pass


def _variable(key: str, name: str, environ: Mapping[str, str]) -> str:
    if not environ.get(name):
        raise SecretMissingError(f"{key}: the environment variable {name} is not set")
    return environ[name]
