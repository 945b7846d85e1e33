"""A table's Delta log as far as it was looked at: what Delta's own snapshot would run a Spark job to tell.

A look asks for what is behind the last known version. The first one begins at a checkpoint, so that what is read does
not grow with the table's history.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

from txmq_lib.delta.checkpoint import LAST_CHECKPOINT, Checkpoint, checkpoint_of, file_name, named_version
from txmq_lib.delta.log_actions import Commit, DataFile, Metadata, commit_of
from txmq_lib.delta.log_folder import REQUESTS_AT_ONCE, LogFolder, side_by_side

COMMIT_FILE = re.compile(r"(\d{20})\.json")
CHECKPOINT_FILE = re.compile(r"(\d{20})\.checkpoint\..*parquet")
# Of how many versions it is remembered which files they have.
REMEMBERED_VERSIONS = 64
REMEMBERED_COMMITS = 200
# Beyond so many entries a checkpoint on the way is sought, and so many are read at a time.
MANY_ENTRIES = 100


@dataclass
class _Known:
    """One table as far as its entries were followed."""

    version: int = -1
    txns: dict[str, int] = field(default_factory=dict)
    files: dict[str, DataFile] = field(default_factory=dict)
    metadata: Metadata = field(default_factory=Metadata)
    # None: only Delta can read them.
    files_of: OrderedDict[int, tuple[DataFile, ...] | None] = field(default_factory=OrderedDict)

    @classmethod
    def at(cls, checkpoint: Checkpoint) -> _Known:
        """As a checkpoint has it."""
        known = cls(checkpoint.version, dict(checkpoint.txns), dict(checkpoint.files), checkpoint.metadata)
        known._remember_files()
        return known

    def follow(self, version: int, commit: Commit) -> None:
        """Take in the next entry."""
        self.version = version
        self.txns.update(commit.txns)
        for path in commit.removed:
            self.files.pop(path, None)
        self.files.update((file.path, file) for file in commit.added)
        self.metadata = commit.metadata or self.metadata
        self._remember_files()

    def _remember_files(self) -> None:
        self.files_of[self.version] = None if self.metadata.is_mapped else tuple(self.files.values())
        while len(self.files_of) > REMEMBERED_VERSIONS:
            self.files_of.popitem(last=False)


class LogEntries:
    """The log of one table. What was read of it is kept: an entry never changes."""

    def __init__(self, folder: LogFolder) -> None:
        self._folder = folder
        self._newest: int | None = None
        self._has_checkpoint = False
        # What the first look found to begin at, until it is begun there.
        self._named: int | None = None
        # The version of the newest checkpoint, as of when it was last asked for.
        self._checkpoint: int | None = None
        self._commits: OrderedDict[int, Commit] = OrderedDict()
        # None: not followed yet. Where entries are missing Delta has to tell.
        self._known: _Known | None = None
        self._is_torn = False

    @property
    def known_newest(self) -> int | None:
        """The newest version as of the last look; -1 for no table, None before any look."""
        return self._newest

    def newest(self, *, since: int | None = None) -> int:
        """The table's newest version, by a look; -1 for no table.

        since  a version that it is known to have reached: what lies before it is not listed, nor looked for
        """
        is_first = self._newest in (None, -1)
        start = since if is_first else self._newest
        names = [] if start is None else self._folder.names(entry_name(_before(start) if is_first else start))
        if start is None or entry_name(start) not in names:
            # The first look, or what was known is gone: another table stands in its place.
            self._forget()
            names = self._first_look()
        elif max(_versions(names)) != self._newest:  # by now there may be another checkpoint
            self._named = None
        # It stands behind all entries in the order of names.
        self._has_checkpoint = LAST_CHECKPOINT in names
        self._newest = max(_versions(names), default=-1)
        return self._newest

    def versions(self) -> list[int]:
        """Versions whose entries the log still holds."""
        return _versions(self._folder.names(""))

    def checkpoints(self) -> list[int]:
        """Versions of which the log holds a checkpoint."""
        return [int(found[1]) for found in map(CHECKPOINT_FILE.fullmatch, self._folder.names("")) if found]

    def newest_checkpoint(self, *, may_be_older: bool = False) -> int:
        """The version of the newest checkpoint; -1 where there is none.

        may_be_older  as it was when this process last looked: others may have made one since
        """
        return self._checkpoint if may_be_older and self._checkpoint is not None else self._read_name()

    def commit(self, version: int) -> Commit | None:
        """What the entry of a version says, or None where the log no longer holds it."""
        if version not in self._commits:
            content = self._folder.read(entry_name(version))
            if content is None:
                return None
            self._commits[version] = commit_of(content.decode())
            while len(self._commits) > REMEMBERED_COMMITS:
                self._commits.popitem(last=False)
        return self._commits[version]

    def holds(self, version: int) -> bool:
        """Whether the entry of a version was read already."""
        return version in self._commits

    def mark(self, version: int) -> str:
        """What tells the entry of a version from any other of its number, unread; empty where nothing does."""
        return self._folder.mark(entry_name(version))

    def fetch(self, versions: Iterable[int]) -> None:
        """Read entries that will be asked for, side by side."""
        if not self._folder.is_near:
            missing = [version for version in versions if version not in self._commits]
            before = _before(min(missing, default=0))
            self._folder.prepare(entry_name(before), [entry_name(version) for version in missing])
            side_by_side(self.commit, missing)

    def txns(self, newest: int) -> dict[str, int] | None:
        """The highest txnVersion of every app id; None where the log does not tell."""
        known = self._followed(newest)
        return None if known is None else known.txns

    def metadata(self, newest: int) -> Metadata | None:
        """The table's metadata; None where the log does not tell."""
        known = self._followed(newest)
        return None if known is None else known.metadata

    def plain_files(self, version: int, newest: int) -> tuple[DataFile, ...] | None:
        """The files a version has, where all are plain; else, and where nothing tells, None."""
        known = self._followed(newest)
        files = None if known is None else known.files_of.get(version)
        return files if files is not None and all(file.is_plain for file in files) else None

    def _forget(self) -> None:
        self._known, self._is_torn, self._checkpoint = None, False, None
        self._commits.clear()

    def _first_look(self) -> list[str]:
        if self._folder.is_near:
            return self._folder.names("0")
        self._named = named = self._read_name()
        names = self._folder.names(_of_version(_before(named))) if named >= 0 else []
        is_there = max(_versions(names), default=-1) >= named >= 0
        return names if is_there else self._folder.names("0")

    def _followed(self, newest: int) -> _Known | None:
        if self._known is None or newest - self._known.version > MANY_ENTRIES:
            self._begin(newest)
        known = self._known
        while known is not None and not self._is_torn and known.version < newest:
            ahead = range(known.version + 1, min(newest, known.version + MANY_ENTRIES) + 1)
            self.fetch(ahead)
            for version in ahead:
                commit = self.commit(version)
                if commit is None:
                    # Entries were removed, as the table's retention says, behind no checkpoint that is read here.
                    self._is_torn = True
                    break
                known.follow(version, commit)
        return None if self._is_torn else known

    def _begin(self, newest: int) -> None:
        """Begin at a checkpoint, where there is one ahead of what is known."""
        reached = -1 if self._known is None else self._known.version
        named, self._named = self._named, None
        version = named if named is not None else self._named_now()
        if version > newest:  # made since the last look
            version = max((made for made in self.checkpoints() if made <= newest), default=-1)
        if version > reached and (content := self._folder.read(file_name(version))) is not None:
            checkpoint = checkpoint_of(version, content)
            if checkpoint is not None:
                self._known, self._is_torn = _Known.at(checkpoint), False
        self._known = self._known or _Known()

    def _named_now(self) -> int:
        return self._read_name() if self._has_checkpoint else -1

    def _read_name(self) -> int:
        self._checkpoint = named_version(self._folder.read(LAST_CHECKPOINT))
        return self._checkpoint


def _before(version: int) -> int:
    """Where a look begins that finds those before a version as well: whoever goes backwards asks for them next."""
    return max(0, version - REQUESTS_AT_ONCE)


def _of_version(version: int) -> str:
    return f"{version:020d}"


def entry_name(version: int) -> str:
    """What the entry of a version is called."""
    return f"{_of_version(version)}.json"


def _versions(names: Iterable[str]) -> list[int]:
    return [int(found[1]) for found in map(COMMIT_FILE.fullmatch, names) if found]


def on_disk(path: str) -> str | None:
    """A path on this machine's disk without its scheme; None for any other place."""
    bare = path.removeprefix("file:")
    return bare if ":" not in bare else None
