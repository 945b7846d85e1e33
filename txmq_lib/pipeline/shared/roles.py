"""Under which role each broker's rows are made: recorded by its first landing, held against the settings of every pass.

A role forgotten for one command would decide again what a broker has decided, or believe what nobody decided. What is
recorded changes by `txmq take-back --decisions` alone, which takes back what was made under the role before.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime
from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from txmq_lib.config.settings import Settings
from txmq_lib.delta.conform import rows_at_hand
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.errors import RoleChanged, SettingsError
from txmq_lib.names import (
    ORIGIN_TXMQ,
    ROLE_AUDIT,
    ROLE_ENGINE,
)
from txmq_lib.passes.current import Pass
from txmq_lib.passes.pass_log import COMMITTED, ROLE_GIVEN
from txmq_lib.passes.ready import make_ready
from txmq_lib.passes.runner import preview
from txmq_lib.rules.pending import is_committed

TABLE = STEP = "broker"
FIRST_SEEN_IN = ("landing_frontier", "end_transaction")


def require_said_role(settings: Settings, broker_names: Iterable[str]) -> None:
    """SettingsError where nobody said the role of a broker whose store, or which itself, is to be landed."""
    unsaid = [name for name in broker_names if settings.said_role(name) is None]
    if unsaid:
        raise SettingsError(
            [
                f"role: not set for broker {name}: say `audit` where a RocketMQ broker decides, `engine` where txmq"
                " does, as role for all brokers, or as brokers.NAME.role. No store and no live broker lands without it"
                for name in unsaid
            ]
        )


def require_some_role(settings: Settings, broker_names: Sequence[str]) -> None:
    """The same of live brokers, before name servers are asked; where none is named, some broker must have a role."""
    is_any_said = settings.role is not None or any(own.role is not None for own in settings.brokers.values())
    require_said_role(settings, broker_names if broker_names or is_any_said else ["(all there are)"])


def require_roles_of_sources(settings: Settings) -> None:
    """The same of all brokers whose stores, or which themselves, are among the configured sources."""
    for source in settings.sources:
        names = [source.broker] if source.broker is not None else []
        if source.kind == "store":
            require_said_role(settings, names)
        elif source.kind == "rocketmq":
            require_some_role(settings, names)


def require_roles_kept(
    warehouse: Warehouse,
    settings: Settings,
    *,
    now: datetime,
    wall_clock: Callable[[], datetime],
    landed: Collection[str] | None = None,
) -> None:
    """What each of several passes asks, before the first of them writes; those that land alone would see too late.

    landed  as `require_same_role` has it
    """
    make_ready(warehouse)
    warehouse.log("pass")  # as each pass begins: else the first one may find that all tables are to be looked at again
    at_hand = preview(warehouse, "", now=now, arguments={}, settings=settings, wall_clock=wall_clock)
    require_same_role(at_hand, landed)


def require_same_role(current: Pass, landed: Collection[str] | None = None) -> None:
    """RoleChanged where the settings of a pass give a broker another role than its rows were made under.

    The newest records count, not those of the plan: a landing records its brokers before any other row.
    landed  the brokers that a landing is about, the only ones it decides of
    """
    known = _known(current)
    require_same_roles(current.settings, {name: known[name] for name in known if landed is None or name in landed})


def require_same_roles(settings: Settings, recorded: Mapping[str, str]) -> None:
    """RoleChanged where the settings give one of these brokers another role than the one recorded of it."""
    for name, role in sorted(recorded.items()):
        if settings.for_broker(name).role != role:
            raise RoleChanged(_words(settings, name, role))


def record_roles(current: Pass, landed: Iterable[str] = ()) -> None:
    """Record the roles of the brokers that land, and of those that landed before roles were recorded, each once.

    The first write of a pass: whoever sees other rows of a broker finds its role.
    """
    if TABLE not in current.input_versions:
        return  # planned by an older version
    known = _known(current)
    roles = dict(known)
    for name in landed:
        roles.setdefault(name, current.settings.for_broker(name).role)
    recorded = recorded_roles(current.warehouse)
    new = {name: role for name, role in roles.items() if name not in recorded}
    if new:
        write(current, new, step=STEP)


def write(current: Pass, roles: Mapping[str, str], *, step: str) -> None:
    """Write rows of `broker`, once; what is recorded stays, but for the step by which a take-back gives a new role."""
    rows = [
        {
            "broker_name": name,
            "role": role,
            "job": current.job,
            "pass_number": current.number,
            "recorded_timestamp": current.now,
        }
        for name, role in sorted(roles.items())
    ]
    current.upsert(TABLE, rows_at_hand(TABLE, rows), step=step, only_if=None if step == ROLE_GIVEN else "false")
    del current.counts[step]  # of what landed it tells nothing


def recorded_roles(warehouse: Warehouse) -> dict[str, str]:
    """The role of each broker that has one, as they are now."""
    return {row["broker_name"]: row["role"] for row in warehouse.materialized_rows(TABLE)}


def _known(current: Pass) -> dict[str, str]:
    warehouse = current.warehouse
    if warehouse.version(TABLE) == 0 and any(current.input_versions[name] > 0 for name in FIRST_SEEN_IN):
        return _of_what_was_written(current)
    return recorded_roles(warehouse)


def _of_what_was_written(current: Pass) -> dict[str, str]:
    """The roles of brokers that landed before roles were recorded.

    Engine where txmq wrote rows of its own, else audit where a broker's ops, given-up or committed messages landed;
    where nothing tells, the role of its last landing, else of this pass.
    """
    decided = [
        current.read("op_message"),
        current.read("trans_check_max_time"),
        current.read("message").where(is_committed()),
    ]
    rows = reduce(DataFrame.unionByName, [frame.select("broker_name", "origin") for frame in decided])
    is_txmqs = F.max(F.col("origin") == ORIGIN_TXMQ).alias("is_txmqs")
    writers = {row["broker_name"]: row["is_txmqs"] for row in rows.groupBy("broker_name").agg(is_txmqs).collect()}
    seen = reduce(DataFrame.union, [current.read(name).select("broker_name") for name in FIRST_SEEN_IN])
    names = {row["broker_name"] for row in seen.distinct().collect()} | writers.keys()
    roles = {name: ROLE_ENGINE if is_txmqs else ROLE_AUDIT for name, is_txmqs in writers.items()}
    landings = _last_landings(current.warehouse) if names - roles.keys() else {}
    for name in names - roles.keys():
        settings = json.loads(landings.get(name, current.settings.to_json()))
        roles[name] = settings["brokers"].get(name, {}).get("role") or settings["role"] or ROLE_ENGINE
    return roles


def _last_landings(warehouse: Warehouse) -> dict[str, str]:
    """The settings of the last landing of each broker, as its pass recorded them."""
    landings = warehouse.read("pass").where(f"job = 'land' and state = '{COMMITTED}'")
    of_broker = landings.groupBy(F.get_json_object("arguments", "$.broker_name").alias("name"))
    return {
        row["name"]: row["last"] for row in of_broker.agg(F.max_by("settings", "pass_number").alias("last")).collect()
    }


def _words(settings: Settings, name: str, recorded: str) -> str:
    policy, origin = settings.for_broker(name), settings.role_origin(name)
    here = f"{policy.role}, says {origin}" if origin else f"{policy.role}, since nobody says another"
    return (
        f"broker {name}: its rows were made in the role {recorded}, and its role here is {here}; nothing was written."
        f" Give it `role: {recorded}`, for all brokers or as brokers.{name}.role, in the settings of every command."
        f" Was {recorded} the mistake? txmq take-back --broker {name} --decisions, with the right role in the settings,"
        " takes back what was decided under the other and keeps what landed"
    )
