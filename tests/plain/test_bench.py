"""What benchmarks say of their figures: ratios, thresholds, results that must agree."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.bench.digest import ResultsDifferError, must_agree
from tests.bench.figures import Figure, as_json, lost, thresholds
from tests.bench.large_warehouse import empty_table
from tests.bench.scale import PLACES
from tests.bench.store_log import decoded_in_plain_python, write_store
from tests.bench.taken import taken


def test_a_ratio_is_lost_when_it_is_more_than_half_above_its_threshold():
    figures = [Figure("b", "met", 2.0, 1.0), Figure("b", "over", 3.0, 1.0), Figure("b", "lost", 3.01, 1.0)]
    assert lost(figures, {figure.key: 2.0 for figure in figures}) == ["b: lost: 3.01, wanted at most 2.00"]


def test_a_figure_that_no_threshold_names_is_lost():
    assert lost([Figure("b", "new", 1.0, 9.0)], {}) == ["b: new has no threshold in thresholds.yaml"]


def test_results_carry_the_ratio_and_what_was_wanted():
    assert as_json([Figure("b", "f", 1.0, 4.0, rate=10.0)], {"b: f": 0.5}) == [
        {
            "benchmark": "b",
            "name": "f",
            "ours": 1.0,
            "theirs": 4.0,
            "unit": "s",
            "rate": 10.0,
            "ratio": 0.25,
            "at_most": 0.5,
        }
    ]


@pytest.mark.parametrize("size", ["small", "full"])
def test_every_threshold_is_a_ratio(size):
    ratios = thresholds(size)
    assert len(ratios) > 10
    assert [key for key, ratio in ratios.items() if not 0 < ratio < 100] == []


def test_results_that_differ_end_the_run_and_name_the_table():
    ours = {"message": (("t", "3"),), "op_message": (("5",),)}
    must_agree("txmq", ours, "other", dict(ours))
    with pytest.raises(ResultsDifferError, match=r"message: 1 and 1 lines, .*'3'.*'4'"):
        must_agree("txmq", ours, "other", {**ours, "message": (("t", "4"),)})


def test_the_plain_reader_finds_every_record_of_a_store_of_several_files(tmp_path):
    write_store(tmp_path, 60_000)
    assert len(list((tmp_path / "commitlog").iterdir())) == 2
    assert decoded_in_plain_python(tmp_path) == 60_000


@pytest.mark.parametrize("name", PLACES)
def test_each_place_that_grows_has_three_sizes_four_to_ten_times_apart(name):
    few, more, many = PLACES[name].sizes
    assert 4 <= more / few <= 10
    assert 4 <= many / more <= 10


def test_the_log_of_a_place_names_as_many_files_as_its_size(tmp_path):
    place = PLACES["table-files"]
    (tmp_path / "w").mkdir()
    empty_table(tmp_path / "w", "half_message")
    place.prepare(str(tmp_path), 30)
    assert place.work(str(tmp_path), 30).keys() == {"seconds", "processor"}
    with pytest.raises(ResultsDifferError, match="31 should be there, found 30"):
        place.work(str(tmp_path), 31)


def test_processor_time_of_what_a_process_starts_counts():
    busy = "sum(range(5_000_000))"
    with taken() as found:
        subprocess.run([sys.executable, "-c", busy], check=True)
    assert found["processor"] >= 0.03
    assert found["seconds"] > 0
