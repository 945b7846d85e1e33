"""What is a secret, and what is left of words with secrets in them."""

from __future__ import annotations

import re
import time

import pytest

from txmq_lib.config.secrets import SPARK_REGEX, has_secret, is_ambiguous, is_secret, scrubbed, secrets_of_header
from txmq_lib.config.settings import Settings
from txmq_lib.errors import SettingsError


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.ssl.keyStorePw", "x"),
        ("spark.hadoop.google.cloud.auth.service.account.json.keyfile.data", "x"),
        ("spark.hadoop.fs.s3a.secret.key", "x"),
        ("spark.jars.repositories", "https://repo.a/maven,https://me:s3cret@repo.b/maven"),
        ("spark.jars.repositories", "https://ghp_s3cret@repo.b/maven"),
        ("spark.x.url", "jdbc:mysql://h/db?user=me&pwd=s3cret"),
        ("spark.x.url", "https://h/hook?token=s3cret"),
        ("spark.x.url", "https://h/box?sv=1&sig=s3cret"),
        ("spark.driver.extraJavaOptions", "-Da=b -Djavax.net.ssl.keyStorePassword=x"),
        ("warehouse", "s3a://KEY:SE/CRET@bucket/txmq"),
    ],
)
def test_it_is_hidden(key, value):
    assert is_secret(key, value)
    if key.startswith("spark."):
        assert re.search(SPARK_REGEX, key) or re.search(SPARK_REGEX, value), "by Spark too"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("spark.sql.mapKeyDedupPolicy", "LAST_WIN"),
        ("spark.jars.repositories", "https://repo.a/maven"),
        ("spark.hadoop.fs.defaultFS", "hdfs://namenode:8020"),
        ("spark.sql.shuffle.partitions", "7"),
        ("spark.hadoop.fs.s3a.endpoint", "https://127.0.0.1:9000"),
        ("rocketmq.consumer_group", "CID_TXMQ"),
        ("warehouse", "abfss://box@account.dfs.core.windows.net/txmq"),
    ],
)
def test_it_is_shown(key, value):
    assert not is_secret(key, value)


@pytest.mark.parametrize(
    "location",
    [
        "s3a://KEY:SE/CRET@bucket/x",
        "s3a://KEY:1/SECRET@bucket",
        "s3://KEY:SE CRET@bucket",
        "hdfs://me:8020x@h/x",
        "redis://:s3cret@h",
        "https://h/x?a=1&Token=s3cret",
        "https://h/x?api_key=s3cret",
        "https://s3cret@h/x",
    ],
)
def test_a_location_with_a_secret_is_found(location):
    assert has_secret(location)


@pytest.mark.parametrize(
    "location",
    [
        *("hdfs://nn:8020/user/a@b", "http://h:8080?x=a@b", "s3a://bucket/dt=1:2/a@b", "file:///a:b@c/x", "/a/b:c@d"),
        *("abfss://box@account.dfs.core.windows.net/x", "data?token=1.jsonl", "s3a://bucket/token=5/x.jsonl", "a:b@c"),
    ],
)
def test_a_location_without_a_secret_is_not_taken_for_one(location):
    assert not has_secret(location)


@pytest.mark.parametrize(
    ("words", "secrets", "left"),
    [
        ("no host s@f/e?x y", ["s@f/e?x y"], "no host ***"),
        ("no host s%40f%2Fe%3Fx%20y", ["s@f/e?x y"], "no host ***"),
        ("host='a\\'b'", ["a'b\n", "a\\'b"], "host='***'"),
        ("cannot open s3a://KEY:SE/CRET@bucket/x: gone", [], "cannot open s3a://KEY:***@bucket/x: gone"),
        ("GET https://s3cret@h/x failed", [], "GET https://***@h/x failed"),
        ("GET https://h/x?token=s3cret&a=1 failed", [], "GET https://h/x?token=***&a=1 failed"),
        ("host=h password='s3 cret' user=me", [], "host=h password=*** user=me"),
        ("sent Authorization: Bearer s3.cr-et", [], "sent Authorization: Bearer ***"),
        ("password authentication failed for user me", [], "password authentication failed for user me"),
        ("hdfs://nn:8020/a@b is not there", [], "hdfs://nn:8020/a@b is not there"),
    ],
)
def test_words_are_freed_of_secrets_in_every_form(words, secrets, left):
    assert scrubbed(words, secrets) == left


def test_what_a_header_of_basic_authentication_stands_for_is_a_secret_too():
    assert set(secrets_of_header("Basic bWU6czNjcmV0")) == {
        *("Basic bWU6czNjcmV0", "Basic", "bWU6czNjcmV0", "me:s3cret", "s3cret"),
    }  # fmt: skip


@pytest.mark.parametrize("url", ["pg://u:p@ss@h/db", "pg://u:p@ss/word@h/db", "pg://u:p@h?x@y", "pg://u@corp:p@s@h"])
def test_a_url_whose_password_may_go_on_is_found(url):
    assert is_ambiguous(url)


@pytest.mark.parametrize("url", ["pg://u:p%40ss@h/db", "pg://u@corp:pw@h/db", "sqlite:////a@b/c@d.db", "pg://h:1/db"])
def test_a_url_that_reads_one_way_is_not_ambiguous(url):
    assert not is_ambiguous(url)


@pytest.mark.parametrize("part", ["a", "://a:", "token", "password=", "https://", "a:", "@", "bearer "])
def test_long_words_are_scrubbed_in_no_long_time(part):
    begun = time.process_time()
    scrubbed(part * (300_000 // len(part)))
    assert time.process_time() - begun < 5


def test_a_notebook_shows_settings_without_secrets():
    stated = ["spark.spark.hadoop.fs.s3a.secret.key=s3cret", "spark.spark.x.url=https://me:s3cret@h", "spark.spark.y=1"]
    settings = Settings.load(assignments=stated)
    for shown in (repr(settings), str(settings), f"{settings}"):
        assert ("s3cret" in shown, "'spark.y': '1'" in shown) == (False, True)
    assert settings.spark["spark.hadoop.fs.s3a.secret.key"] == "s3cret"


@pytest.mark.parametrize(
    "stated",
    [
        "resolvers={G: {kind: sql, url_file: 'pg://me:s3cret@h/db', table: t, key_column: a, state_column: b, commit: [C]}}",
        "resolvers={G: {kind: http, endpoints: ['https://h'], ca_file: 'https://me:s3cret@h/ca'}}",
        "rocketmq.ca_file=https://h/ca?token=s3cret",
        "sources=[{kind: rocketmq, namesrv: ['me:s3cret@h:9876']}]",
    ],
)
def test_a_secret_where_a_place_is_to_be_named_is_refused_and_not_repeated(stated):
    with pytest.raises(SettingsError) as refused:
        Settings.load(assignments=[stated])
    assert "s3cret" not in refused.value.message
