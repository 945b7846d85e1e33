"""Delta's jars: nothing but the pinned bytes is put in place, and nothing else is handed to Spark."""

from __future__ import annotations

import hashlib
import shutil

import pytest

from txmq_lib.config.settings import Settings
from txmq_lib.errors import EnvironmentFault
from txmq_lib.spark import jars, session

SPARK_JAR, STORAGE_JAR = jars.jar_names()
REAL = jars.jars_dir()


@pytest.fixture
def place(tmp_path, monkeypatch):
    """An environment of its own, with Delta's real jars in it."""
    place = tmp_path / "jars"
    place.mkdir()
    for name in jars.jar_names():
        shutil.copy(REAL / name, place / name)
    monkeypatch.setattr(jars, "jars_dir", lambda: place)
    return place


@pytest.fixture
def central(tmp_path, monkeypatch):
    """What the resolver leaves: the real jars, to be spoilt."""
    central = tmp_path / "central"
    shutil.copytree(REAL, central, ignore=lambda _, names: set(names) - set(jars.jar_names()))
    monkeypatch.setattr(jars, "_resolve", lambda scratch: [central / name for name in jars.jar_names()])
    return central


def spoil(jar):
    """The same size, one bit of the last byte another."""
    content = bytearray(jar.read_bytes())
    content[-1] ^= 1
    jar.write_bytes(content)


def started(*_, **__):
    raise AssertionError("the JVM was started")


@pytest.mark.parametrize("name", jars.jar_names())
def test_a_session_takes_no_jar_that_was_changed_since_it_was_fetched(place, monkeypatch, name):
    monkeypatch.setattr(session, "start_jvm", started)
    spoil(place / name)
    with pytest.raises(EnvironmentFault) as fault:
        session.build_session("changed", Settings.load())
    assert f"{place / name} is not " in fault.value.message
    assert "python -m txmq_lib.spark.jars" in fault.value.message


def test_a_session_fetches_missing_jars_by_the_pinned_hashes_too(place, central, monkeypatch):
    monkeypatch.setattr(session, "start_jvm", started)
    (place / STORAGE_JAR).unlink()
    spoil(central / STORAGE_JAR)
    with pytest.raises(EnvironmentFault, match="is not the jar that txmq knows"):
        session.build_session("missing", Settings.load())
    assert not (place / STORAGE_JAR).exists()
    shutil.copy(REAL / STORAGE_JAR, central / STORAGE_JAR)
    with pytest.raises(AssertionError, match="the JVM was started"):
        session.build_session("missing", Settings.load())
    assert (place / STORAGE_JAR).read_bytes() == (REAL / STORAGE_JAR).read_bytes()


@pytest.mark.parametrize("name", jars.jar_names())
def test_nothing_of_what_is_fetched_is_put_in_place_where_one_jar_is_another(place, central, name):
    for there in place.iterdir():
        there.unlink()
    spoil(central / name)
    got = hashlib.sha256((central / name).read_bytes()).hexdigest()
    with pytest.raises(EnvironmentFault) as fault:
        jars.install()
    assert got in fault.value.message
    assert jars.SHA256[name] in fault.value.message
    assert list(place.iterdir()) == []


def test_a_jar_that_was_changed_is_fetched_anew_when_asked_for(place, central):
    assert jars.install() is False
    spoil(place / SPARK_JAR)
    (place / "delta-spark_4.0_2.13-4.0.0.jar").touch()
    assert jars.install() is True
    assert {path.name for path in place.iterdir()} == set(jars.jar_names())
    assert {path.stat().st_mode & 0o777 for path in place.iterdir()} == {0o644}
    assert jars.install() is False


def test_delta_of_another_version_has_no_hash_and_is_refused(place, monkeypatch):
    monkeypatch.setattr(jars, "version", {"pyspark": "4.1.4", "delta-spark": "4.4.1"}.get)
    with pytest.raises(EnvironmentFault, match=r"io\.delta:delta-spark_4\.1_2\.13:4\.4\.1.* install txmq again"):
        jars.install()
