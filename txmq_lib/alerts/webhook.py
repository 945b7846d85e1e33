"""Tells a webhook: one POST of JSON, tried again a few times. Its address and headers are secrets and never told."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from typing import Any, Final

import httpx

from txmq_lib.errors import AlertUnsentError

FIRST_PAUSE: Final = 0.2  # seconds, doubled each time
# All that is told in one run: a webhook that takes its time must not hold `run`, nor whoever waits to tell.
LONGEST_RUN_SECONDS = 60.0


class Webhook:
    """Where alerts go. Redirects are not followed, and proxies of the environment not taken.

    timeout_ms  of one try, from connecting to the headers of its answer, as a whole; no body is read
    """

    def __init__(self, url: str, headers: Mapping[str, str], *, timeout_ms: int, tries: int) -> None:
        self._url, self._headers = url, dict(headers)
        self._timeout = timeout_ms / 1000
        self._tries = tries
        self._ends: float | None = None

    def post(self, payload: Mapping[str, Any]) -> None:
        """AlertUnsentError where no try was answered with a status of 200 to 299, or the run has told for too long."""
        if self._ends is None:
            self._ends = time.monotonic() + LONGEST_RUN_SECONDS
        failure = f"telling has taken {LONGEST_RUN_SECONDS:g} s"
        for attempt in range(self._tries):
            if time.monotonic() >= self._ends:
                break
            if attempt:
                time.sleep(FIRST_PAUSE * 2 ** (attempt - 1))
            try:
                status = asyncio.run(self._status(payload))
                if httpx.codes.is_success(status):
                    return
                failure = f"it answers {status}"
            # Whatever it was, nobody was told. httpx puts the address, which may be a secret, into its words; so may a
            # URL that is none, and a port beyond all numbers comes as a group of errors.
            except Exception as error:
                failure = type(error).__name__
        raise AlertUnsentError(f"the webhook of alerts.url_env was not told, {self._tries} tries: {failure}")

    async def _status(self, payload: Mapping[str, Any]) -> int:
        options: dict[str, Any] = {"timeout": None, "trust_env": False, "follow_redirects": False}
        # Of the whole exchange: a server that sends a byte now and then never runs into a timeout of httpx.
        async with (
            asyncio.timeout(self._timeout),
            httpx.AsyncClient(**options) as client,
            client.stream("POST", self._url, json=payload, headers=self._headers) as answer,
        ):
            return answer.status_code
