"""How a warehouse on an object store is reached, by Spark and by whoever reads without it: one URI, one set of
credentials.

Credentials are where the store's own tools look for them: the environment, a profile, a file, the machine. None is
kept in a setting, an argument or a plan.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlsplit

from txmq_lib.errors import EnvironmentFault

# deltalake knows both names; Spark's connector is called s3a.
_S3 = ("s3://", "s3a://")
_ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL")
_REGIONS = ("AWS_REGION", "AWS_DEFAULT_REGION")
_S3A = "spark.hadoop.fs.s3a"
LOG_STORE_KEY = "spark.delta.logStore.s3a.impl"
LOG_STORE = "txmq.ConditionalPutLogStore"
# Where the second of two commits of one number is refused: on S3 by txmq, elsewhere by Delta's own log store and by
# deltalake, by a rename or a put that fails where there is something already. The first have a bucket behind them.
_OF_BUCKETS = ("s3", "s3a", "gs", "abfss", "abfs")
_EXCLUSIVE = (*_OF_BUCKETS, "hdfs", "viewfs")
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
# Who holds a lock of its own excludes none of those who do not.
_LOCK_VARIABLE = "AWS_S3_LOCKING_PROVIDER"
_LONGEST_CONNECT_S = 2.5
_CODE = re.compile(r"<Code>(\w+)</Code>")
_COLOURS = re.compile(r"\x1b\[[\d;]*m")
_STATUS = re.compile(r"[345]\d\d [A-Z].*")
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "FilesystemNotFound")
_REFUSED = ("SignatureDoesNotMatch", "InvalidAccessKeyId", "AccessDenied", "ExpiredToken", "InvalidToken")
# Where a machine of Amazon's is asked for credentials when there are none.
_NO_CREDENTIALS = "http://169.254.169.254/"
_LOADING_CREDENTIALS = "an error occurred while loading credentials"  # that machine, a profile or a role gives none
_UNUSABLE = re.compile(r"Unable to \w+ service account|Invalid Access Key")
_TOKEN = "Error performing token request"  # credentials are shown to somebody who gives others for them


class _Words(NamedTuple):
    """What people have to set, or to look at, for a kind of store."""

    bucket: str
    to_set: str
    to_look_at: str
    way: str


_OF_S3 = _Words(
    "bucket",
    "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
    "AWS_ACCESS_KEY_ID, AWS_PROFILE or their like",
    "the network and AWS_ENDPOINT_URL",
)
_OF_GOOGLE = _Words("bucket", "GOOGLE_APPLICATION_CREDENTIALS", "GOOGLE_APPLICATION_CREDENTIALS", "the network")
_OF_AZURE = _Words(
    "container",
    "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
    "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
    "the network and the account in the URI",
)
_WORDS = {"s3": _OF_S3, "s3a": _OF_S3, "gs": _OF_GOOGLE, "abfss": _OF_AZURE, "abfs": _OF_AZURE}


def is_s3(uri: str) -> bool:
    """Whether it lies on S3, or what speaks as it does."""
    return uri.startswith(_S3)


def spark_uri(uri: str) -> str:
    """A URI as Spark's connectors are called."""
    return f"s3a://{uri.partition('://')[2]}" if is_s3(uri) else uri


def storage_options(uri: str, environ: Mapping[str, str] = os.environ, *, longest_s: int = 60) -> dict[str, str] | None:
    """What deltalake is to know beside the environment; None for a place on a file system.

    longest_s  how long one request is tried again
    Errors     EnvironmentFault for an endpoint that is no URL: deltalake panics on it.
    """
    if "://" not in uri or uri.startswith(("file:", "hdfs:", "viewfs:")):
        return None
    options = {"retry_timeout": f"{longest_s}s", "connect_timeout": "3s", "max_retries": "10" if longest_s > 9 else "2"}
    if is_s3(uri):
        if fault := _endpoint_fault(environ):
            raise EnvironmentFault(fault)
        if _first(environ, _ENDPOINTS).startswith("http://"):
            options["allow_http"] = "true"
    return options


def looking_options(uri: str) -> dict[str, str] | None:
    """As `storage_options`, for one look: within three seconds there is an answer or an error.

    What fails at once is tried again, what is silent is not.
    """
    options = storage_options(uri, longest_s=2)
    return None if options is None else {**options, "timeout": "2500ms", "connect_timeout": "2500ms"}


def spark_settings(uri: str, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """Spark's settings for a warehouse there; what the user sets counts more."""
    if uri.startswith("gs://"):
        return {
            "spark.hadoop.fs.gs.impl": "com.google.cloud.hadoop.fs.gcs.GoogleHadoopFileSystem",
            "spark.hadoop.fs.gs.auth.type": "APPLICATION_DEFAULT",
        }
    account, key = environ.get("AZURE_STORAGE_ACCOUNT_NAME"), environ.get("AZURE_STORAGE_ACCOUNT_KEY")
    if uri.startswith(("abfs://", "abfss://")) and account and key:
        return {f"spark.hadoop.fs.azure.account.key.{account}.dfs.core.windows.net": key}
    if not is_s3(uri):
        return {}
    settings = {
        LOG_STORE_KEY: LOG_STORE,
        "spark.hadoop.fs.s3.impl": "org.apache.hadoop.fs.s3a.S3AFileSystem",
        f"{_S3A}.aws.credentials.provider": "software.amazon.awssdk.auth.credentials.DefaultCredentialsProvider",
        # Names of data files are never used twice: no look before each whether one is there.
        f"{_S3A}.performance.flags": "create,mkdir",
    }
    if endpoint := _first(environ, _ENDPOINTS):
        settings[f"{_S3A}.endpoint"] = endpoint
        settings[f"{_S3A}.path.style.access"] = "true"
        settings[f"{_S3A}.connection.ssl.enabled"] = str(endpoint.startswith("https:")).lower()
    if region := _first(environ, _REGIONS):
        settings[f"{_S3A}.endpoint.region"] = region
    return settings


def fault_of(uri: str, stated: Mapping[str, str], environ: Mapping[str, str] = os.environ) -> str:
    """Why two writers could overwrite each other there; empty where they cannot.

    stated  Spark's settings as the user has them
    """
    if not is_s3(uri):
        return ""
    if stated.get(LOG_STORE_KEY, LOG_STORE) != LOG_STORE:
        return f"{LOG_STORE_KEY}: txmq commits by conditional puts, which another log store does not see; leave it out"
    for prefix in (_S3A, f"{_S3A}.bucket.{_bucket(uri)}"):
        name = f"{prefix}.create.conditional.enabled"
        if stated.get(name, "").strip().lower() == "false":
            return f"{name}: without it two writers overwrite each other; leave it out"
    if environ.get(_LOCK_VARIABLE):
        return f"{_LOCK_VARIABLE}: txmq commits by conditional puts, which need no lock and see none; unset it"
    return ""


def place_fault(uri: str) -> str:
    """Why no warehouse can be at a place that is written so; empty where one can."""
    scheme = found[1] if (found := _SCHEME.match(uri)) else "file"
    if scheme == "file":
        return ""
    if scheme not in _EXCLUSIVE:
        known = ", ".join(f"{each}://" for each in _EXCLUSIVE)
        return f"must be a path, or begin with one of {known}: elsewhere of two commits both may be taken"
    bucket = uri.removeprefix(f"{scheme}://").partition("/")[0]
    if not uri.startswith(f"{scheme}://") or (scheme in _OF_BUCKETS and not bucket):
        return f"must be written as {scheme}://{'BUCKET' if scheme in _OF_BUCKETS else 'HOST'}/PATH"
    return ""


def namenode_fault(uri: str) -> str:
    """Why nobody takes a connection at hdfs://HOST:PORT, within 2.5 s an address; empty where somebody does.

    What has no port is a name that Hadoop's own settings tell the addresses of: only Spark may have them.
    """
    try:
        parts = urlsplit(uri)
        if parts.scheme != "hdfs" or not parts.hostname or parts.port is None:
            return ""
        socket.create_connection((parts.hostname, parts.port), timeout=_LONGEST_CONNECT_S).close()
    except (OSError, ValueError) as error:  # ValueError: a port that is no number
        why = getattr(error, "strerror", None) or error
        return f"the NameNode cannot be reached ({why}): look at the network and the URI"
    return ""


def _endpoint_fault(environ: Mapping[str, str]) -> str:
    name = next((each for each in _ENDPOINTS if environ.get(each)), None)
    if name is None:
        return ""
    try:
        parts = urlsplit(environ[name])
        is_url = parts.scheme in ("http", "https") and parts.hostname and not re.search(r"\s", environ[name])
    except ValueError:
        is_url = False
    return "" if is_url else f"{name}: must begin with http:// or https:// and name a host"


def reason_of(error: Exception, uri: str) -> str:
    """Why a store did not answer as it should, in one line: of what deltalake says, which is a dozen."""
    text = str(error)
    code = next(iter(_CODE.findall(text)), "")
    lines = [line.strip(" \u21b3") for line in _COLOURS.sub("", text).splitlines() if line.strip()] or [""]
    status = next((line for line in lines if _STATUS.fullmatch(line)), "")
    words = _WORDS.get(uri.partition("://")[0], _WORDS["s3"])
    if code in _NO_BUCKET:
        return f"there is no {words.bucket} {_bucket(uri)}: make it, or mend the URI"
    if _NO_CREDENTIALS in text or _LOADING_CREDENTIALS in text:
        return f"no credentials were found: set {words.to_set}"
    if code in _REFUSED or status.startswith(("401 ", "403 ")) or (status and _TOKEN in text):
        return f"the store refuses the credentials ({code or status}): look at {words.to_look_at}"
    if "://" in uri and any("error sending request" in line for line in lines):
        return f"the store cannot be reached ({lines[-1]}): look at {words.way}"
    if status:
        return f"the store answers {status}{f' ({code})' if code else ''}"
    if unusable := next((line for line in lines if _UNUSABLE.match(line)), ""):  # nobody was even asked
        return f"{unusable} ({lines[-1]}): look at {words.to_look_at}"
    return lines[0] or type(error).__name__


def _bucket(uri: str) -> str:
    return uri.partition("://")[2].partition("/")[0].partition("@")[0]


def _first(environ: Mapping[str, str], names: tuple[str, ...]) -> str:
    return next((environ[name] for name in names if environ.get(name)), "")
