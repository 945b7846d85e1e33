"""Stores of three brokers copied to one place, a directory or a bucket, while they grow, as the page says, and landed between."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import minio
import pytest
from captured import unpack_store
from house import said_of_brokers, wall_clock
from moment import NOW
from pages import marked, steps
from truth import VERDICT_COUNTS

from txmq_lib.pipeline.cycle import run_cycle
from txmq_lib.rocketmq.store.commit_log import list_files, log_end

pytestmark = pytest.mark.real  # rsync, rclone, MinIO

BROKERS = {"broker-a": "basic", "broker-b": "mixed", "broker-c": "restart"}
INTO_DIRECTORY, INTO_BUCKET = (
    [step.command for step in steps(block)]
    for block in marked("cluster.md", "test_stores_that_are_copied_while_they_grow_give_the_verdicts_of_whole_ones")
)


def without_its_later_half(store: Path) -> bytes:
    """Cut a log to what the broker had written halfway, its queues as they were later; the bytes that are to come."""
    log = next((store / "commitlog").iterdir())
    content, half = log.read_bytes(), log_end(list_files(str(store)).files).offset // 2
    log.write_bytes(content[:half] + bytes(len(content) - half))
    return content


@pytest.fixture
def directory(tmp_path: Path) -> tuple[str, Callable[[str, str], None]]:
    """A mounted directory for stores, and what the machine of a broker does every few minutes."""
    mounted = tmp_path / "mounted"
    for broker in BROKERS:
        (mounted / broker).mkdir(parents=True)

    def ship(store: str, broker: str) -> None:
        for command in INTO_DIRECTORY:
            ours = command.replace("/data/rocketmq/store", store).replace("/mnt/stores/broker-a", str(mounted / broker))
            subprocess.run(["bash", "-ec", ours], check=True)

    return str(mounted), ship


@pytest.fixture
def bucket(tmp_path: Path) -> Iterator[tuple[str, Callable[[str, str], None]]]:
    """A bucket for stores, and what the machine of a broker does every few minutes."""
    with minio.behind_proxy(tmp_path / "minio") as proxy:
        remote = {"TYPE": "s3", "PROVIDER": "Minio", "ENV_AUTH": "true", "ENDPOINT": proxy.url}
        environ = {**os.environ, **{f"RCLONE_CONFIG_LAKE_{key}": value for key, value in remote.items()}}
        environ.pop("AWS_CA_BUNDLE", None)  # rclone 1.60 knows no such file, and takes no other

        def ship(store: str, broker: str) -> None:
            for command in INTO_BUCKET:
                ours = command.replace("/data/rocketmq/store", store).replace(
                    "my-bucket/stores/broker-a", f"{minio.BUCKET}/stores/{broker}"
                )
                subprocess.run(["bash", "-ec", ours], check=True, env=environ)

        yield f"s3://{minio.BUCKET}/stores", ship


@pytest.mark.parametrize("place", ["directory", "bucket"])
def test_stores_that_are_copied_while_they_grow_give_the_verdicts_of_whole_ones(open_house, tmp_path, request, place):
    stores, ship = request.getfixturevalue(place)
    later = {}
    for broker, capture in BROKERS.items():
        (tmp_path / broker).mkdir()
        later[broker] = without_its_later_half(unpack_store(capture, tmp_path / broker))
    sources = ", ".join(f"{{kind: store, paths: ['{stores}/{broker}'], broker: {broker}}}" for broker in BROKERS)
    limits = ("transaction_timeout=2s", "transaction_check_interval=3s", "transaction_check_max=3")
    house = open_house("role=audit", f"sources=[{sources}]", *limits)
    landed = []
    for turn in range(2):
        for broker in BROKERS:
            machine = tmp_path / broker
            if turn:
                next((machine / "store" / "commitlog").iterdir()).write_bytes(later[broker])
            ship(str(machine / "store"), broker)
        now = NOW + timedelta(seconds=turn)
        run_cycle(house.warehouse, house.settings, now=now, wall_clock=wall_clock, environ={})
        landed.append(Counter(row["broker_name"] for row in house.rows("half_message")))
    assert landed[0].keys() == BROKERS.keys()
    assert all(landed[0][broker] < landed[1][broker] for broker in BROKERS)
    found = {broker: Counter() for broker in BROKERS}
    for (broker, _), (verdict, _) in said_of_brokers(house).items():
        found[broker][verdict] += 1
    assert found == {broker: VERDICT_COUNTS[capture] for broker, capture in BROKERS.items()}
