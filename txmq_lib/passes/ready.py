"""Opens a warehouse for a pass: what a power cut has left is mended, and the tables are as `schemas/` has them."""

from __future__ import annotations

import logging

from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.passes.mending import mend_after_power_cut

_LOGGER = logging.getLogger("txmq")


def make_ready(warehouse: Warehouse) -> None:
    """Look once whether the newest commits are whole, and make the tables and columns that are missing.

    WarehouseDamaged where committed passes are damaged; SchemaError where a table has other columns.
    """
    if not warehouse.is_looked_after:
        mend_after_power_cut(warehouse.uri, _LOGGER.warning)
        warehouse.is_looked_after = True
    warehouse.ensure()
