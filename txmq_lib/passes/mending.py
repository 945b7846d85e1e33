"""Sets aside what a power cut has left of commits, with all that was built on it (damage.py). Starts no JVM.

What is set aside is kept below the warehouse. A file names it before anything moves, so that it is done whole.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from txmq_lib.delta.durable import sync_directories
from txmq_lib.delta.entry_check import TableCheck
from txmq_lib.delta.log_entries import on_disk
from txmq_lib.errors import WarehouseDamaged
from txmq_lib.files.atomic_file import write_whole
from txmq_lib.passes.damage import Mending, examined

SET_ASIDE = "_set_aside"
_PLANNED, _LOCK = "planned.json", "lock"


def mend_after_power_cut(uri: str, say: Callable[[str], None]) -> None:
    """Set aside what a power cut has left of commits that nothing relies on; what is done is told through `say`.

    WarehouseDamaged where committed passes are damaged.
    """
    root = on_disk(uri)
    if root is None or not Path(root).is_dir():
        return
    place = Path(root)
    if not _is_planned(place) and not examined(place).damaged:
        return
    with _locked(place):
        _finish(place)
        found = examined(place)
        if not found.damaged:
            return
        if not found.is_of_open_plans:
            raise WarehouseDamaged(
                f"{place}: {'; '.join(found.damaged)}: rows of committed passes are gone;"
                " see what txmq mend would do about it"
            )
        _set_aside(place, found)
    for line in found.lines():
        say(line)


def mend(uri: str) -> Mending:
    """Set aside all that cannot be believed and all that was built on it, committed or not; what was done.

    WarehouseDamaged where that would lose what cannot be computed again.
    """
    root = on_disk(uri)
    place = Path(root or "")
    if root is None or not place.is_dir():
        return Mending()
    with _locked(place):
        _finish(place)
        found = examined(place)
        if found.refusal:
            raise WarehouseDamaged(f"{place}: {'; '.join(found.damaged)}: {found.refusal}")
        if found.damaged:
            _set_aside(place, found)
    return found


# --- what moves


def _set_aside(place: Path, mending: Mending) -> None:
    checkpoints = [str(path.relative_to(place)) for path in mending.checkpoints]
    (place / SET_ASIDE).mkdir(exist_ok=True)
    write_whole(place / SET_ASIDE / _PLANNED, json.dumps({"cuts": mending.cuts, "checkpoints": checkpoints}))
    sync_directories([place])  # the name of SET_ASIDE: without the plan a half of it would look whole
    _finish(place)


def _is_planned(place: Path) -> bool:
    return (place / SET_ASIDE / _PLANNED).exists()


def _finish(place: Path) -> None:
    """Do what was planned, from the newest commit down; done once more it finds nothing to do."""
    if not _is_planned(place):
        return
    planned = json.loads((place / SET_ASIDE / _PLANNED).read_text(encoding="utf-8"))
    moved = [place / name for name in planned["checkpoints"]]
    for name, cut in planned["cuts"].items():
        table = TableCheck(place / name)
        moved += [file for version in range(table.newest, cut - 1, -1) for file in table.files_of(version)]
        moved += [table.log / "_last_checkpoint"] if any(version >= cut for version in table.checkpoints) else []
    for file in moved:
        if file.exists():
            kept = place / SET_ASIDE / file.relative_to(place)
            kept.parent.mkdir(parents=True, exist_ok=True)
            while kept.exists():
                kept = kept.with_name(f"{kept.name}.again")
            file.rename(kept)
    sync_directories({file.parent for file in moved})
    (place / SET_ASIDE / _PLANNED).unlink()
    sync_directories([place / SET_ASIDE])  # done once more it would set aside what is committed from now on


@contextmanager
def _locked(place: Path) -> Iterator[None]:
    """One process at a time: the second finds all mended."""
    (place / SET_ASIDE).mkdir(exist_ok=True)
    with (place / SET_ASIDE / _LOCK).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
