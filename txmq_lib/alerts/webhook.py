"""Tells a webhook: one POST of JSON, tried again a few times. Its address and headers are secrets and never told."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import httpx

from txmq_lib.errors import AlertUnsentError

FIRST_PAUSE = 0.2  # seconds, doubled each time


class Webhook:
    """Where alerts go. Redirects are not followed, and proxies of the environment not taken."""

    def __init__(self, url: str, headers: Mapping[str, str], *, timeout_ms: int, tries: int) -> None:
        self._url, self._headers = url, dict(headers)
        self._timeout = timeout_ms / 1000
        self._tries = tries

    def post(self, payload: Mapping[str, Any]) -> None:
        """AlertUnsentError where no try was answered with a status of 200 to 299."""
        failure = ""
        for attempt in range(self._tries):
            if attempt:
                time.sleep(FIRST_PAUSE * 2 ** (attempt - 1))
            try:
                with httpx.Client(trust_env=False, follow_redirects=False, timeout=self._timeout) as client:
                    answer = client.post(self._url, json=payload, headers=self._headers)
                if answer.is_success:
                    return
                failure = f"it answers {answer.status_code}"
            # httpx puts the address, which may be a secret, into its words; so may a URL that is none.
            except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
                failure = type(error).__name__
        raise AlertUnsentError(f"the webhook of alerts.url_env was not told, {self._tries} tries: {failure}")
