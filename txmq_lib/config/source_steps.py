"""What the landing of each configured source is called among the steps of a run."""

from __future__ import annotations

from collections.abc import Iterable

from txmq_lib.config.sections import Source

STORE, ROCKETMQ = "store", "rocketmq"


def step_of_brokers(source: Source) -> str:
    """Live brokers: their queues, and in a cycle their consumer offsets too."""
    return f"land {ROCKETMQ} {_addresses(source)}"


def step_of_offsets(source: Source) -> str:
    """The consumer offsets of live brokers, which `txmq serve` lands apart."""
    return f"land offsets of {ROCKETMQ} {_addresses(source)}"


def step_of_store(path: str) -> str:
    """One store directory."""
    return f"land {STORE} {path}"


def step_of_files(source: Source) -> str:
    """Files of one kind and one broker."""
    return f"land {source.kind} {' '.join(source.paths or ())}"


def is_step_of_source(step: str) -> bool:
    """Whether a step landed a source: the commands that land by hand are steps of two words."""
    return step.startswith("land ") and step.count(" ") > 1


def steps_of_sources(sources: Iterable[Source]) -> frozenset[str]:
    """The steps of all of them."""
    steps: set[str] = set()
    for source in sources:
        if source.kind == ROCKETMQ:
            steps |= {step_of_brokers(source), step_of_offsets(source)}
        elif source.kind == STORE:
            steps |= {step_of_store(path) for path in source.paths or ()}
        else:
            steps.add(step_of_files(source))
    return frozenset(steps)


def _addresses(source: Source) -> str:
    return " ".join(source.namesrv or ())
