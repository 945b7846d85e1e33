"""What SECURITY.md names is there: files, settings, targets; and the numbers are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

from txmq_lib.answers import http
from txmq_lib.rocketmq.remoting import frame

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
WORDS = set(re.findall(r"`([^`]+)`", PAGE))
MADE = {"build/sbom.json"}


def test_every_file_and_target_of_the_page_is_there():
    files = {word for word in WORDS if re.fullmatch(r"[\w.]+(/[\w.*]+)+|\w+\.md", word)}
    assert {"SECURITY.md", *files} - MADE >= {"CHANGELOG.md", "txmq_lib/config/secrets.py", "supply/*.txt"}
    assert [word for word in files - MADE if not list(ROOT.glob(word))] == []
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert {word.split()[1] for word in WORDS if word.startswith("make ")} <= targets


def test_every_setting_of_the_page_is_one():
    base = (ROOT / "conf" / "base.yaml").read_text(encoding="utf-8")
    named = {word for word in WORDS if re.fullmatch(r"(rocketmq|mask)\.\w+", word)}
    assert named
    assert [word for word in named if not re.search(rf"^\s+{word.partition('.')[2]}:", base, re.MULTILINE)] == []


def test_the_numbers_of_the_page_are_those_of_the_code():
    assert f"({frame.MAX_FRAME_BYTES >> 20} MiB a frame)" in PAGE
    assert f"{http.MOST_BYTES >> 10} KiB an answer" in PAGE
