"""Whether the server of a warehouse on S3 refuses what exactly-once rests on its refusing: it is asked, once."""

from __future__ import annotations

from contextlib import suppress
from secrets import token_hex

from deltalake.fs import DeltaStorageHandler
from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from txmq_lib.errors import WarehouseUnsafe
from txmq_lib.files.object_stores import storage_options
from txmq_lib.spark.log_store import put_new

_UNKNOWN_HEADER = "AWSUnsupportedFeatureException"  # 501, or 405


def require_conditional_puts(spark: SparkSession, uri: str) -> None:
    """WarehouseUnsafe where the server takes a second put that must not replace the first, or knows no such puts."""
    name = f"_two_writers_{token_hex(8)}"  # another process may ask at the same time
    try:
        is_first_replaced = all(put_new(spark, f"{uri}/{name}", [line]) for line in ("first", "second"))
        found = "takes a second PUT with If-None-Match: * in the place of the first" if is_first_replaced else ""
    except Py4JJavaError as error:
        if _UNKNOWN_HEADER not in str(error):
            raise
        found = "does not know PUT with If-None-Match: *"
    finally:
        # Spark's file system would put a marker in the place of a directory that is empty again.
        with suppress(Exception):  # who may not delete leaves an object of a few bytes
            DeltaStorageHandler(uri, storage_options(uri, longest_s=4)).delete_file(name)
    if found:
        raise WarehouseUnsafe(
            f"warehouse {uri}: its server {found}, so that two writers would overwrite each other: use a server with"
            " conditional puts (documentation: Object stores)"
        )
