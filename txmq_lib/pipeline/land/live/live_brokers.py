"""Which live brokers there are, which of their queues are wanted, and how each is reached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from txmq_lib.config.secrets import missing_variables
from txmq_lib.config.settings import Settings
from txmq_lib.errors import ProtocolError, SettingsError, UsageError
from txmq_lib.names import HALF_TOPIC, HALF_TOPICS, OP_TOPIC, SYSTEM_TOPIC_PREFIX, SYSTEM_TOPICS
from txmq_lib.pipeline.land.topics import ALWAYS_LANDED, is_landed_topic
from txmq_lib.rocketmq.remoting.broker import Queue, max_offsets, pull_request, pulled
from txmq_lib.rocketmq.remoting.connection import Access, Connection, Tls
from txmq_lib.rocketmq.remoting.name_server import name_server, routes, topics
from txmq_lib.rocketmq.remoting.signature import Credentials

# Of all brokers that one name server tells of; the queues of those that are wanted.
MOST_BROKERS = 1_000
MOST_QUEUES = 500_000


@dataclass(frozen=True)
class LiveBroker:
    """A broker as the name servers know it: its master's address (None: it has none now) and its wanted queues.

    unreadable  wanted topics that may not be read on it
    """

    name: str
    address: str | None
    queues: tuple[Queue, ...]
    unreadable: tuple[str, ...]


@dataclass
class _Found:
    address: str | None = None
    queues: list[Queue] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)

    def named(self, name: str) -> LiveBroker:
        """The broker as it was found."""
        return LiveBroker(name, self.address, tuple(self.queues), tuple(self.unreadable))


def access_of(settings: Settings, environ: Mapping[str, str]) -> Access:
    """How the settings say that brokers are reached; SettingsError where a key for ACL is not named or not there."""
    ours = settings.rocketmq
    if (ours.access_key_env is None) != (ours.secret_key_env is None):
        raise SettingsError(["rocketmq: needs both of access_key_env and secret_key_env, or neither"])
    named = {"rocketmq.access_key_env": ours.access_key_env, "rocketmq.secret_key_env": ours.secret_key_env}
    variables = {key: variable for key, variable in named.items() if variable is not None}
    if missing := missing_variables(variables, environ):
        raise SettingsError(missing)
    keys = [environ[variable] for variable in variables.values()]
    return Access(
        timeout=ours.timeout_ms / 1000,
        credentials=Credentials(*keys) if keys else None,
        tls=Tls(ours.ca_file, ours.checks_host_name) if ours.tls else None,
    )


def is_wanted(topic: str, patterns: Sequence[str]) -> bool:
    """Whether a topic is landed: those of transactions always, RocketMQ's own never, real ones as land.topics says."""
    if topic in ALWAYS_LANDED:
        return True
    is_system = topic in SYSTEM_TOPICS or topic.lower().startswith(SYSTEM_TOPIC_PREFIX)
    return not is_system and is_landed_topic(topic, patterns)


def require_name_server(name_servers: Sequence[str], access: Access) -> None:
    """UnreachableError where none of them answers."""
    with name_server(name_servers, access):
        pass


def require_readable(broker: LiveBroker, access: Access, *, group: str) -> None:
    """RemotingError where a broker that has a master does not let its halves be read; pulls at their end."""
    if broker.address is None:
        return
    with Connection(broker.address, access) as connection:
        for queue in [each for each in broker.queues if each.topic in HALF_TOPICS][:1]:
            (end,) = max_offsets(connection, [queue])
            if not isinstance(end, int):
                raise end
            pulled(connection, connection.ask(pull_request(group, queue, end, 1)))


def live_brokers(
    name_servers: Sequence[str],
    access: Access,
    *,
    patterns: Sequence[str],
    besides: Sequence[str] = (),
    named: Sequence[str] = (),
) -> list[LiveBroker]:
    """Every broker that has half messages, or those `named`, by name.

    patterns, besides  the real topics that are landed, and others by their names

    Errors  UnreachableError where no name server answers; UsageError where a wanted broker is not known;
            ProtocolError where there are more brokers or queues than anybody has
    """
    found: dict[str, _Found] = {}
    queue_count = 0
    with name_server(name_servers, access) as connection:
        chosen = [topic for topic in topics(connection) if is_wanted(topic, patterns) or topic in besides]
        for topic, route in routes(connection, sorted({HALF_TOPIC, *chosen})):
            if route is None:
                continue
            for broker_name, count in route.read_queues.items():
                broker = found.setdefault(broker_name, _Found())
                broker.address = broker.address or route.master(broker_name)
                if len(found) > MOST_BROKERS:
                    raise ProtocolError(f"{connection.address}: tells of more than {MOST_BROKERS:,} brokers")
                if named and broker_name not in named:
                    continue
                queue_count += max(count, 1)
                if queue_count > MOST_QUEUES:
                    raise ProtocolError(
                        f"{connection.address}: tells of more than {MOST_QUEUES:,} queues:"
                        " narrow land.topics, or land brokers one by one"
                    )
                broker.queues += [Queue(topic, queue_id) for queue_id in range(count)]
                broker.unreadable += [] if count else [topic]
    for broker in found.values():
        broker.queues += _untold_op_queues(broker)
    if unknown := sorted(set(named) - set(found)):
        raise UsageError(
            f"the name servers know no broker {', '.join(unknown)}; they know {', '.join(sorted(found)) or 'none'}"
        )
    serving = [name for name, broker in found.items() if any(queue.topic in HALF_TOPICS for queue in broker.queues)]
    return [found[name].named(name) for name in sorted(set(named) or serving)]


def _untold_op_queues(broker: _Found) -> list[Queue]:
    """The op queues that no name server tells of (4.9 registers none): each half queue has its own (R28)."""
    if OP_TOPIC in {*(queue.topic for queue in broker.queues), *broker.unreadable}:
        return []
    return [Queue(OP_TOPIC, queue.queue_id) for queue in broker.queues if queue.topic == HALF_TOPIC]
