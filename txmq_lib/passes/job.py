"""A job: what its passes read, decide and write."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from txmq_lib.passes.current import Pass, PassReport

Inputs = TypeVar("Inputs")
Decided = TypeVar("Decided")


def _nothing(current: Pass) -> None:
    return None


@dataclass(frozen=True, kw_only=True)
class Job(Generic[Inputs, Decided]):
    """One kind of pass. `inputs` reads as the plan pinned it, `decide` applies rules, `write` writes each step once.
    Where rows are many, `decide` may write a table ahead (`Writer.append_ahead`).

    begin        what is written before anything else, whatever there is to read
    is_idle      whether our own pass would find nothing to do: then it leaves no trace, and its report says `idle`
    input_bytes  how much a pass has to work on, None for much; a job without it is planned as the session is
    require      raises RoleChanged where the settings give a broker another role than its rows were made under: before
                 our own plan is recorded; one of others is abandoned
    abandons_occupied  where a step of a plan of others is occupied its work abandons the plan; else it is not begun
    lands_again  the job does only what is missing: where its inputs are gone an unfinished pass may be abandoned
    """

    name: str
    inputs: Callable[[Pass], Inputs]
    decide: Callable[[Pass, Inputs], Decided]
    write: Callable[[Pass, Decided], PassReport]
    begin: Callable[[Pass], None] = _nothing
    is_idle: Callable[[Pass], bool] | None = None
    input_bytes: Callable[[Pass], int | None] | None = None
    require: Callable[[Pass], None] = _nothing
    abandons_occupied: bool = False
    lands_again: bool = False

    def run(self, current: Pass) -> PassReport:
        """One pass, from its plan to its commit."""
        self.begin(current)
        return self.write(current, self.decide(current, self.inputs(current)))


def job_of_steps(name: str, work: Callable[[Pass], PassReport], **fields: Any) -> Job[None, None]:  # noqa: ANN401
    """A job whose steps read what those before have written, so that they are one function; `fields` as in `Job`."""
    return Job(
        name=name,
        inputs=_nothing,
        decide=lambda current, inputs: None,
        write=lambda current, decided: work(current),
        **fields,
    )
