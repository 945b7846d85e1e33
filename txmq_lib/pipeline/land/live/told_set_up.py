"""How a live broker is set up, in words, before anything of it lands."""

from __future__ import annotations

from collections.abc import Collection

from txmq_lib.config.sections import BrokerPolicy
from txmq_lib.errors import RemotingError
from txmq_lib.pipeline.land.broker_state.broker_settings import set_up_findings, settings_findings
from txmq_lib.pipeline.land.live.live_brokers import LiveBroker
from txmq_lib.rocketmq.remoting.broker import broker_config, odd_topics
from txmq_lib.rocketmq.remoting.connection import Access, Connection
from txmq_lib.rocketmq.set_ups import COMPACTION, STATIC_TOPICS, live_set_ups

NAMED = 3  # topics of a kind that are named


def set_up_words(broker: LiveBroker, policy: BrokerPolicy, access: Access) -> list[str]:
    """In what a live broker is not set up as by default or as the settings have it, as its landing would find it."""
    try:
        with Connection(str(broker.address), access) as connection:
            config, odd = broker_config(connection), odd_topics(connection)
    except RemotingError as error:
        return [f"how it is set up could not be read: {error.message}"]
    explanations = list(set_up_findings(config))
    explained = {words.partition(": ")[0] for words in explanations}
    landed_topics = {queue.topic for queue in broker.queues}
    return [
        *(name for name in live_set_ups(config) if name not in explained),
        *_of_topics(STATIC_TOPICS, landed_topics & {*odd.static}),
        *_of_topics(COMPACTION, landed_topics & {*odd.compacted}),
        *explanations,
        *settings_findings(config, policy),
    ]


def _of_topics(name: str, topics: Collection[str]) -> list[str]:
    more = f" and {len(topics) - NAMED:,} more" if len(topics) > NAMED else ""
    return [f"{name}: {', '.join(sorted(topics)[:NAMED])}{more}"] if topics else []
