"""What is wrong in the figures of a status: past a limit first, then all else to look at. Limits are given."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from datetime import timedelta

from txmq_lib import names
from txmq_lib.escaping import shortened
from txmq_lib.views.limits import Limits, Problem, past, past_span
from txmq_lib.views.select import state_options
from txmq_lib.views.status import Status, span_text

# What each verdict that somebody should look at means; the others are how transactions should end.
TROUBLES = {
    names.DUPLICATED: "visible more than once",
    names.CONFLICT: "committed and contradicted",
    names.COMMITTED_OP_LOST: "visible, the op lost: a second delivery may come",
    names.DISCARDED: "given up, nobody decided",
    names.DISCARDED_UNSEEN: "given up without a trace, nobody decided",
    names.DIVERTED: "lost to a delay or timer property",
    names.EXPIRED_UNSEEN: "expired, never seen by a check",
}
# How far what somebody decided has come, while the verdict does not show it (`decision` of the view verdicts).
DECIDED = {
    "recorded": ("decided by hand: reconcile, then audit", "decisions"),
    "to be sent": ("decided by hand, not sent to their broker", "decisions"),
    names.REQUEST_NOT_SENT: ("decided by hand, not sent to their broker", f"sent --state {names.REQUEST_NOT_SENT}"),
    names.REQUEST_REFUSED: ("sent, and refused by their broker", f"sent --state {names.REQUEST_REFUSED}"),
    names.REQUEST_ACCEPTED: ("taken by their broker: land, then audit", f"sent --state {names.REQUEST_ACCEPTED}"),
    names.REQUEST_UNANSWERED: ("sent, unanswered: land, then audit", f"sent --state {names.REQUEST_UNANSWERED}"),
    names.REQUEST_SENDING: ("sent, maybe: land, then audit", f"sent --state {names.REQUEST_SENDING}"),
}
RESENT = f"{names.ACTION_RESEND} {names.REQUEST_ACCEPTED}"
LAG_TROUBLES = {
    names.LAG_STOPPED: "stopped: messages wait, nobody reports",
    names.LAG_STALLED: "stalled: messages wait, the offset does not move",
    names.LAG_FALLING_BEHIND: "falling behind",
    names.LAG_REWOUND: "rewound, not back yet",
    names.LAG_AHEAD: "ahead of the end of the queue",
    names.LAG_BELOW_OLDEST: "below the oldest message kept",
    names.LAG_NEVER_COMMITTED: "never committed by their group",
}
# Of these the ones in which a group does not go on, or loses messages: `lag_states` counts their queues.
HALTED = (names.LAG_BELOW_OLDEST, names.LAG_STOPPED, names.LAG_STALLED)
# A command that failed, and that nobody has run since, is a problem for so long.
FAILING_FOR = timedelta(days=7)
LONGEST_ERROR = 100
OF_PRODUCERS, OF_CONSUMERS, OF_BROKERS = "producer_groups", "consumer_groups", "brokers"


def problems(status: Status, limits: Limits) -> list[Problem]:
    """Everything to look at, what is past a limit first."""
    past = [*_past_limits(status, limits)]
    found = [*past, *_worst(status, {each.condition.partition(" ")[0] for each in past}), *_plain(status)]
    return [*(each for each in found if each.limit), *(each for each in found if not each.limit)]


def _past_limits(status: Status, limits: Limits) -> Iterator[Problem]:
    yield from _pending(status, limits)
    yield from _decided(status, limits)
    yield from _unread(status, limits)
    yield from _consumers(status, limits)
    yield from _landing(status, limits)
    yield from _runs(status, limits)


def _pending(status: Status, limits: Limits) -> Iterator[Problem]:
    own = limits.producer_groups
    rest = [group for group in status.pending if "pending" not in own.get(group.producer_group or "", ())]
    count = sum(group.count for group in rest)
    yield from past("pending", count, limits.pending, "transactions undecided", "pending")
    rest = [group for group in status.pending if "pending_age_ms" not in own.get(group.producer_group or "", ())]
    # What was decided since the newest landing nobody knows here; that there is none is told by no_landing.
    at = min(status.now, max((each.last_landed for each in status.landings), default=status.now))
    oldest = min((group.oldest_asked_timestamp or at for group in rest), default=at)
    what = "the oldest undecided transaction"
    yield from past_span("pending_age", at - oldest, limits.pending_age_ms, what, "pending")
    for group in status.pending:
        name = group.producer_group or ""
        limit = own.get(name, {})
        command = f"pending --group {shlex.quote(name)}"
        what = f"transactions of {name} undecided"
        yield from past("pending", group.count, limit.get("pending"), what, command, name, OF_PRODUCERS)
        what = f"the oldest undecided transaction of {name}"
        age = at - (group.oldest_asked_timestamp or at)
        yield from past_span("pending_age", age, limit.get("pending_age_ms"), what, command, name, OF_PRODUCERS)


def _decided(status: Status, limits: Limits) -> Iterator[Problem]:
    given_up = {verdict: count for verdict in names.GIVEN_UP_VERDICTS if (count := status.undecided(verdict))}
    command = f"verdicts {state_options([*given_up])}"
    yield from past("given_up", sum(given_up.values()), limits.given_up, "given up and undecided", command)
    contradicted = status.with_verdict(*names.ENDED_TWICE)
    command = f"verdicts {state_options(names.ENDED_TWICE)}"
    yield from past("contradicted", contradicted, limits.contradicted, "duplicated or contradicted", command)


def _unread(status: Status, limits: Limits) -> Iterator[Problem]:
    for row in status.orphans:
        what = f"committed messages of {row.topic} on {row.broker_name} without a half: something was not read"
        command = f"orphans --state orphan --broker {shlex.quote(row.broker_name)} --topic {shlex.quote(row.topic)}"
        yield from past("orphans", row.count, limits.orphans, what, command, f"{row.broker_name}/{row.topic}")
    for queue in status.unchecked:
        stood = span_text(queue.last_seen_timestamp - queue.first_seen_timestamp)
        what = (
            f"halves wait for checks of {queue.broker_name}, whose cursor of queue {queue.queue_id} stands for {stood}"
        )
        command = f"offsets --group {names.CHECK_GROUP} --broker {shlex.quote(queue.broker_name)}"
        whose = f"{queue.broker_name}/{queue.queue_id}"
        yield from past("unchecked", queue.waiting, limits.unchecked, what, command, whose)
    for passed in status.passed_over:
        place = f"offset {passed.passed_offset} of queue {passed.queue_id}"
        what = f"undecided halves that the checks of {passed.broker_name} passed over: they are at {place}"
        command = f"pending --broker {shlex.quote(passed.broker_name)}"
        whose = f"{passed.broker_name}/{passed.queue_id} passed over"
        yield from past("unchecked", passed.count, limits.unchecked, what, command, whose)
    just = status.just_quarantined()
    yield from past("quarantined", just, limits.quarantined, "records quarantined by the last passes", "quarantine")


def _consumers(status: Status, limits: Limits) -> Iterator[Problem]:
    for group in status.offsets:
        own = limits.consumer_groups.get(group.consumer_group, {})
        places = {name: OF_CONSUMERS if name in own else "" for name in ("lag", "lag_states")}
        whose = f"{group.broker_name}/{group.consumer_group}"
        name = shlex.quote(group.consumer_group)
        what = f"messages behind: consumer group {group.consumer_group}"
        command = f"offsets --group {name} --sort lag:desc"
        yield from past("lag", group.lag, own.get("lag", limits.lag), what, command, whose, places["lag"])
        states = {state: count for state in HALTED if (count := group.lag_states.get(state, 0))}
        what = f"queues of consumer group {group.consumer_group} {' or '.join(states)}"
        command = f"offsets --group {name}" + "".join(f" --lag-state {state}" for state in states)
        most = own.get("lag_states", limits.lag_states)
        yield from past("lag_states", sum(states.values()), most, what, command, whose, places["lag_states"])


def _landing(status: Status, limits: Limits) -> Iterator[Problem]:
    for source in status.landed:
        if source.read_to_timestamp is not None:
            name, behind = source.broker_name, status.now - source.read_to_timestamp
            own = limits.brokers.get(name, {})
            most, place = own.get("landing_behind_ms", limits.landing_behind_ms), _own_place("landing_behind_ms", own)
            what = f"landing of {name} is behind"
            yield from past_span("landing_behind", behind, most, what, "passes --job land", name, place)
    for landing in status.landings:
        name, since = landing.broker_name, status.now - landing.last_landed
        own = limits.brokers.get(name, {})
        most, place = own.get("no_landing_ms", limits.no_landing_ms), _own_place("no_landing_ms", own)
        yield from past_span("no_landing", since, most, f"no successful landing of {name}", "runs", name, place)


def _own_place(limit: str, own: Mapping[str, int | None]) -> str:
    return OF_BROKERS if limit in own else ""


def _runs(status: Status, limits: Limits) -> Iterator[Problem]:
    for step in status.runs:
        if step.last_failed is not None and status.now - step.last_failed < FAILING_FOR:
            # The run that sends an alert itself ends after the moment it is about.
            ago = span_text(max(status.now - step.last_failed, timedelta()))
            times = f"failed {step.failures:,} times, last" if step.failures > 1 else "failed"
            error = shortened((step.error or "").partition("\n")[0], LONGEST_ERROR)
            text = f"{step.step} {times} {ago} ago: {error}"
            yield from past("failing", step.failures, limits.failing, text, "runs", step.step, is_counted=False)


def _worst(status: Status, past: set[str]) -> Iterator[Problem]:
    """The worst figure of each kind that is past no limit: it is on the list all the same."""
    oldest = status.oldest
    if oldest is not None and "pending_age" not in past:
        age = span_text(status.now - oldest.oldest_timestamp)
        yield Problem(f"the oldest undecided transaction: {age}", "pending")
    most = max(status.offsets, key=lambda group: group.lag, default=None)
    if most is not None and most.lag and "lag" not in past:
        command = f"offsets --group {shlex.quote(most.consumer_group)} --sort lag:desc"
        yield Problem(f"{most.lag:,} messages behind: consumer group {most.consumer_group}", command)


def _of_verdicts(status: Status) -> Iterator[Problem]:
    for row in status.verdicts:
        if (count := status.undecided(row.verdict)) and row.verdict in TROUBLES:
            yield Problem(f"{count:,} {TROUBLES[row.verdict]}", f"verdicts {state_options([row.verdict])}")
    unknown = next((row.reasons for row in status.verdicts if row.verdict == names.RESOLVED_UNKNOWN), {})
    for reason in (reason for reason in names.UNKNOWN_REASONS if reason in unknown):
        text = f"{unknown[reason]:,} decided, commit or rollback not known: {reason}"
        yield Problem(text, f"verdicts --state resolved_unknown --reason {reason}")
    for ending, (text, command) in DECIDED.items():
        # A message that was sent again is done with: nothing that lands changes the verdict.
        open_ones = [each for each in status.decided if each.decision != RESENT]
        if count := sum(each.count for each in open_ones if each.decision.endswith(f" {ending}")):
            yield Problem(f"{count:,} {text}", command)


def _plain(status: Status) -> Iterator[Problem]:
    for last in status.passes:
        if last.unfinished_number is not None and last.unfinished_since is not None:
            age = span_text(status.now - last.unfinished_since)
            text = f"{last.job} pass {last.unfinished_number} started {age} ago, not ended"
            yield Problem(text, f"passes --job {last.job}")
    yield from _of_verdicts(status)
    for group in status.pending:
        if group.unattended:
            text = f"{group.unattended:,} undecided of {group.producer_group}: no client connected"
            yield Problem(text, f"producers --group {shlex.quote(group.producer_group or '')}")
    for state, meaning in LAG_TROUBLES.items():
        if queues := sum(group.lag_states.get(state, 0) for group in status.offsets):
            yield Problem(f"{queues:,} consumer queues {meaning}", f"offsets --lag-state {state}")
    for broker in status.differing:
        yield Problem(
            f"{broker.broker_name}: {broker.differences}", f"brokers --broker {shlex.quote(broker.broker_name)} --wide"
        )
    if held := sum(row.count for row in status.quarantine):
        yield Problem(f"{held:,} records in quarantine", "quarantine")
