"""What `txmq doctor` finds of the sources: paths, name servers and brokers that answer, secrets that are set."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from txmq_lib.answers.credentials import missing_secrets
from txmq_lib.cli.run.alert import webhook_faults
from txmq_lib.cli.run.before_spark import access_faults, require_store
from txmq_lib.cli.run.findings import FAIL, OK, WARN, Finding
from txmq_lib.cli.run.warehouse_findings import SAY_ROLE
from txmq_lib.config.sections import Source
from txmq_lib.config.settings import Settings
from txmq_lib.config.source_steps import STORE
from txmq_lib.errors import TxmqError
from txmq_lib.rocketmq.store.far_files import is_far
from txmq_lib.rocketmq.store.set_up import set_up_of

if TYPE_CHECKING:
    from txmq_lib.pipeline.land.live.live_brokers import LiveBroker

LIVE = "rocketmq"


def secret_findings(settings: Settings, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Every variable and file in which the settings say that a secret is: of brokers, resolvers and the webhook."""
    faults = [*access_faults(settings, environ), *missing_secrets(settings, environ)]
    if settings.alerts.url_env is not None:
        faults += webhook_faults(settings.alerts, environ)
    for fault in faults:
        yield Finding("secrets", FAIL, fault, "set it in the environment that starts txmq")


def source_findings(settings: Settings, environ: Mapping[str, str]) -> Iterator[Finding]:
    """Every path of the sources leads to something that can be read; every live broker answers."""
    if not settings.sources:
        yield Finding("sources", OK, "none configured: `txmq run` lands nothing, `txmq land` what it is given")
    for source in settings.sources:
        if source.kind == LIVE:
            yield from live_findings(settings, source, environ)
        for path in source.paths or ():
            yield path_finding(source, path)


def path_finding(source: Source, path: str) -> Finding:
    """One path of one source."""
    words = f"{source.kind} of {source.broker}: {path}"
    if source.kind == STORE and is_far(path):
        return far_store_finding(path, words)
    if "://" in path.removeprefix("file://"):
        return Finding("sources", WARN, f"{words} is not on this machine", "not looked at")
    found = glob.glob(path.removeprefix("file://"))
    if not found:
        # Files may come later; without its store `run` ends.
        state = FAIL if source.kind == STORE else WARN
        return Finding(
            "sources", state, f"{words} does not exist", "mend the path, if something should be there by now"
        )
    closed = [each for each in found if not os.access(each, os.R_OK | (os.X_OK if os.path.isdir(each) else 0))]
    if closed:
        return Finding("sources", FAIL, f"{words}: {closed[0]} cannot be read", "let this user read it")
    if source.kind == STORE:
        for each in found:
            set_up = set_up_of(each)
            for trait in set_up.refused:
                return Finding("sources", FAIL, f"{words}: {trait.name}: {trait.words}", trait.to_do)
            for trait in set_up.notable:
                words += f"; {trait.name}: {trait.words}"
    if source.kind == STORE and not all(Path(each, "commitlog").is_dir() for each in found):
        advice = "name the directory above commitlog (storePathRootDir)"
        return Finding("sources", FAIL, f"{words} has no directory commitlog", advice)
    return Finding("sources", OK, words)


def far_store_finding(path: str, words: str) -> Finding:
    """A store on an object store."""
    try:
        require_store(path)
        notable = set_up_of(path).notable
    except TxmqError as error:
        return Finding("sources", FAIL, f"{words}: {error.message}", "mend the URI, or what is there")
    return Finding("sources", OK, "; ".join([words, *(f"{trait.name}: {trait.words}" for trait in notable)]))


def live_findings(settings: Settings, source: Source, environ: Mapping[str, str]) -> Iterator[Finding]:
    """A name server of the source answers, and so does each broker it tells of, to whom a run would ask."""
    from txmq_lib.pipeline.land.live.live_brokers import access_of, live_brokers, require_readable
    from txmq_lib.pipeline.land.live.told_set_up import set_up_words

    addresses = source.namesrv or ()
    words = f"{LIVE} {' '.join(addresses)}"
    if access_faults(settings, environ):
        yield Finding("sources", WARN, f"{words} is not looked at", "first set the keys that are missing")
        return
    access = access_of(settings, environ)
    named = () if source.broker is None else (source.broker,)
    try:
        brokers = live_brokers(addresses, access, patterns=settings.land.topics, named=named)
    except TxmqError as error:
        yield Finding("sources", FAIL, f"{words}: {error.message}", "start it, or mend `namesrv` or `broker`")
        return
    if not brokers:
        yield Finding("sources", WARN, f"{words}: no broker with half messages", "nothing lands before there is one")
    ask = partial(require_readable, access=access, group=settings.rocketmq.consumer_group)
    for broker in brokers:
        say = partial(set_up_words, policy=settings.for_broker(broker.name), access=access)
        yield broker_finding(broker, words, ask, say)
        if source.broker is None and settings.said_role(broker.name) is None:  # else told with the other roles
            yield Finding("role", FAIL, f"{broker.name}: nobody has said its role", SAY_ROLE)


def broker_finding(
    broker: LiveBroker, words: str, ask: Callable[[LiveBroker], None], say: Callable[[LiveBroker], list[str]]
) -> Finding:
    """One live broker has a master, and lets its halves be read: `ask` raises where it does not. `say` tells how it is
    set up."""
    words = f"{words}: {broker.name}"
    if broker.address is None:
        return Finding("sources", FAIL, f"{words} has no master", "start it: only a master is read")
    try:
        ask(broker)
    except TxmqError as error:
        return Finding("sources", FAIL, f"{words}: {error.message}", "let this machine and its account read the broker")
    answers = f"{words} at {broker.address} answers; {len(broker.queues)} queues to read"
    return Finding("sources", OK, "; ".join([answers, *say(broker)]))
