"""What is asked of a broker (F6). Reading commits no offset and never speaks for the group of the checks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from txmq_lib.errors import ProtocolError, RefusedError, UsageError
from txmq_lib.names import CHECK_GROUP
from txmq_lib.rocketmq.lenient_json import json_object
from txmq_lib.rocketmq.remoting.connection import LARGE_ANSWER, SUCCESS, Connection
from txmq_lib.rocketmq.remoting.frame import Command
from txmq_lib.rocketmq.set_ups import compaction_topics

SEND_MESSAGE: Final = 10
PULL_MESSAGE: Final = 11
QUERY_CONSUMER_OFFSET: Final = 14
GET_ALL_TOPIC_CONFIG: Final = 21
GET_BROKER_CONFIG: Final = 26
GET_MAX_OFFSET: Final = 30
GET_MIN_OFFSET: Final = 31
END_TRANSACTION: Final = 37
GET_ALL_CONSUMER_OFFSET: Final = 43
RESUME_CHECK_HALF_MESSAGE: Final = 323

CREATES_TOPICS: Final = "TBW102"  # what a topic that is not there is made after
# A broker sends no more in one answer, whatever it is asked for.
MESSAGES_PER_PULL: Final = 32

PULL_NOT_FOUND: Final = 19
PULL_RETRY_IMMEDIATELY: Final = 20
PULL_OFFSET_MOVED: Final = 21
SYSTEM_BUSY: Final = 2

# Carries a subscription; not the bits that commit an offset or let the request wait.
_PULL_SYS_FLAG: Final = 0x4
# Queues of a static topic go by the numbers they have on this broker, not by those over all brokers (R122).
_OF_THIS_BROKER: Final = {"lo": "false"}
_PULLED: Final = (SUCCESS, PULL_NOT_FOUND, PULL_RETRY_IMMEDIATELY, PULL_OFFSET_MOVED)
_HIGHEST_OFFSET: Final = 2**63 - 1


class Queue(NamedTuple):
    """A queue of a topic on the broker that is asked."""

    topic: str
    queue_id: int


@dataclass(frozen=True)
class Pulled:
    """What a pull brought: stored records (F2) as they lie in the commit log, and where to go on.

    is_found  False where there is nothing at this offset, now or any more
    """

    is_found: bool
    next_offset: int
    body: bytes


def pull_request(group: str, queue: Queue, offset: int, count: int) -> Command:
    """Ask for up to `count` messages from an offset on; nothing is committed, and the broker answers at once (R92).

    UsageError for the group whose offsets are the broker's own check cursors (R36).
    """
    if group == CHECK_GROUP:
        raise UsageError(f"{CHECK_GROUP} is the broker's own group: its offsets are the cursors of its checks")
    return Command(
        PULL_MESSAGE,
        {
            "consumerGroup": group,
            "topic": queue.topic,
            "queueId": str(queue.queue_id),
            "queueOffset": str(offset),
            "maxMsgNums": str(min(count, MESSAGES_PER_PULL)),
            "sysFlag": str(_PULL_SYS_FLAG),
            "commitOffset": "0",
            "suspendTimeoutMillis": "0",
            "subscription": "*",
            "subVersion": "0",
            "expressionType": "TAG",
            **_OF_THIS_BROKER,
        },
    )


def pulled(connection: Connection, answer: Command) -> Pulled:
    """What the answer to a pull holds; RefusedError for codes that are none of a pull."""
    if answer.code not in _PULLED:
        raise connection.refusal(answer, "pull")
    return Pulled(answer.code == SUCCESS, _number(connection, answer, "nextBeginOffset"), answer.body)


def max_offsets(connection: Connection, queues: Sequence[Queue]) -> Iterator[int | RefusedError]:
    """Per queue the offset that its next message will have, 0 where there is no such queue; or why it is not told."""
    return _offsets(connection, GET_MAX_OFFSET, queues, "max offset")


def min_offsets(connection: Connection, queues: Sequence[Queue]) -> Iterator[int | RefusedError]:
    """Per queue the lowest offset still kept; or why it is not told."""
    return _offsets(connection, GET_MIN_OFFSET, queues, "min offset")


def broker_config(connection: Connection) -> dict[str, str]:
    """The broker's settings, by RocketMQ's names."""
    answer = connection.ask(Command(GET_BROKER_CONFIG))
    connection.require_success(answer, "broker config")
    pairs = (line.partition("=") for line in answer.body.decode("utf-8", "replace").splitlines())
    return {name.strip(): value.strip() for name, equals, value in pairs if equals}


@dataclass(frozen=True)
class OddTopics:
    """Topics of a broker that do not hold all that was sent to them in queues of its own numbering, by name."""

    compacted: tuple[str, ...]
    static: tuple[str, ...]


def odd_topics(connection: Connection) -> OddTopics:
    """The compaction topics and the static ones among the broker's topics (R122, R123)."""
    answer = connection.ask(Command(GET_ALL_TOPIC_CONFIG), most_bytes=LARGE_ANSWER)
    connection.require_success(answer, "topic configs")
    document = json_object(answer.body)
    if document is None:
        raise ProtocolError(f"{connection.address}: topic configs that are no JSON object")
    static = document.get("topicQueueMappingDetailMap")
    return OddTopics(
        tuple(compaction_topics(document.get("topicConfigTable"))),
        tuple(sorted(static)) if isinstance(static, dict) else (),
    )


def all_consumer_offsets(connection: Connection) -> bytes:
    """The broker's table of consumer offsets, as rocketmq/store/consumer_offset_file.py reads it (R89)."""
    answer = connection.ask(Command(GET_ALL_CONSUMER_OFFSET), most_bytes=LARGE_ANSWER)
    connection.require_success(answer, "consumer offsets")
    return answer.body


def check_offsets(connection: Connection, half_queues: Sequence[Queue]) -> dict[int, int]:
    """Where the broker's own checks stand in its half queues (R36), by queue id, of those of which it tells."""
    requests = (
        Command(QUERY_CONSUMER_OFFSET, {"consumerGroup": CHECK_GROUP, "topic": topic, "queueId": str(queue_id)})
        for topic, queue_id in half_queues
    )
    answers = zip(half_queues, connection.ask_all(requests), strict=True)
    return {
        queue.queue_id: _number(connection, answer, "offset") for queue, answer in answers if answer.code == SUCCESS
    }


@dataclass(frozen=True)
class End:
    """An END_TRANSACTION that answers a check: `commit_or_rollback` is 8 or 12; the half is told by both offsets."""

    producer_group: str
    tran_state_table_offset: int
    commit_log_offset: int
    commit_or_rollback: int
    transaction_id: str
    topic: str


def end_transaction(connection: Connection, end: End) -> Command:
    """The broker's answer to an end, whatever its code (R11 to R18); success says accepted, not yet visible."""
    return connection.ask(
        Command(
            END_TRANSACTION,
            {
                "producerGroup": end.producer_group,
                "tranStateTableOffset": str(end.tran_state_table_offset),
                "commitLogOffset": str(end.commit_log_offset),
                "commitOrRollback": str(end.commit_or_rollback),
                "fromTransactionCheck": "true",  # it answers a check, so that no immunity refuses it (R15)
                "msgId": end.transaction_id,
                "transactionId": end.transaction_id,
                "topic": end.topic,
            },
        )
    )


@dataclass(frozen=True)
class Letter:
    """A message to send to a queue of a topic; queue -1: the broker chooses."""

    producer_group: str
    topic: str
    queue_id: int
    flag: int
    born_ms: int
    properties: Mapping[str, str]
    body: bytes


def send_message(connection: Connection, letter: Letter) -> Command:
    """The broker's answer to a plain message, whatever its code; success says that it is stored."""
    return connection.ask(
        Command(
            SEND_MESSAGE,
            {
                "producerGroup": letter.producer_group,
                "topic": letter.topic,
                "defaultTopic": CREATES_TOPICS,
                "defaultTopicQueueNums": "4",
                "queueId": str(letter.queue_id),
                "sysFlag": "0",
                "bornTimestamp": str(letter.born_ms),
                "flag": str(letter.flag),
                "properties": "".join(f"{name}\x01{value}\x02" for name, value in letter.properties.items()),
                "reconsumeTimes": "0",
                "unitMode": "false",
                "batch": "false",
            },
            letter.body,
        )
    )


def resume_check(connection: Connection, *, offset_msg_id: str, topic: str) -> Command:
    """The broker's answer to putting the message with this offset id back under check, whatever its code (R73, R74)."""
    return connection.ask(Command(RESUME_CHECK_HALF_MESSAGE, {"msgId": offset_msg_id, "topic": topic}))


def _offsets(connection: Connection, code: int, queues: Sequence[Queue], request: str) -> Iterator[int | RefusedError]:
    requests = (
        Command(code, {"topic": queue.topic, "queueId": str(queue.queue_id), **_OF_THIS_BROKER}) for queue in queues
    )
    for queue, answer in zip(queues, connection.ask_all(requests), strict=True):
        if answer.code == SUCCESS:
            yield max(_number(connection, answer, "offset"), 0)  # -1 stands for none
        else:
            yield connection.refusal(answer, f"{request} of {queue.topic} queue {queue.queue_id}")


def _number(connection: Connection, answer: Command, name: str) -> int:
    text = answer.fields.get(name, "")
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= 19) or abs(int(text)) > _HIGHEST_OFFSET:
        raise ProtocolError(f"{connection.address}: {name} of an answer is no offset: {text[:40]!r}")
    return int(text)
