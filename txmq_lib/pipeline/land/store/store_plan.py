"""What a pass over a broker's store directory is to read; and whether another process can go on with that plan."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from txmq_lib.config.settings import Settings
from txmq_lib.delta.warehouse import Warehouse
from txmq_lib.errors import InputError
from txmq_lib.passes.current import Pass
from txmq_lib.pipeline.land.broker_state import set_ups
from txmq_lib.pipeline.land.broker_state.broker_settings import DEFAULTS, conf_findings
from txmq_lib.pipeline.land.kinds import STORE
from txmq_lib.pipeline.land.records import files_of_tasks
from txmq_lib.pipeline.land.store import known_logs, log_landing
from txmq_lib.rocketmq.set_ups import ROCKSDB_OFFSETS
from txmq_lib.rocketmq.store.broker_conf import read_broker_conf
from txmq_lib.rocketmq.store.commit_log import RecordIdentity, files_of, list_files, log_end, record_at
from txmq_lib.rocketmq.store.consumer_offset_file import consumer_offset_state
from txmq_lib.rocketmq.store.far_files import is_far
from txmq_lib.rocketmq.store.set_up import config_of, require_readable, set_up_of, store_set_up
from txmq_lib.rules.moments import LATEST_MS


def plan(warehouse: Warehouse, settings: Settings, *, path: str, broker_name: str) -> dict[str, Any]:
    """What a pass over the store is to read: a physical range fixed now, so that a rerun reads the same.

    Raises InputError where `path` is no store directory, or a file is missing in the middle of what is to be read;
    StoreRefusedError where the broker keeps its log in a way that cannot be read.
    """
    path = path if is_far(path) else str(Path(path).absolute())  # whoever carries the plan on may stand elsewhere
    config = config_of(path)
    set_up = store_set_up(path, config)
    require_readable(set_up, path)
    files, gaps = found = files_of(path)
    before = known_logs.standing(warehouse, found, broker_name, settings.land.topics)
    if missing := [f"{low} to {high}" for low, high in gaps if high > before.start]:
        raise InputError(
            f"{path}: the commit log misses physical offsets {', '.join(missing)}; copy the store again, all files"
        )
    end = log_end(files, before.start)
    last = end.last or before.last  # where nothing is new it is still the one read before
    first = record_at(files, files[0].base_offset)
    lost_ms = header_time_ms(first.store_timestamp_ms) if first and first.offset > before.landed_to else None
    traits, own = [trait.name for trait in set_up.notable], {**DEFAULTS, **config} if config else {}
    return {
        "kind": STORE,
        "broker_name": broker_name,
        "path": path,
        "from_offset": before.start,
        "to_offset": end.offset,
        "lowest_offset": files[0].base_offset,
        "last": list(last) if last is not None else None,
        "waiting": end.waiting,
        "cuts": log_landing.cuts_worth_a_task(end.cuts, files, before.start, end.offset, warehouse),
        "are_files_written_by_tasks": files_of_tasks.can_write(warehouse),
        "is_rebuilt": bool(before.former_logs),
        "former_logs": sorted(before.former_logs - {known_logs.whole_log_topic(settings.land.topics)}),
        # An older copy of the store takes nothing back of how far its log was read.
        "read_before": [before.landed_to, list(before.last)] if before.last and before.landed_to > end.offset else None,
        "lost_before_ms": lost_ms,
        "topics": list(settings.land.topics),
        "offset_table": None if set_up.has(ROCKSDB_OFFSETS) else consumer_offset_state(path),
        set_ups.TABLE: set_ups.found(STORE, path, own, traits, settings.for_broker(broker_name)),
    }


def findings(path: str, settings: Settings, broker_name: str) -> Iterator[str]:
    """What people should know of how a broker is set up, and of the broker.conf beside its store."""
    for trait in set_up_of(path).notable:
        yield f"broker {broker_name}: {trait.name}: {trait.words}" + (f"; {trait.to_do}" if trait.to_do else "")
    try:
        found = read_broker_conf(path)
    except OSError as failure:
        yield f"broker {broker_name}: its broker.conf cannot be read: {failure.strerror}"
        return
    if found is not None:
        file, config = found
        policy = settings.for_broker(broker_name)
        yield from (f"broker {broker_name}, {file}: {words}" for words in conf_findings(config, policy))


def can_be_carried_on(current: Pass) -> bool:
    """Whether another process can go on with the plan: the store holds what it is to read, and its way is open."""
    try:
        files = list_files(current.arguments["path"]).files
    except InputError:
        if is_far(current.arguments["path"]):  # an object store that is down says nothing of what is there
            raise
        return False
    last = current.arguments["last"]
    if not files or files[0].base_offset > current.arguments["from_offset"]:
        return False
    if is_by_tasks(current) and not files_of_tasks.can_write(current.warehouse):
        return False
    # A last record that retention has removed was read by a pass before: of this one's range nothing is gone.
    return last is None or last[0] < files[0].base_offset or record_at(files, last[0]) == RecordIdentity(*last)


def is_by_tasks(current: Pass) -> bool:
    # Plans of older versions say nothing of it.
    return bool(current.arguments.get("are_files_written_by_tasks"))


def header_time_ms(stated_ms: int) -> int | None:
    """Epoch ms that a header states; null where it is no time."""
    return stated_ms if 0 <= stated_ms <= LATEST_MS else None
