"""What one run of upkeep takes of many small files, and who holds removing back: decided from sizes and versions."""

from __future__ import annotations

from datetime import timedelta

import pytest
from moment import NOW, NOW_MS

from txmq_lib.config.settings import Settings
from txmq_lib.passes.pass_log import Standing
from txmq_lib.pipeline.upkeep_plan import MIB, Compaction, bounded_compactions, held_for

DAY_MS = 86_400_000


def wanted(**changed):
    limits = {"small_files": 3, "small_file_size": 1, "files_per_run": 100, "size_per_run": 100, **changed}
    return Settings.load(assignments=[f"maintain.{key}={value}" for key, value in limits.items()]).maintain


def test_a_table_with_few_small_files_or_large_ones_is_left_alone():
    sizes = {
        "message": {"{}": [10, 20]},
        "half_message": {"{}": [MIB, 2 * MIB, 3 * MIB, 10]},
        "op_message": {"{}": [10, 20, 30, 5 * MIB]},
    }
    assert bounded_compactions(sizes, wanted()) == {"op_message": Compaction(MIB, 3, 60)}


def test_partitions_are_counted_each_for_itself():
    apart = {"verdict": {"true": [10, 20], "false": [30, 40]}}
    assert bounded_compactions(apart, wanted()) == {}
    one = {"verdict": {"true": [10, 20, 30], "false": [40], "null": [50, 60]}}
    assert bounded_compactions(one, wanted()) == {"verdict": Compaction(MIB, 5, 170)}


def test_a_table_that_every_pass_writes_anew_is_left_alone():
    assert bounded_compactions({"pending_half": {"{}": [1] * 50}}, wanted()) == {}


def test_a_run_takes_the_smallest_files_up_to_its_bounds_and_the_table_with_most_of_them_first():
    sizes = {"message": {"{}": [40, 10, 30, 20]}, "op_message": {"{}": [7, 5, 6, 8, 9]}}
    assert bounded_compactions(sizes, wanted(files_per_run=7)) == {
        "op_message": Compaction(MIB, 5, 35),
        "message": Compaction(30, 2, 30),
    }
    assert bounded_compactions(sizes, wanted(files_per_run=6)) == {"op_message": Compaction(MIB, 5, 35)}
    assert bounded_compactions(sizes, wanted(files_per_run=3)) == {"op_message": Compaction(8, 3, 18)}
    large = {"message": {"{}": [MIB // 2, MIB // 4, MIB // 4, MIB // 2 + 1]}}
    assert bounded_compactions(large, wanted(size_per_run=1)) == {"message": Compaction(MIB // 2 + 1, 3, MIB)}


def test_the_pass_log_comes_first_however_many_files_others_have():
    sizes = {"message": {"{}": [10] * 9}, "op_message": {"{}": [10, 20]}, "pass": {"{}": [5, 6, 7, 8]}}
    assert bounded_compactions(sizes, wanted(files_per_run=4)) == {"pass": Compaction(MIB, 4, 26)}
    assert set(bounded_compactions(sizes, wanted())) == {"pass", "message"}


def test_files_of_one_size_go_together_even_past_a_bound_so_that_a_run_gets_on():
    sizes = {"message": {"{}": [10, 10, 10, 10, 20]}}
    assert bounded_compactions(sizes, wanted(files_per_run=3)) == {"message": Compaction(11, 4, 40)}
    later = {"message": {"{}": [5, 6, 10, 10, 10]}}
    assert bounded_compactions(later, wanted(files_per_run=3)) == {"message": Compaction(10, 2, 11)}


class Log:
    """A log that was committed to once a day, up to now, and holds entries from `first` on."""

    def __init__(self, version, first=0):
        self.version, self.first = version, first

    def committed_ms(self, version):
        return None if version < self.first else NOW_MS - (self.version - version) * DAY_MS


class Logs:
    def __init__(self, version, first=0):
        self.kept = Log(version, first)

    def log(self, table):
        return self.kept


def holder(standing, *, first=0, table="half_message", days=7):
    return held_for(Logs(20, first), table, [standing], keep_from=NOW - timedelta(days=days))


@pytest.mark.parametrize(
    ("why", "standing", "first", "table", "holds"),
    [
        ("all is read", Standing("audit", None, {}, {"half_message": 20}), 0, "half_message", False),
        ("unread since yesterday", Standing("audit", None, {}, {"half_message": 18}), 0, "half_message", False),
        ("unread for eight days", Standing("audit", None, {}, {"half_message": 11}), 0, "half_message", True),
        ("exactly seven days", Standing("audit", None, {}, {"half_message": 12}), 0, "half_message", False),
        ("its log entry is gone", Standing("audit", None, {}, {"half_message": 11}), 13, "half_message", False),
        ("the table is read whole", Standing("audit", None, {}, {}), 0, "half_message", False),
        ("no job of that table", Standing("rollup", None, {}, {"half_message": 3}), 0, "half_message", False),
        ("landing reads no feed", Standing("land", None, {}, {"half_message": 3}), 0, "half_message", False),
        ("no feed of a merged table", Standing("audit", None, {}, {"landing_frontier": 3}), 0, "landing_frontier", False),
        ("an open plan of today", Standing("land", 7, {"half_message": 20}, {}), 0, "half_message", False),
        ("an open plan of old", Standing("land", 7, {"half_message": 12}, {"half_message": 12}), 0, "half_message", True),
        ("an open plan's feed", Standing("audit", 7, {"half_message": 19}, {"half_message": 11}), 0, "half_message", True),
        ("an open plan without a log", Standing("land", 7, {"half_message": 3}, {}), 9, "half_message", True),
    ],
)  # fmt: skip
def test_replaced_files_stay_while_somebody_reads_an_old_version(why, standing, first, table, holds):
    # Version 20 is of now, 13 of seven days ago.
    assert bool(holder(standing, first=first, table=table)) is holds, why


def test_the_reason_names_the_job_and_the_version():
    assert holder(Standing("audit", None, {}, {"half_message": 4})) == "audit has not read what came with version 5"
    unfinished = Standing("reconcile", 3, {"half_message": 6}, {})
    assert holder(unfinished) == "reconcile pass 3 is unfinished and reads version 6"
