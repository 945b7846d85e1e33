"""Files that others may have planted: links, pipes and devices in a store, where txmq writes, and where it spills."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest
from captured import unpack_store

from txmq_lib.alerts.told_before import AlertState
from txmq_lib.cli import main
from txmq_lib.cli.options import Options, settings_of
from txmq_lib.cli.run.metrics import told_before
from txmq_lib.errors import InputError
from txmq_lib.files import scratch
from txmq_lib.files.atomic_file import own_umask, write_whole
from txmq_lib.files.plain_file import UnfitError, read_plain
from txmq_lib.pipeline.land.files.listing import _local_files_under
from txmq_lib.pipeline.land.files.reading import materialized_lines
from txmq_lib.rocketmq.store.broker_conf import read_broker_conf
from txmq_lib.rocketmq.store.commit_log import list_files, open_log
from txmq_lib.rocketmq.store.consume_queue import queue_bounds
from txmq_lib.rocketmq.store.consumer_offset_file import consumer_offset_state, read_consumer_offset_file
from txmq_lib.views.reader import WarehouseReader

SECRET = "root:x:0:0"


def planted(place: Path, what: str) -> Path:
    """Something that is no plain file, in the place of what was there."""
    place.parent.mkdir(parents=True, exist_ok=True)
    place.unlink(missing_ok=True)
    if what == "pipe":
        os.mkfifo(place)
    elif what == "device":
        place.symlink_to("/dev/zero")
    else:
        target = place.with_name("victim")
        target.write_text(SECRET)
        place.symlink_to(target)
    return place


@pytest.fixture(autouse=True)
def soon():
    """Nothing here may wait for anybody or read without end."""
    begun = time.monotonic()
    yield
    assert time.monotonic() - begun < 20


WHAT = pytest.mark.parametrize("what", ["link", "pipe", "device"])


@WHAT
def test_an_offset_table_that_is_no_plain_file_is_one_bad_entry_and_is_not_read(tmp_path, what):
    main_file = planted(tmp_path / "config" / "consumerOffset.json", what)
    found = read_consumer_offset_file(str(tmp_path))
    assert (found.offsets.entries, found.path) == ((), str(main_file))
    (bad,) = found.offsets.bad
    assert (bad.reason, bad.raw.startswith("not read: it is a "), SECRET in bad.raw) == (
        "OFFSET_FILE_UNREADABLE", True, False,
    )  # fmt: skip
    assert consumer_offset_state(str(tmp_path)) != consumer_offset_state(str(tmp_path / "nowhere"))
    main_file.with_name("consumerOffset.json.bak").write_text('{"offsetTable":{"T@g":{0:5}}}')
    assert len(read_consumer_offset_file(str(tmp_path)).offsets.entries) == 1


def test_more_of_an_offset_table_than_there_is_room_for_is_not_read(tmp_path):
    (tmp_path / "config").mkdir()
    with (tmp_path / "config" / "consumerOffset.json").open("wb") as file:
        file.truncate(1 << 40)
    (bad,) = read_consumer_offset_file(str(tmp_path)).offsets.bad
    assert bad.raw == "not read: it has more than 134,217,728 bytes"


@WHAT
def test_a_commit_log_or_consume_queue_of_links_is_refused(tmp_path, what):
    store = unpack_store("basic", tmp_path)
    file = list_files(str(store)).files[0]
    queue = next((store / "consumequeue").rglob("0" * 20))
    planted(queue, what)
    with pytest.raises(InputError, match="no plain file"):
        queue_bounds(str(store), lowest_commit_log_offset=0, end_commit_log_offset=1 << 40)
    planted(Path(file.path), what)
    with pytest.raises(InputError, match="is a link, a pipe or a device"):
        list_files(str(store))
    with pytest.raises(InputError, match="no plain file"), open_log(file, 0, 1):  # between the listing and the reading
        pass


@WHAT
def test_a_broker_conf_that_is_no_plain_file_is_told(tmp_path, what):
    planted(tmp_path / "broker.conf", what)
    with pytest.raises(OSError, match="no plain file"):
        read_broker_conf(str(tmp_path))


@WHAT
def test_nothing_is_written_through_what_stands_in_the_place_of_a_file(tmp_path, what):
    place = planted(tmp_path / "out", what)
    with pytest.raises(OSError, match="no plain file"):
        write_whole(place, "text")
    with pytest.raises(InputError, match="no plain file"):
        told_before(place)
    assert not stat.S_ISREG(os.lstat(place).st_mode)
    if what == "link":
        assert (tmp_path / "victim").read_text() == SECRET
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".txmq")] == []


def test_no_name_is_used_that_could_be_planted(tmp_path):
    victim = tmp_path / "victim"
    victim.write_text(SECRET)
    for pid in range(os.getpid() - 2, os.getpid() + 3):
        (tmp_path / f".out.{pid}").symlink_to(victim)
    write_whole(tmp_path / "out", "text")
    assert (victim.read_text(), (tmp_path / "out").read_text()) == (SECRET, "text")


def test_what_a_killed_writer_left_goes_and_what_a_living_one_holds_stays(tmp_path):
    code = """
import os, sys
from pathlib import Path
from txmq_lib.files import atomic_file
descriptor, half_way = atomic_file._begun(Path(sys.argv[1]))
print(half_way.name, flush=True)
sys.stdin.read()
"""

    def writer():
        command = [sys.executable, "-c", code, str(tmp_path)]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)  # fmt: skip

    with writer() as killed, writer() as living:
        left, held = killed.stdout.readline().strip(), living.stdout.readline().strip()
        killed.kill()
        killed.wait()
        write_whole(tmp_path / "out", "text")
        assert sorted(path.name for path in tmp_path.iterdir()) == sorted(["out", held])
        assert left != held


def test_a_write_that_fails_leaves_nothing(tmp_path):
    with pytest.raises(UnicodeEncodeError):
        write_whole(tmp_path / "out", "\udc80")
    assert list(tmp_path.iterdir()) == []


@WHAT
def test_the_state_of_alerts_follows_nobodys_links(tmp_path, what):
    planted(tmp_path / ".alerts.json.lock", what)
    with pytest.raises(InputError, match=r"cannot be kept"), AlertState(tmp_path / "alerts.json").held():
        pass
    (tmp_path / ".alerts.json.lock").unlink()
    planted(tmp_path / "alerts.json", what)
    with pytest.raises(InputError, match="cannot be kept"), AlertState(tmp_path / "alerts.json").held():
        AlertState(tmp_path / "alerts.json").told()


def test_scratch_is_for_one_user_alone_and_what_killed_processes_left_goes(tmp_path):
    code = "from txmq_lib.files.scratch import scratch; print(scratch(), flush=True); (scratch() / 'spill').write_text('x'); input()"
    environment = {**os.environ, "TMPDIR": str(tmp_path)}

    def process():
        return subprocess.Popen(
            [sys.executable, "-c", code], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    with process() as killed, process() as living:
        left, held = Path(killed.stdout.readline().strip()), Path(living.stdout.readline().strip())
        assert (left.parent, left != held) == (tmp_path, True)
        assert stat.S_IMODE(left.stat().st_mode) == 0o700
        killed.kill()
        killed.wait()
        assert (left.exists(), held.exists()) == (True, True)
        with process() as last:
            last.stdout.readline()
            assert (left.exists(), held.exists()) == (False, True)
            last.communicate("\n")
        living.communicate("\n")
    assert list(tmp_path.iterdir()) == []


def test_what_views_spill_lies_where_nobody_else_can_plant_or_look(tmp_path):
    opened = WarehouseReader(str(tmp_path))
    ((place,),) = opened._duckdb.execute("select current_setting('temp_directory')").fetchall()
    assert Path(place).parent == scratch.scratch()
    assert stat.S_IMODE(scratch.scratch().stat().st_mode) == 0o700


def test_scratch_that_another_process_took_for_a_leftover_is_made_again(tmp_path, monkeypatch):
    names, held = [], []

    def taken_at_once(prefix: str) -> str:
        names.append(tempfile.mkdtemp(prefix=prefix, dir=tmp_path))
        if len(names) == 1:
            os.rmdir(names[0])
        return names[-1]

    monkeypatch.setattr(scratch, "mkdtemp", taken_at_once)
    monkeypatch.setattr(scratch, "gettempdir", lambda: str(tmp_path))
    monkeypatch.setattr(scratch, "_held", held)
    monkeypatch.setattr(scratch.atexit, "register", lambda *_: None)
    made = scratch.scratch.__wrapped__()
    os.close(*held)
    assert (len(names), str(made), made.is_dir()) == (2, names[1], True)


def test_scratch_of_others_is_left_alone(tmp_path, monkeypatch):
    (tmp_path / f"{scratch.PREFIX}open").mkdir(mode=0o755)
    (tmp_path / f"{scratch.PREFIX}link").symlink_to(tmp_path)
    (tmp_path / f"{scratch.PREFIX}file").write_text("x")
    scratch._remove_leftovers(tmp_path)
    assert len(list(tmp_path.iterdir())) == 3


def test_plain_files_are_read_and_directories_are_what_they_are(tmp_path):
    (tmp_path / "file").write_bytes(b"12345")
    assert read_plain(tmp_path / "file", 5) == b"12345"
    with pytest.raises(UnfitError) as too_large:
        read_plain(tmp_path / "file", 4)
    assert too_large.value.errno == errno.EFBIG
    with pytest.raises(IsADirectoryError):
        read_plain(tmp_path, 5)
    (tmp_path / "to").symlink_to(tmp_path)
    assert read_plain(tmp_path / "to" / "file", 5) == b"12345"


def test_metrics_are_not_put_in_the_place_of_a_device(tmp_path, capsys):
    assert main(["--warehouse", str(tmp_path / "w"), "metrics", "--out", "/dev/full"]) != 0
    assert stat.S_ISCHR(os.stat("/dev/full").st_mode)


@pytest.mark.parametrize(("readable_by", "mode"), [("owner", 0o600), ("group", 0o640), ("all", 0o644)])
def test_what_is_written_is_readable_by_those_who_were_asked_for(tmp_path, readable_by, mode):
    settings = settings_of(Options((), (f"readable_by={readable_by}",), str(tmp_path)))
    assert settings.readable_by == readable_by
    write_whole(tmp_path / "out", "text")
    (tmp_path / "directory").mkdir()
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == mode
    assert stat.S_IMODE((tmp_path / "directory").stat().st_mode) == mode | (mode & 0o444) >> 2


@pytest.fixture(autouse=True)
def umask():
    before = os.umask(0o022)
    yield
    os.umask(before)


def test_a_command_leaves_the_umask_of_who_called_it(tmp_path):
    assert main(["--warehouse", str(tmp_path / "none"), "status"]) == 2
    assert own_umask() == 0o022


def test_what_is_planted_among_landing_files_is_told_of(tmp_path):
    for name, what in (("link.jsonl", "link"), ("pipe.jsonl", "pipe"), ("device.jsonl", "device")):
        planted(tmp_path / name, what)
    (tmp_path / "directory.jsonl").symlink_to(tmp_path)
    rows = materialized_lines(_local_files_under(str(tmp_path)), 1000).to_pylist()
    assert {(row["value"], row["reason"]) for row in rows} == {("", "FILE_UNREADABLE")}
    assert len(rows) == 4
    assert all("no plain file" in row["detail"] for row in rows)
