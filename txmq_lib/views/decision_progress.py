"""How far a decision has come that somebody made of an undecided transaction, and what comes next. Reads nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from txmq_lib import names
from txmq_lib.views.story import Event

# A plan of these is already there: the command sends what was recorded, and asks for no reason again.
SEND = {
    names.COMMIT: "txmq settle {id} --commit --reason TEXT --to-broker --namesrv HOST:PORT --apply",
    names.ROLLBACK: "txmq settle {id} --rollback --reason TEXT --to-broker --namesrv HOST:PORT --apply",
    names.ACTION_RESUME: "txmq resume {id} --to-broker --namesrv HOST:PORT --apply",
    names.ACTION_RESEND: "txmq resend {id} --reason TEXT --namesrv HOST:PORT --apply",
}
LAND = "land its broker again, then txmq audit: the verdict changes when what the broker writes has landed"
# What became of a request, and what to do then.
SENT = {
    names.REQUEST_ACCEPTED: ("{action} sent, its broker took it", LAND),
    names.REQUEST_SENDING: ("{action} may have been sent, and is not sent again", LAND),
    names.REQUEST_UNANSWERED: (
        "{action} sent, its broker did not answer: it may have arrived, and is not sent again",
        LAND,
    ),
    names.REQUEST_REFUSED: ("{action} sent, its broker refused it", "the answer is told above; txmq sent lists it"),
    names.REQUEST_NOT_SENT: ("{action} recorded, and not sent", "send it: {send}"),
}
# The broker has it as a new message: the transaction itself stays what it was.
RESENT = ("its body was sent to its real topic again, its broker took it", "nothing: its consumers get it under its id")


@dataclass(frozen=True)
class Decided:
    """What was decided of a transaction that its verdict calls undecided; how far that is, and the next step."""

    stands: str
    to_do: str


def decided(verdict: str, events: Sequence[Event]) -> Decided | None:
    """The last decision of a story that its verdict does not show yet; None where there is none.

    A resume is shown by any verdict but a given-up one, and used up once its copy of the half, or the next giving up,
    is there.
    """
    shows = ("half_message", "trans_check_max_time")
    shown = max((event.time or "" for event in events if event.table in shows), default="")
    standing = [event for event in events if _stands(event, verdict, shown)]
    requests = [event for event in standing if event.table == "broker_request"]
    holding = (names.ACTION_HOLD, names.ACTION_RELEASE)  # these decide nothing
    made = [each for each in standing if each.table == "manual_decision" and each.row["action"] not in holding]
    if requests:
        last = requests[-1].row
        stands, to_do = SENT[last["state"]]
        if (last["action"], last["state"]) == (names.ACTION_RESEND, names.REQUEST_ACCEPTED):
            stands, to_do = RESENT
    elif made:
        last = made[-1].row
        stands, to_do = _recorded(last["action"], is_brokers=last["is_planned_for_broker"])
    else:
        return None
    named = {"action": last["action"], "send": SEND[last["action"]]}
    # The id is filled in by whoever shows it.
    return Decided(stands.format(**named), to_do.replace("{send}", named["send"]))


def _recorded(action: str, *, is_brokers: bool) -> tuple[str, str]:
    if is_brokers:
        return "{action} recorded, and not sent to its broker", "send it: {send}"
    step = "asks from the first check on" if action == names.ACTION_RESUME else "applies it"
    return "{action} recorded", f"txmq reconcile {step}, txmq audit tells it"


def _stands(event: Event, verdict: str, shown: str) -> bool:
    is_resume = event.row.get("action") == names.ACTION_RESUME
    return not is_resume or (verdict in names.GIVEN_UP_VERDICTS and (event.time or "") >= shown)
