"""A warehouse whose path has what means something elsewhere: to a shell, to Spark's readers, in SQL, in a URL."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from house import House, wall_clock
from truth import CAPTURES

from txmq_lib.config.table_specs import table_specs
from txmq_lib.pipeline.maintain import run_maintain
from txmq_lib.views.catalogue import VERDICTS
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.select import ViewQuery, view_rows

OF_THE_PASS = {"wall_timestamp", "seconds", "plan_id", "arguments"}


def worked_on(house: House) -> tuple[dict[str, Counter[str]], Counter[tuple]]:
    """Every row of every table after all jobs, and what a view shows."""
    house.land("half", CAPTURES / "restart" / "half.jsonl.gz", broker="audited")
    house.land("op", CAPTURES / "restart" / "op.jsonl.gz", broker="audited")
    house.land("half", CAPTURES / "restart" / "half.jsonl.gz")
    house.land("end", CAPTURES / "restart" / "ends.jsonl.gz")
    house.reconcile()
    house.reconcile()
    house.rollup()
    house.audit()
    told: list[object] = []
    run_maintain(house.warehouse, house.settings, wall_clock=wall_clock, tell=told.append)
    assert told
    rows = {
        table: Counter(
            str(sorted((name, value) for name, value in row.asDict().items() if name not in OF_THE_PASS))
            for row in house.warehouse.read(table).collect()
        )
        for table in table_specs()
    }
    reader = WarehouseReader(house.warehouse.uri)
    return rows, Counter(view_rows(reader, VERDICTS, ViewQuery(), columns=("transaction_id", "verdict")))


def test_whatever_the_path_of_a_warehouse_is_its_tables_come_out_the_same(open_house: Callable[..., House]):
    plain, odd = (
        worked_on(open_house("brokers.audited.role=audit", name=name)) for name in ("w", "it's a [w] {1,2}*? 100% $x")
    )
    assert odd == plain
    tables, verdicts = plain
    assert tables["message"].total()
    assert verdicts.total()
