"""Settings files and assignments of any text: settings, or every fault by its layer."""

from __future__ import annotations

from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory

from fuzz.hostile import EDGE_NUMBERS, damaged, json_text, text, value

from txmq_lib.config.settings import Settings
from txmq_lib.config.yaml_layers import read_file
from txmq_lib.errors import SettingsError


def settings(chance: Random) -> int:
    """Any text as a settings file or an assignment: settings, or SettingsError that names the layer."""
    written = _yaml(chance)
    with TemporaryDirectory() as scratch:
        file = Path(scratch, "odd.yaml")
        file.write_bytes(written)
        key = chance.choice(["role", "brokers.b.role", "land.topics", "spark.spark.x", "warehouse", text(chance)])
        assignments = [f"{key}={json_text(chance, value(chance))}"] if chance.random() < 0.5 else []
        try:
            Settings.load([file], assignments)
        except SettingsError:
            return 1
    return 1


def _yaml(chance: Random) -> bytes:
    base = EVERY_SETTING.encode()
    match chance.randrange(4):
        case 0:
            return damaged(chance, base)
        case 1:
            return f"{chance.choice(KEYS)}: {json_text(chance, value(chance))}\n".encode("utf-8", "backslashreplace")
        case 2:
            return f"{chance.choice(KEYS)}: {chance.choice(ODD_YAML)}\n".encode()
        case _:
            return text(chance).encode("utf-8", "surrogatepass")


KEYS = ("role", "transaction_timeout", "brokers", "warehouse", "land", "sources", "thresholds", "spark", "x")
EVERY_SETTING = """role: audit
transaction_timeout: 2s
transaction_check_max: 3
brokers: {in-house: {role: engine}}
sources: [{kind: store, paths: [store], broker: b}]
spark: {spark.driver.memory: 1g}
"""
BILLIONS = "".join(
    f"  {letter}: &{letter} [{', '.join([f'*{above}'] * 9)}]\n"
    for above, letter in zip("abcdefghi", "bcdefghij", strict=True)
)
ODD_YAML = (
    "!!python/object/apply:os.system [true]",
    "!!python/name:os.system",
    "!!binary x",
    "!!set {a, b}",
    "!!timestamp 2001-99-99",
    *("!!int", "!!float", "!!int '_'", ":".join(["59"] * 400) + ".5"),
    "&a [*a]",
    "*nowhere",
    "<<: {a: b}",
    "0x" + "f" * 6000,
    "9" * 6000,
    ".nan",
    "-.inf",
    "1e400",
    "[" * 3000,
    "{a: " * 3000,
    f"{{spark.x: {[2**70]}}}",
    "\n  a: &a [1]\n" + BILLIONS,
    *map(str, EDGE_NUMBERS[:6]),
)


def yaml_bomb(chance: Random) -> int:
    """Aliases that stand for billions of values are a fault, found quickly."""
    with TemporaryDirectory() as scratch:
        file = Path(scratch, "bomb.yaml")
        file.write_text(f"{chance.choice(KEYS)}:\n  a: &a [1]\n{BILLIONS}", encoding="utf-8")
        assert read_file(file, "bomb.yaml").faults
    return 1
