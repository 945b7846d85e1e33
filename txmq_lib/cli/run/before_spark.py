"""What can be known to be wrong before a JVM starts: paths and ids. Each raises what the job would."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from txmq_lib.answers.credentials import missing_secrets
from txmq_lib.cli.options import location
from txmq_lib.config.sections import Source
from txmq_lib.config.settings import Settings
from txmq_lib.config.source_steps import ROCKETMQ, STORE
from txmq_lib.errors import InputError, NothingToLandError, SettingsError, TxmqError, UsageError
from txmq_lib.files import local_files
from txmq_lib.files.object_stores import fault_of, storage_options
from txmq_lib.rocketmq.store.commit_log import files_of
from txmq_lib.rocketmq.store.far_files import is_far
from txmq_lib.rocketmq.store.set_up import require_readable, set_up_of
from txmq_lib.views.known_names import landed_names, near_names
from txmq_lib.views.reader import WarehouseReader
from txmq_lib.views.recorded_roles import recorded_roles

# Where any of these is set, a path without a scheme may be of another file system: only Spark can tell.
OTHER_FILE_SYSTEMS = ("HADOOP_CONF_DIR", "SPARK_CONF_DIR", "SPARK_HOME", "PYSPARK_GATEWAY_PORT")
DEFAULT_FILE_SYSTEM = "spark.hadoop.fs.defaultFS"


def is_on_object_store(settings: Settings) -> bool:
    """Whether the warehouse is one that each look takes a request of."""
    return storage_options(location(settings.warehouse)) is not None


def require_warehouse_place(settings: Settings) -> None:
    """InputError where the warehouse is a directory of this machine that is not there and cannot be made, or a store
    that does not answer; SettingsError where two writers could overwrite each other there."""
    path = location(settings.warehouse)
    if fault := fault_of(path, settings.spark):
        raise SettingsError([fault])
    WarehouseReader(path).require_reached()
    if not path.startswith("/"):
        return
    try:
        Path(path).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"warehouse {path} cannot be made: {error.strerror}") from error


def access_faults(settings: Settings, environ: Mapping[str, str]) -> list[str]:
    """One fault per key of the configured live brokers that is not named or not set."""
    if all(source.kind != ROCKETMQ for source in settings.sources):
        return []
    from txmq_lib.pipeline.land.live.live_brokers import access_of

    try:
        access_of(settings, environ)
    except SettingsError as error:
        return list(error.faults)
    return []


def require_secrets(settings: Settings, environ: Mapping[str, str]) -> None:
    """SettingsError with every secret of the configured sources and resolvers that is not there."""
    if faults := [*access_faults(settings, environ), *missing_secrets(settings, environ)]:
        raise SettingsError(faults)


def require_name_servers(settings: Settings, name_servers: Sequence[str], environ: Mapping[str, str]) -> None:
    """UnreachableError where none of these answers; nothing is asked where there are none."""
    if not name_servers:
        return
    from txmq_lib.pipeline.land.live.live_brokers import access_of, require_name_server

    require_name_server(name_servers, access_of(settings, environ))


def require_files(settings: Settings, kind: str, paths: Sequence[str], environment: Mapping[str, str]) -> None:
    """NothingToLandError naming every path of this machine that is not there, or holds nothing to land."""
    if DEFAULT_FILE_SYSTEM in settings.spark or any(name in environment for name in OTHER_FILE_SYSTEMS):
        return
    local = [path for path in paths if local_files.LOCAL_SCHEME.match(path) or not local_files.has_scheme(path)]
    if absent := [path for path in local if not _found(path)]:
        raise NothingToLandError(f"nothing to land at {', '.join(absent)}: there is no such file or directory")
    from txmq_lib.pipeline.land.files.listing import require_local_files

    require_local_files(local, takes_broker_files=kind == "offset")


def require_store(path: str) -> None:
    """What keeps a store, on this machine or on an object store, from being read, before Spark starts.

    Errors  InputError where it is not there or holds no log, StoreRefusedError where it is kept in another way
    """
    if local_files.has_scheme(path) and not is_far(path):
        raise InputError(
            f"store {path} is on neither this machine nor an object store: copy it here or mount it, or land the live"
            " broker (documentation: Object stores)"
        )
    if not is_far(path) and not Path(path).is_dir():
        raise InputError(f"store {path} is no directory: give a store directory that holds commitlog/")
    require_readable(set_up_of(path), path)
    files_of(path)


def require_landed(settings: Settings, column: str, names: Sequence[str], what: str) -> None:
    """UsageError naming those of `names` that no landed row has in `column` (`PLACES` of views/known_names.py).

    TableMissingError where there is no warehouse: nothing can have landed.
    """
    reader = WarehouseReader(location(settings.warehouse))
    landed = landed_names(reader, column, names)
    if missing := [name for name in names if name not in landed]:
        near = near_names(reader, column, missing[0])
        hint = f"; there is {', '.join(near)}" if near else ""
        raise UsageError(f"{what} {', '.join(missing)} has landed{hint}")


def require_recorded_roles(settings: Settings, landed: str | None = None) -> None:
    """RoleChanged where the settings give a broker another role than its rows were made under; every pass asks again.

    landed  the broker that a landing is about, the only one it decides of
    """
    recorded = recorded_roles(location(settings.warehouse))
    meant = {name: role for name, role in recorded.items() if landed in (None, name)}
    if any(settings.for_broker(name).role != role for name, role in meant.items()):
        from txmq_lib.pipeline.shared.roles import require_same_roles  # imports Spark, which takes its time

        require_same_roles(settings, meant)


def require_some_source(settings: Settings, environ: Mapping[str, str]) -> None:
    """The fault there is, or InputError with several, where sources are configured and none of them can be read.

    One that can is enough: the run tells and counts the others. Files may come later, so their source always can.
    """
    faults: list[TxmqError] = []
    for source in sorted(settings.sources, key=lambda source: source.kind == ROCKETMQ):  # disks answer sooner
        for look in _looks(settings, source, environ):
            try:
                look()
            except TxmqError as fault:
                faults.append(fault)
            else:
                return
    if len(faults) > 1:
        raise InputError(f"no source can be read: {'; '.join(fault.message for fault in faults)}")
    if faults:
        raise faults[0]


def _looks(settings: Settings, source: Source, environ: Mapping[str, str]) -> list[Callable[[], None]]:
    """What raises where a store directory, or the name servers, of a source cannot be read: one for each."""
    if source.kind == ROCKETMQ:
        return [partial(require_name_servers, settings, source.namesrv or (), environ)]
    if source.kind == STORE:
        return [partial(require_store, path) for path in source.paths or ()]
    return [lambda: None]


def _found(path: str) -> bool:
    try:
        return bool(local_files.found(path))
    except OSError:
        return True  # who reads it says why it cannot be listed
