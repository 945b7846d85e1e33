"""What people are told of errors: a code and one line."""

from __future__ import annotations

import pytest

from txmq_lib.errors import UsageError, code_and_words

OF_A_WORKER = """[PYTHON_DATA_SOURCE_ERROR] Failed to initialize Python data source reader: Traceback (most recent call last):
  File "worker.py", line 1, in main
    reader = source.reader(schema)
txmq_lib.errors.UsageError: rocketmq: access_key_env: the environment variable KEY is not set

SQLSTATE: 38000"""


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (UsageError("two\nlines"), ("USAGE", "two\nlines")),
        (ValueError("one\ntwo"), ("UNEXPECTED", "ValueError: one")),
        (ValueError(), ("UNEXPECTED", "ValueError: ")),
        (
            RuntimeError(OF_A_WORKER),
            (
                "UNEXPECTED",
                "RuntimeError: [PYTHON_DATA_SOURCE_ERROR] Failed to initialize Python data source reader:"
                " txmq_lib.errors.UsageError: rocketmq: access_key_env: the environment variable KEY is not set",
            ),
        ),
        (RuntimeError("Traceback (most recent call last):\n  cut"), ("UNEXPECTED", "RuntimeError: ")),
    ],
)
def test_an_error_is_told_by_its_code_and_one_line(error, line):
    assert code_and_words(error) == line
