"""Places of a warehouse: where two writers could overwrite each other is refused by name."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from txmq_lib.cli.run.warehouse_findings import warehouse_findings
from txmq_lib.files.object_stores import LOG_STORE, LOG_STORE_KEY, fault_of, reason_of

ACCOUNT = "box@account.blob.core.windows.net"


@pytest.mark.parametrize(
    "uri",
    ["/w", "w", "file:/w", "file:///w", "s3://b/w", "s3a://b/w", "gs://b/w", "hdfs://n/w", f"abfss://{ACCOUNT}/w"],
)
def test_of_two_commits_one_fails_there(uri):
    assert fault_of(uri, {LOG_STORE_KEY: LOG_STORE}, {}) == ""


@pytest.mark.parametrize("uri", ["oss://b/w", "cosn://b/w", f"wasbs://{ACCOUNT}/w", "az://b/w", "ftp://h/w"])
def test_where_both_may_be_taken_the_place_is_refused_by_name(uri):
    fault = fault_of(uri, {}, {})
    assert fault.startswith(f"warehouse at {uri.partition(':')[0]}://: of two commits of one number both may be taken")
    assert "abfss://" in fault


@pytest.mark.parametrize(
    ("stated", "environ", "named"),
    [
        ({LOG_STORE_KEY: "io.delta.storage.S3SingleDriverLogStore"}, {}, LOG_STORE_KEY),
        ({"spark.hadoop.fs.s3a.create.conditional.enabled": "false"}, {}, "create.conditional.enabled"),
        ({}, {"AWS_S3_LOCKING_PROVIDER": "dynamodb"}, "AWS_S3_LOCKING_PROVIDER"),
    ],
)
def test_what_lets_both_be_taken_on_s3_is_refused_by_name(stated, environ, named):
    assert named in fault_of("s3://b/w", stated, environ)
    assert fault_of("gs://b/w", stated, environ) == ""


def test_a_store_that_nobody_gave_credentials_for_says_what_to_set():
    text = "Kernel error -> Operation not supported\n  an error occurred while loading credentials\n  service error"
    assert reason_of(OSError(text), "s3://lake/w").startswith("no credentials were found: set AWS_ACCESS_KEY_ID")


def test_doctor_tells_of_such_a_place_before_it_is_asked(monkeypatch):
    monkeypatch.setenv("AWS_S3_LOCKING_PROVIDER", "dynamodb")
    for uri, named in (("oss://b/w", "oss://"), ("s3://b/w", "AWS_S3_LOCKING_PROVIDER")):
        (only,) = warehouse_findings(uri, datetime(2026, 11, 24, tzinfo=UTC), {})
        assert (only.check, only.state) == ("warehouse", "fail")
        assert named in only.found
