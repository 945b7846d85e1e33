"""What `serve` says on stderr of the steps of its rounds."""

from __future__ import annotations

from txmq_lib.cli.run.serve import RoundLog
from txmq_lib.passes.current import PassReport

DOWN = "broker b: not read: 10.0.0.2:10911: no answer within 3 s"


def report(number: int, *findings: str) -> PassReport:
    return PassReport("land", number, {"idle": 1, "unread": 1}, {"read": 1.25}, findings)


def test_what_is_found_without_a_pass_is_told_when_it_changes_and_not_each_time(capsys):
    log = RoundLog()
    said = []
    for done in (report(0), report(0, DOWN), report(0, DOWN), report(0), report(0, DOWN), report(7, DOWN)):
        log.report("land", done)
        said.append([line.partition(" ")[2] for line in capsys.readouterr().err.splitlines()])
    log_line = f"land: {DOWN}"
    assert said == [[], [log_line], [], [], [log_line], ["land: pass 7, idle 1 unread 1, 1.2 s", log_line]]


def test_each_step_has_findings_of_its_own(capsys):
    log = RoundLog()
    log.report("land", report(0, DOWN))
    log.report("land offsets", report(0, DOWN))
    assert len(capsys.readouterr().err.splitlines()) == 2
