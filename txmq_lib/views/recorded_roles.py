"""The role that each broker's rows were made under. Reads only."""

from __future__ import annotations

from txmq_lib.errors import TxmqError, WarehouseUnreached
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.scan import Scan


def recorded_roles(uri: str) -> dict[str, str]:
    """The role that each broker's rows were made under, read without a JVM; none where no table tells.

    WarehouseUnreached where the store does not answer.
    """
    try:
        rows = WarehouseReader(uri).rows(Scan("broker", ("broker_name", "role")))
    except WarehouseUnreached:
        raise
    except TxmqError:
        return {}  # what is wrong with it is said by whoever reads more
    return {row["broker_name"]: row["role"] for row in rows}
