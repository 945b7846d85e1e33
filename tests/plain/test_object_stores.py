"""Places of a warehouse: where two writers could overwrite each other is refused by name."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from txmq_lib.cli.run.findings import connector_finding
from txmq_lib.cli.run.warehouse_findings import warehouse_findings
from txmq_lib.config.settings import Settings
from txmq_lib.errors import EnvironmentFault, SettingsError, code_and_words
from txmq_lib.files.object_stores import LOG_STORE, LOG_STORE_KEY, fault_of, reason_of, storage_options

ACCOUNT = "box@account.blob.core.windows.net"


@pytest.mark.parametrize(
    "uri",
    [
        *("/w", "w", "/a:b/w", "./a:b", "file:/w", "file:///w", "s3://b/w", "s3a://b", "gs://b/w", "hdfs://n/w"),
        *("hdfs:///w", f"abfss://{ACCOUNT}/w"),
    ],
)
def test_of_two_commits_one_fails_there(uri):
    assert Settings.load(warehouse=uri).warehouse == uri
    assert fault_of(uri, {LOG_STORE_KEY: LOG_STORE}, {}) == ""


@pytest.mark.parametrize(
    "uri",
    [
        *("oss://b/w", "cosn://b/w", f"wasbs://{ACCOUNT}/w", "az://b/w", "ftp://h/w", "https://b/w", "s4://b/w"),
        *("s3n://b/w", "S3A://b/w", "a:b"),
    ],
)
def test_where_both_may_be_taken_the_place_is_refused_by_name(uri):
    assert place_of(uri).startswith("must be a path, or begin with one of s3://, s3a://, gs://, abfss://, ")


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        *((uri, "must be written as s3a://BUCKET/PATH") for uri in ("s3a:/b/w", "s3a:b/w", "s3a://", "s3a:///b/w")),
        ("hdfs:/w", "must be written as hdfs://HOST/PATH"),
        ("w\0", "must not have a byte of zero"),
    ],
)
def test_a_place_that_is_written_as_none_can_be_is_refused_before_anything_is_asked(uri, words):
    assert place_of(uri).startswith(words)


def place_of(uri: str) -> str:
    """What is told of it as a place of a warehouse."""
    with pytest.raises(SettingsError) as raised:
        Settings.load(warehouse=uri)
    (fault,) = raised.value.faults
    return fault.removeprefix("--warehouse: warehouse: ")


@pytest.mark.parametrize("endpoint", ["127.0.0.1:9000", "minio", "http://", "http://a b:1", "http://[::1", "ftp://h"])
def test_an_endpoint_that_is_no_url_is_told_by_the_name_of_its_variable(endpoint):
    words = "AWS_ENDPOINT_URL_S3: must begin with http:// or https:// and name a host"
    environ = {"AWS_ENDPOINT_URL_S3": endpoint, "AWS_ENDPOINT_URL": "http://127.0.0.1:9"}
    with pytest.raises(EnvironmentFault, match=words):
        storage_options("s3://b/w", environ)
    assert storage_options("gs://b/w", environ) is not None
    assert storage_options("s3://b/w", {**environ, "AWS_ENDPOINT_URL_S3": "https://h:1/p"}) is not None


@pytest.mark.parametrize(
    "text",
    [
        "An error occurred while calling z:S3LogStoreUtil.s3ListFromArray.\n: AWSClientIOException: x: SdkClientException:"
        " Unable to execute HTTP request: Connect to h:1 failed: Connection refused\n\tat org.apache",
        "Generic S3 error: Error performing GET http://h:1/b in 1s - HTTP error: error sending request",
    ],
)
def test_a_store_that_goes_in_the_middle_of_a_pass_is_told_as_what_it_is(text):
    code, words = code_and_words(RuntimeError(text))
    assert code == "WAREHOUSE_UNREACHED"
    assert words.startswith("the object store cannot be reached")
    assert len(words.splitlines()) == 1
    assert ("Connection refused" in text) == ("Connection refused" in words)


def test_doctor_misses_the_connector_for_s3(tmp_path):
    jar = tmp_path / "hadoop-aws-3.4.2.jar"
    jar.touch()
    key = "spark.driver.extraClassPath"
    for settings in (
        *({key: f"{jar}:{tmp_path}"}, {key: f"{tmp_path}/*"}),
        *({"spark.jars": f"hdfs://n/{jar.name},/{tmp_path}"}, {"spark.jars.packages": "org:hadoop-aws:3"}),
    ):
        assert list(connector_finding("s3://b/w", settings)) == []
    assert [each.state for each in connector_finding("s3://b/w", {})] == ["warn"]
    (gone,) = connector_finding("s3://b/w", {key: f"{jar}:{tmp_path}/bundle.jar"})
    assert (gone.state, gone.found) == ("warn", f"{tmp_path}/bundle.jar: no such file")
    assert list(connector_finding("/w", {key: "/gone"})) == []


@pytest.mark.parametrize(
    ("stated", "environ", "named"),
    [
        ({LOG_STORE_KEY: "io.delta.storage.S3SingleDriverLogStore"}, {}, LOG_STORE_KEY),
        ({"spark.hadoop.fs.s3a.create.conditional.enabled": "false"}, {}, "s3a.create.conditional.enabled"),
        ({"spark.hadoop.fs.s3a.create.conditional.enabled": " False"}, {}, "s3a.create.conditional.enabled"),
        (
            {"spark.hadoop.fs.s3a.bucket.b.create.conditional.enabled": "FALSE"},
            {},
            "bucket.b.create.conditional.enabled",
        ),
        ({}, {"AWS_S3_LOCKING_PROVIDER": "dynamodb"}, "AWS_S3_LOCKING_PROVIDER"),
    ],
)
def test_what_lets_both_be_taken_on_s3_is_refused_by_name(stated, environ, named):
    assert named in fault_of("s3://b/w", stated, environ)
    assert fault_of("gs://b/w", stated, environ) == ""


def test_what_is_said_of_another_bucket_and_that_puts_are_conditional_is_no_fault():
    key = "create.conditional.enabled"
    stated = {f"spark.hadoop.fs.s3a.bucket.c.{key}": "false", f"spark.hadoop.fs.s3a.{key}": "True"}
    assert fault_of("s3a://b/w", stated, {}) == ""


def test_a_store_that_nobody_gave_credentials_for_says_what_to_set():
    text = "Kernel error -> Operation not supported\n  an error occurred while loading credentials\n  service error"
    assert reason_of(OSError(text), "s3://lake/w").startswith("no credentials were found: set AWS_ACCESS_KEY_ID")


def said(*lines: str) -> OSError:
    """What deltalake 1.6.6 says, each line a cause of the one before, in its colours."""
    first, *causes = lines
    return OSError(
        "\n".join(
            [first, *[f"{' ' * (10 + depth)}\x1b[31m\u21b3\x1b[0m {line}" for depth, line in enumerate(causes)], ""]
        )
    )


XML = '<?xml version="1.0" encoding="UTF-8"?><Error><Code>{}</Code><Message>In words.\nRequestId:1</Message></Error>'
GET = "Error performing GET http://127.0.0.1:45665/lake/w%2Fpass%2F%5Fdelta%5Flog%2F%5Flast%5Fcheckpoint in 3.193026ms"
FAILED = f"{GET} - Server returned non-2xx status code"
DOWN = (f"{GET}, after 2 retries, max_retries", "2, retry_timeout", "2s  - HTTP error", "error sending request", "client error (Connect)")  # fmt: skip
NO_MACHINE = "Error performing GET http://169.254.169.254/metadata in 1.648184ms - Server returned non-2xx status code"
LISTED = "Error performing list request"
BUCKET_MISSES = ("404 Not Found", XML.format("NoSuchBucket"))
OF_AZURE = "Generic MicrosoftAzure error"
AZURE, AZURE_NAMES = (
    "abfss://lake@account.dfs.core.windows.net/w",
    "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
)
GOOGLE_NAME = "GOOGLE_APPLICATION_CREDENTIALS"


@pytest.mark.parametrize(
    ("uri", "error", "words"),
    [
        ("gs://lake/w", said("Generic GCS error", LISTED, FAILED, *BUCKET_MISSES), "there is no bucket lake: make it, or mend the URI"),
        (AZURE, said(OF_AZURE, LISTED, FAILED, "404 Not Found", f"\ufeff{XML.format('ContainerNotFound')}"), "there is no container lake: make it, or mend the URI"),
        ("gs://lake/w", said("Kernel error -> The operation lacked the necessary privileges to complete for path w/pass", FAILED, "403 Forbidden", XML.format("AccessDenied")), f"the store refuses the credentials (AccessDenied): look at {GOOGLE_NAME}"),
        ("gs://lake/w", said("Generic GCS error", LISTED, FAILED, "401 Unauthorized", XML.format("AuthenticationRequired")), f"the store refuses the credentials (AuthenticationRequired): look at {GOOGLE_NAME}"),
        ("gs://lake/w", said("Generic GCS error", "Error performing token request", FAILED, "400 Bad Request", '{"error":"invalid_grant"}'), f"the store refuses the credentials (400 Bad Request): look at {GOOGLE_NAME}"),
        (AZURE, said("Kernel error -> The operation lacked the necessary privileges to complete for path w/pass", FAILED, "403 Forbidden", f"\ufeff{XML.format('AuthenticationFailed')}"), f"the store refuses the credentials (AuthenticationFailed): look at {AZURE_NAMES}"),
        (AZURE, said(OF_AZURE, LISTED, FAILED, "403 Forbidden"), f"the store refuses the credentials (403 Forbidden): look at {AZURE_NAMES}"),
        ("gs://lake/w", said("Kernel error -> Generic GCS error", "Error performing token request", NO_MACHINE, "403 Forbidden"), f"no credentials were found: set {GOOGLE_NAME}"),
        (AZURE, said(OF_AZURE, "Error performing token request", NO_MACHINE, "403 Forbidden"), f"no credentials were found: set {AZURE_NAMES}"),
        ("gs://lake/w", said("Generic GCS error", LISTED, *DOWN, "Connection refused (os error 111)"), "the store cannot be reached (Connection refused (os error 111)): look at the network"),
        (AZURE, said(f"Kernel error -> {OF_AZURE}", *DOWN, "dns error", "Name or service not known"), "the store cannot be reached (Name or service not known): look at the network and the account in the URI"),
        ("s3://lake/w", said("Generic S3 error", LISTED, *DOWN, "Connection refused (os error 111)"), "the store cannot be reached (Connection refused (os error 111)): look at the network and AWS_ENDPOINT_URL"),
        ("s3a://lake/w", said("Generic S3 error", LISTED, FAILED, "403 Forbidden", XML.format("SignatureDoesNotMatch")), "the store refuses the credentials (SignatureDoesNotMatch): look at AWS_ACCESS_KEY_ID, AWS_PROFILE or their like"),
        ("gs://lake/w", said("Generic GCS error", "Unable to open service account file from /gone.json", "No such file or directory (os error 2)"), f"Unable to open service account file from /gone.json (No such file or directory (os error 2)): look at {GOOGLE_NAME}"),
        (AZURE, said(OF_AZURE, "Invalid Access Key", "Invalid symbol 33, offset 0."), f"Invalid Access Key (Invalid symbol 33, offset 0.): look at {AZURE_NAMES}"),
        ("gs://lake/w", said("Generic GCS error", LISTED, FAILED, "400 Bad Request", XML.format("InvalidArgument")), "the store answers 400 Bad Request (InvalidArgument)"),
        ("gs://lake/w", said("Generic GCS error", LISTED, FAILED, "400 Bad Request", '{"error":"no XML"}'), "the store answers 400 Bad Request"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_in_the_words_of_its_own_store_and_never_in_xml(uri, error, words):
    assert reason_of(error, uri) == words


def test_doctor_tells_of_such_a_place_before_it_is_asked(monkeypatch):
    monkeypatch.setenv("AWS_S3_LOCKING_PROVIDER", "dynamodb")
    (only,) = warehouse_findings("s3://b/w", datetime(2026, 11, 24, tzinfo=UTC), {})
    assert (only.check, only.state) == ("warehouse", "fail")
    assert "AWS_S3_LOCKING_PROVIDER" in only.found
