"""Where txmq's own files are, beside the package in a checkout or under `txmq_lib/share` in a wheel; its version."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from txmq_lib.errors import EnvironmentFault

_PACKAGE = Path(__file__).resolve().parents[1]
_SHARE = _PACKAGE / "share"


def _resource(in_wheel: str, in_checkout: str) -> Path:
    for path in (_SHARE / in_wheel, _PACKAGE.parent / in_checkout):
        if path.exists():
            return path
    raise EnvironmentFault(
        f"txmq's own {in_checkout} is missing beside {_PACKAGE}; install txmq again or use a complete checkout"
    )


def conf_dir() -> Path:
    """The directory of `base.yaml`, the logging configuration and the example settings."""
    return _resource("conf", "conf")


def schemas_dir() -> Path:
    """The directory with one YAML per table."""
    return _resource("schemas", "schemas")


def jobs_dir() -> Path:
    """The directory with one file per spark-submit entry, and the DAG for Airflow."""
    return _resource("jobs", "jobs")


def demo_store() -> Path:
    """The packed store directory (tar.xz) of a real broker that `txmq demo` lands."""
    return _resource("demo/store.tar.xz", "tests/captures/basic/store.tar.xz")


def demo_consumer_store() -> Path:
    """The same of another one, whose consumers rebalance and were reset."""
    return _resource("demo/consumer-store.tar.xz", "tests/captures/consumer/store.tar.xz")


def demo_polled_offsets() -> Path:
    """What that broker held of its consumer groups, polled: JSON lines with ts, group, topic, queueId, brokerOffset."""
    return _resource("demo/consumer-offsets.jsonl.gz", "tests/captures/consumer/consumer_offsets.jsonl.gz")


def txmq_version() -> str:
    """The version of the installed package; `unknown` where txmq runs from a checkout that nobody installed."""
    try:
        return version("txmq")
    except PackageNotFoundError:
        return "unknown"
