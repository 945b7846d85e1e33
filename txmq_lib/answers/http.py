"""A producer's endpoints, asked as a broker asks a producer (R65, R68): POST a check, 200 with the state."""

from __future__ import annotations

import asyncio
import base64
import json
import ssl
import time
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import httpx

from txmq_lib.answers.protocol import BAD_ANSWER, RESOLVER_UNUSABLE, UNREACHABLE, Answer, Check, in_few_words, no_answer
from txmq_lib.config.resolver_settings import HttpResolver as HttpSettings
from txmq_lib.config.secrets import scrubbed, secrets_of_header
from txmq_lib.names import COMMIT, HALF_TOPIC, PROPERTY_CHECK_TIMES, ROLLBACK, UNKNOWN

# LocalTransactionState of RocketMQ's client, UNKNOW as it is spelt there.
STATES = {"COMMIT_MESSAGE": COMMIT, "ROLLBACK_MESSAGE": ROLLBACK, "UNKNOW": UNKNOWN}
MOST_BYTES = 65_536
BATCH = 200
# Waiting for checks that had no answer, all together: so many times as long as `down_after` of them may take.
LONGEST_IN_VAIN = 10
# The columns of half_message that make the message of a payload; topic and queue are the real ones.
HALF_COLUMNS = (
    *("queue_offset", "commit_log_offset", "sys_flag", "flag", "born_timestamp", "store_timestamp", "born_host"),
    *("store_host", "offset_msg_id", "reconsume_times", "prepared_transaction_offset", "properties", "body"),
)


class HttpResolver:
    """Answers from HTTP endpoints; the values of `headers` are secrets and are never told."""

    half_columns: tuple[str, ...] = HALF_COLUMNS
    batch_size = BATCH

    def __init__(self, settings: HttpSettings, headers: Mapping[str, str]) -> None:
        self.down: Answer | None = None
        self._settings = settings
        self._headers = headers
        self._verify: ssl.SSLContext | bool = True
        try:
            if settings.ca_file is not None:
                self._verify = ssl.create_default_context(cafile=settings.ca_file)
        except OSError as error:
            self.down = no_answer(RESOLVER_UNUSABLE, f"ca_file: {settings.ca_file}: {type(error).__name__}: {error}")
        self._asked = 0
        self._failed_in_a_row = 0
        self._seconds_in_vain = 0.0

    def answers(self, checks: Sequence[Check]) -> list[Answer]:
        """One answer per check, `concurrency` of them asked at once."""
        return asyncio.run(self._answers(checks))

    def close(self) -> None:
        """Nothing to let go of: connections end with each batch."""

    async def _answers(self, checks: Sequence[Check]) -> list[Answer]:
        turns = asyncio.Semaphore(self._settings.concurrency)
        # Redirects are not followed: the headers are for this endpoint alone. Neither are proxies of the environment.
        options: dict[str, Any] = {"timeout": None, "trust_env": False, "follow_redirects": False}
        async with httpx.AsyncClient(verify=self._verify, **options) as client:
            return list(await asyncio.gather(*[self._in_turn(turns, client, check) for check in checks]))

    async def _in_turn(self, turns: asyncio.Semaphore, client: httpx.AsyncClient, check: Check) -> Answer:
        async with turns:
            if self.down is not None:
                return self.down
            begun = time.monotonic()
            answer = await self._answer(client, check)
        if answer.answer is not None:
            self._failed_in_a_row = 0
            return answer
        self._failed_in_a_row += 1
        self._seconds_in_vain += time.monotonic() - begun
        self.down = self.down or self._given_up(answer)
        return answer

    def _given_up(self, last: Answer) -> Answer | None:
        """The answer to all further checks, where this was one without an answer too many."""
        ours = self._settings
        if self._failed_in_a_row >= ours.down_after:
            words = f"{self._failed_in_a_row} checks in a row had no answer, the last: {last.detail}"
        elif self._seconds_in_vain >= LONGEST_IN_VAIN * ours.down_after * ours.tries * ours.timeout_ms / 1000:
            words = f"{self._seconds_in_vain:.0f} s of waiting for checks without an answer, the last: {last.detail}"
        else:
            return None
        return no_answer(last.reason or UNREACHABLE, words)

    async def _answer(self, client: httpx.AsyncClient, check: Check) -> Answer:
        endpoints, content = self._settings.endpoints, payload(check)
        first, self._asked = self._asked, self._asked + 1
        failure = no_answer(UNREACHABLE, "no try")
        for attempt in range(self._settings.tries):
            rounds = attempt // len(endpoints)
            if rounds:
                await asyncio.sleep(self._settings.backoff_ms * 2 ** (rounds - 1) / 1000)
            endpoint = endpoints[(first + attempt) % len(endpoints)]
            answer = await self._tried(client, endpoint, content, check)
            if answer.answer is not None:
                return answer
            failure = answer
        return failure

    async def _tried(self, client: httpx.AsyncClient, endpoint: str, content: bytes, check: Check) -> Answer:
        try:
            # Of the whole exchange: a server that sends a byte now and then never runs into a timeout of httpx.
            async with asyncio.timeout(self._settings.timeout_ms / 1000):
                status, body = await self._posted(client, endpoint, content)
        except TimeoutError:
            return no_answer(UNREACHABLE, f"{endpoint}: no whole answer within {self._settings.timeout_ms} ms")
        except (httpx.HTTPError, httpx.InvalidURL, OSError, ValueError, ExceptionGroup) as error:
            return no_answer(UNREACHABLE, self._scrubbed(f"{endpoint}: {type(error).__name__}: {error}"))
        if status != httpx.codes.OK:
            return no_answer(BAD_ANSWER, f"{endpoint}: status {status}")
        if body is None:
            return no_answer(BAD_ANSWER, f"{endpoint}: more than {MOST_BYTES} bytes")
        return self._said(endpoint, body, check)

    async def _posted(self, client: httpx.AsyncClient, endpoint: str, content: bytes) -> tuple[int, bytes | None]:
        headers = {"Content-Type": "application/json", "Accept-Encoding": "identity", **self._headers}
        body = bytearray()
        async with client.stream("POST", endpoint, content=content, headers=headers) as response:
            async for chunk in response.aiter_raw():
                body += chunk
                if len(body) > MOST_BYTES:
                    return response.status_code, None
        return response.status_code, bytes(body)

    def _said(self, endpoint: str, body: bytes, check: Check) -> Answer:
        said = _state_of(body)
        if said.get("transactionId", check.transaction_id) != check.transaction_id:
            return no_answer(BAD_ANSWER, f"{endpoint}: answers for another transaction")
        state = said.get("state")
        if not isinstance(state, str) or state not in STATES:
            # An endpoint may echo its request: scrubbed before it is cut.
            shown = self._scrubbed(body.decode("utf-8", errors="replace"))[:80]
            return no_answer(BAD_ANSWER, f"{endpoint}: no state of a local transaction: {shown!r}")
        return Answer(STATES[state], in_few_words(state))

    def _scrubbed(self, words: str) -> str:
        return scrubbed(words, [secret for value in self._headers.values() for secret in secrets_of_header(value)])


def payload(check: Check) -> bytes:
    """The check as JSON: `header` as in CHECK_TRANSACTION_STATE (R65), `message` as in the landing contract.

    The message is the half with its real topic and queue, and the number of this check.
    """
    half = check.half
    header = {
        "topic": HALF_TOPIC,
        "tranStateTableOffset": check.tran_state_table_offset,
        "commitLogOffset": check.commit_log_offset,
        "msgId": check.transaction_id,
        "transactionId": check.transaction_id,
        "offsetMsgId": check.offset_msg_id,
        "bname": check.broker_name,
    }
    message = {
        "topic": check.real_topic,
        "queueId": check.real_queue_id,
        "queueOffset": half["queue_offset"],
        "commitLogOffset": half["commit_log_offset"],
        "sysFlag": half["sys_flag"],
        "flag": half["flag"],
        "bornTimestamp": _epoch_ms(half["born_timestamp"]),
        "storeTimestamp": _epoch_ms(half["store_timestamp"]),
        "bornHost": half["born_host"],
        "storeHost": half["store_host"],
        "offsetMsgId": half["offset_msg_id"],
        "reconsumeTimes": half["reconsume_times"],
        "preparedTransactionOffset": half["prepared_transaction_offset"],
        "properties": {**half["properties"], PROPERTY_CHECK_TIMES: str(check.check_times)},
        "bodyBase64": base64.b64encode(half["body"]).decode("ascii"),
    }
    whole = {"producerGroup": check.producer_group, "header": header, "message": message}
    return json.dumps(whole, ensure_ascii=False).encode()


def _state_of(body: bytes) -> dict[str, Any]:
    """What an answer says: a state as plain text or JSON text, or an object with `state`, maybe `transactionId`."""
    text = body.decode("utf-8", errors="replace").strip()
    try:
        said = json.loads(text)
    except (ValueError, RecursionError):
        return {"state": text}
    return said if isinstance(said, dict) else {"state": said}


def _epoch_ms(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)
