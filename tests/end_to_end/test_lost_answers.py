"""Writes to a real S3 server whose answers get lost: each step lands once, and no file goes that a commit names.

Of passes only the writer's part: a commit that fails is looked at, then tried again, as Writer._write_through_conflicts does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import minio
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError
from far_passes import FarPasses
from s3_proxy import Fault, Faults, S3Proxy, no_fault

from txmq_lib.config.table_specs import RUN_TABLE
from txmq_lib.delta.conflicts import WRITE_ATTEMPTS
from txmq_lib.delta.small_writes import SmallWrite

pytestmark = pytest.mark.real

FIRST, MORE = pa.table({"k": [1, 2], "v": [1, 1]}), pa.table({"k": [2, 3], "v": [2, 2]})
LOST = (Fault.LOST_500, Fault.LOST_CUT, Fault.LOST_SILENT)
STEP = SmallWrite("txmq/land/t/step", 1, "txmq land pass 1 step")
WRITES: dict[str, tuple[Callable[[str], None], list[tuple[int, int]]]] = {
    "append": (lambda uri: STEP.append(uri, MORE), [(1, 1), (2, 1), (2, 2), (3, 2)]),
    "overwrite": (lambda uri: STEP.overwrite(uri, MORE, where=None), [(2, 2), (3, 2)]),
    "upsert": (lambda uri: STEP.upsert(uri, MORE, key=["k"], only_if=None), [(1, 1), (2, 2), (3, 2)]),
}


@pytest.fixture(scope="module", autouse=True)
def asked_anew_soon() -> Iterator[None]:
    """A store that does not answer is asked anew after two seconds instead of thirty."""
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("AWS_TIMEOUT", "2s")
        yield


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Proxy]:
    with minio.behind_proxy(tmp_path_factory.mktemp("minio")) as proxy:
        yield proxy


@pytest.fixture(autouse=True)
def is_sound_again(store: S3Proxy) -> Iterator[None]:
    yield
    store.set(delay_s=0.0, fails=no_fault)


def written(uri: str, write: Callable[[str], None]) -> int:
    """Write a step as the writer of passes does; how many attempts failed."""
    for failed in range(WRITE_ATTEMPTS):
        try:
            write(uri)
            return failed
        except DeltaError:
            if (DeltaTable(uri).transaction_version(STEP.app_id) or 0) >= STEP.number:
                return failed + 1
    raise AssertionError(f"not written in {WRITE_ATTEMPTS} attempts")


def requests_of(store: S3Proxy, uri: str, write: Callable[[str], None]) -> int:
    """How many requests a write makes that nobody disturbs."""
    write_deltalake(uri, FIRST)
    with store.counting() as seen:
        write(uri)
    return seen.total


def assert_landed_once(uri: str, rows: list[tuple[int, int]]) -> None:
    table = DeltaTable(uri)
    found = table.to_pyarrow_table().to_pylist()  # reads every file that a commit names
    assert sorted((row["k"], row["v"]) for row in found) == rows
    tags = [commit.get("userMetadata") for commit in table.history()]
    assert tags.count(STEP.tag) == 1


@pytest.mark.parametrize("fault", LOST)
@pytest.mark.parametrize("kind", WRITES)
def test_a_write_lands_once_whichever_answer_is_lost(store, kind, fault):
    write, rows = WRITES[kind]
    count = requests_of(store, f"s3a://{minio.BUCKET}/{kind}-{fault.name}", write)
    for number in range(1, count + 1):
        uri = f"s3a://{minio.BUCKET}/{kind}-{fault.name}-{number}"
        write_deltalake(uri, FIRST)
        store.set(fails=Faults(fault, first=number, most=1))
        written(uri, write)
        store.set(fails=no_fault)
        assert_landed_once(uri, rows)


@pytest.mark.parametrize("kind", WRITES)
def test_so_it_does_where_every_third_request_is_refused(store, kind):
    write, rows = WRITES[kind]
    uri = f"s3a://{minio.BUCKET}/{kind}-503"
    write_deltalake(uri, FIRST)
    store.set(fails=Faults(Fault.UNAVAILABLE, every=3))
    written(uri, write)
    store.set(fails=no_fault)
    assert_landed_once(uri, rows)


def test_so_does_the_row_of_a_run(store):
    uri = f"s3a://{minio.BUCKET}/rows"
    passes = FarPasses(uri, ":".join(map(str, minio.jars())))
    try:
        passes.ask("row")
        with store.counting() as seen:
            passes.ask("row")
        assert seen.total <= 6
        faults = [Faults(fault, first=number, most=1) for fault in LOST for number in range(1, seen.total + 1)]
        for fault in (*faults, Faults(Fault.UNAVAILABLE, every=3)):
            store.set(fails=fault)
            report = passes.ask("row")
            store.set(fails=no_fault)
            assert report["counts"] == {"recorded": 1}, fault
    finally:
        passes.close()
    rows = DeltaTable(f"{uri}/{RUN_TABLE}").to_pyarrow_table()
    assert rows.num_rows == len(set(rows["run_id"].to_pylist())) == 2 + len(faults) + 1
