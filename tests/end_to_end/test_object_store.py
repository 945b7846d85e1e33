"""A warehouse on a real S3 server (MinIO), behind a proxy that counts requests, waits and fails them."""

from __future__ import annotations

from collections.abc import Iterator

import minio
import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, Transaction, write_deltalake
from deltalake.exceptions import CommitFailedError
from s3_proxy import Fault, Faults, S3Proxy, no_fault, s3_proxy

pytestmark = pytest.mark.real

ROWS = pa.table({"n": pa.array([1, 2], pa.int64())})


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Proxy]:
    """The proxy; whoever reads the environment finds the server behind it."""
    with (
        minio.minio(tmp_path_factory.mktemp("minio")) as server,
        s3_proxy(server.port) as proxy,
        pytest.MonkeyPatch.context() as patch,
    ):
        for name, value in minio.environ(proxy.url).items():
            patch.setenv(name, value)
        yield proxy


@pytest.fixture(autouse=True)
def is_sound_again(store: S3Proxy) -> Iterator[None]:
    yield
    store.set(delay_s=0.0, fails=no_fault)


def appended(table: DeltaTable, number: int) -> None:
    landed = CommitProperties(app_transactions=[Transaction("a", number)])
    write_deltalake(table, ROWS, mode="append", commit_properties=landed)


def test_of_two_commits_of_one_number_one_fails(store):
    uri = f"s3a://{minio.BUCKET}/two"
    write_deltalake(uri, ROWS)
    one, other = DeltaTable(uri), DeltaTable(uri)
    appended(one, 1)
    with pytest.raises(CommitFailedError):
        appended(other, 1)
    assert DeltaTable(uri).version() == 1


def test_the_proxy_counts_and_fails_what_it_is_told_to(store):
    uri = f"s3a://{minio.BUCKET}/counted"
    write_deltalake(uri, ROWS)
    with store.counting() as seen:
        DeltaTable(uri)
    assert seen.total == 4
    assert (seen.kinds["LIST"], seen.kinds["GET"]) == (1, 3)
    store.set(fails=Faults(Fault.UNAVAILABLE, kind="GET", first=1, every=3))
    with store.counting() as seen:
        assert DeltaTable(uri).version() == 0
    assert seen.total > 4  # asked again
