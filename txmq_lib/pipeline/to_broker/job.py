"""The to_broker job: sends what was decided to the brokers that decide, and records what they answer.

Sending is no function of the plan, and a broker takes each commit for a new message (R18). So each request is recorded
before it goes out, and what was recorded is never sent again unless it is known not to have left. A plan met
unfinished is closed, not carried on: a request without an outcome may have arrived. Accepted is not visible yet: the
verdict changes when the message has landed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from datetime import datetime

from txmq_lib.config.settings import Settings
from txmq_lib.delta.conform import rows_at_hand
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.errors import RemotingError
from txmq_lib.names import (
    ACTION_RESEND,
    ACTION_RESUME,
    COMMIT,
    END_COMMIT,
    END_ROLLBACK,
    HALF_TOPIC,
    JOB_TO_BROKER,
    MAX_TIME_TOPIC,
    REQUEST_ACCEPTED,
    REQUEST_NOT_SENT,
    REQUEST_REFUSED,
    REQUEST_SENDING,
    REQUEST_UNANSWERED,
    ROLLBACK,
)
from txmq_lib.passes.current import Pass, PassReport
from txmq_lib.passes.job import job_of_steps
from txmq_lib.passes.runner import run_passes
from txmq_lib.pipeline.decision_request import ToSend
from txmq_lib.pipeline.land.live.live_brokers import access_of
from txmq_lib.pipeline.shared.roles import require_same_role
from txmq_lib.pipeline.to_broker.planned import REQUESTS, Request, findings_of_left_out, planned_requests
from txmq_lib.pipeline.to_broker.resending import letters, place_of
from txmq_lib.rocketmq.remoting.broker import End, Letter, end_transaction, resume_check, send_message
from txmq_lib.rocketmq.remoting.connection import SUCCESS, Access, Connection
from txmq_lib.rocketmq.remoting.frame import Command
from txmq_lib.rocketmq.remoting.name_server import name_server, routes

JOB = JOB_TO_BROKER
REQUESTS_PER_WRITE = 50
GIVEN_UP_UNSENT = "another process gave this plan up"
END_CODE = {COMMIT: END_COMMIT, ROLLBACK: END_ROLLBACK}


@dataclass
class _Brokers:
    """Connections to masters, made when first needed; by broker name a Connection, or why there is none."""

    addresses: Mapping[str, str]
    access: Access
    stack: ExitStack
    found: dict[str, Connection | str] = field(default_factory=dict)

    def connection(self, broker_name: str) -> Connection | str:
        """The connection to a broker's master, or why there is none."""
        if broker_name not in self.found:
            address = self.addresses.get(broker_name)
            if address is None:
                self.found[broker_name] = "the name servers know of no master of it"
            else:
                try:
                    self.found[broker_name] = self.stack.enter_context(Connection(address, self.access))
                except RemotingError as failure:
                    self.found[broker_name] = failure.message
        return self.found[broker_name]

    def give_up(self, broker_name: str, why: str) -> None:
        """Ask it no more in this pass: what a broker that hangs was sent may have arrived, and is never sent again."""
        self.found[broker_name] = why


def run_to_broker(
    warehouse: Warehouse,
    settings: Settings,
    to_send: ToSend,
    *,
    name_servers: Sequence[str],
    now: datetime,
    wall_clock: Callable[[], datetime],
    environ: Mapping[str, str],
) -> PassReport:
    """Send what was decided for brokers in the audit role and is undecided still, each once.

    Counts: accepted, refused, unanswered, not_sent.

    Errors  UnreachableError where no name server answers; SettingsError where a key for ACL is missing
    """
    access = access_of(settings, environ)
    requests: list[Request] = []
    outcomes: list[Request] = []
    others: list[str] = []

    def is_idle(current: Pass) -> bool:
        requests[:] = planned_requests(current)
        others[:] = findings_of_left_out(current, requests)
        return not requests

    def work(current: Pass) -> PassReport:
        if not current.is_own:
            return _closed(current)
        # Its plan reads what `is_idle` has read.
        outcomes[:] = _sent(current, requests, name_servers, access)
        return current.commit(Counter(row["state"] for row in outcomes))

    job = job_of_steps(JOB, work, is_idle=is_idle, require=require_same_role)
    report = run_passes(
        warehouse, job, now=now, settings=settings, wall_clock=wall_clock, arguments=to_send.to_arguments
    )
    counts = {name: count for name, count in report.counts.items() if not name.startswith((REQUEST_SENDING, "outcome"))}
    return replace(report, counts=counts, findings=(*others, *_findings(outcomes)))


def _findings(outcomes: Sequence[Request]) -> Iterator[str]:
    for row in outcomes:
        if row["state"] != REQUEST_ACCEPTED:
            code = "" if row["code"] is None else f" (code {row['code']})"
            what = f"{row['action']} of {row['transaction_id']} on {row['broker_name']}"
            yield f"{what}: {row['state']}{code}: {row['remark']}"
    taken = [row["action"] for row in outcomes if row["state"] == REQUEST_ACCEPTED]
    if ACTION_RESEND in taken:
        yield "sent again: consumers get it as a new message with the same UNIQ_KEY; the verdict stays what it is"
    elif taken:
        yield "accepted is not visible yet: the verdict changes when what the broker writes has landed"


def _sent(current: Pass, requests: Sequence[Request], name_servers: Sequence[str], access: Access) -> list[Request]:
    """The outcome of every request, each recorded before and after it is sent."""
    outcomes: list[Request] = []
    with ExitStack() as stack:
        brokers = _Brokers(_masters(name_servers, access), access, stack)
        for number, start in enumerate(range(0, len(requests), REQUESTS_PER_WRITE), start=1):
            part = [
                {**row, "address": brokers.addresses.get(row["broker_name"])}
                for row in requests[start : start + REQUESTS_PER_WRITE]
            ]
            # Before anything says that they may have been sent.
            found = letters(current, part)
            _record(current, [{**row, "state": REQUEST_SENDING} for row in part], f"{REQUEST_SENDING}_{number:06}")
            current.make_durable()
            # Who gave this plan up has made one of its own, maybe before that record of ours was there to see.
            if current.is_abandoned:
                results = [{**row, "state": REQUEST_NOT_SENT, "remark": GIVEN_UP_UNSENT} for row in part]
            else:
                with current.timed("send"):
                    results = [_outcome(brokers, row, found.get(place_of(row))) for row in part]
            _record_outcome(current, results, f"outcome_{number:06}")
            outcomes += results
    return outcomes


def _masters(name_servers: Sequence[str], access: Access) -> dict[str, str]:
    with name_server(name_servers, access) as connection:
        ((_, route),) = routes(connection, [HALF_TOPIC])
    masters = {name: route.master(name) for name in route.addresses} if route is not None else {}
    return {name: address for name, address in masters.items() if address is not None}


def _outcome(brokers: _Brokers, row: Request, letter: Letter | None) -> Request:
    if letter is None and row["action"] == ACTION_RESEND:
        return {**row, "state": REQUEST_NOT_SENT, "remark": "its half is not in the tables any more"}
    connection = brokers.connection(row["broker_name"])
    if isinstance(connection, str):
        return {**row, "state": REQUEST_NOT_SENT, "remark": connection}
    try:
        answer = _ask(connection, row) if letter is None else send_message(connection, letter)
    except RemotingError as failure:
        brokers.give_up(row["broker_name"], failure.message)
        return {**row, "state": REQUEST_UNANSWERED, "remark": failure.message}
    state = REQUEST_ACCEPTED if answer.code == SUCCESS else REQUEST_REFUSED
    return {**row, "state": state, "code": answer.code, "remark": answer.remark}


def _ask(connection: Connection, row: Request) -> Command:
    if row["action"] == ACTION_RESUME:
        return resume_check(connection, offset_msg_id=row["offset_msg_id"], topic=MAX_TIME_TOPIC)
    end = End(
        producer_group=row["producer_group"] or "",
        tran_state_table_offset=row["tran_state_table_offset"],
        commit_log_offset=row["commit_log_offset"],
        commit_or_rollback=END_CODE[row["action"]],
        transaction_id=row["transaction_id"],
        topic=row["real_topic"] or "",
    )
    return end_transaction(connection, end)


def _record(current: Pass, rows: Sequence[Request], step: str, *, even_if_abandoned: bool = False) -> None:
    current.append(REQUESTS, rows_at_hand(REQUESTS, rows), step=step, even_if_abandoned=even_if_abandoned)


def _record_outcome(current: Pass, rows: Sequence[Request], step: str) -> None:
    """What became of requests; where another process has given the plan up, PassConflict once that is recorded."""
    if not current.is_abandoned:
        _record(current, rows, step, even_if_abandoned=True)
    else:
        # A step of this name may have landed under a later pass: Delta would leave this one out.
        _record(current, rows, f"{step}_of_{current.number}", even_if_abandoned=True)
    current.require_open()


def _closed(current: Pass) -> PassReport:
    """End a plan that another process left, or is at work on: it sends nothing more. What it recorded stands."""
    current.abandon()
    return PassReport(current.job, current.number, {}, {})
