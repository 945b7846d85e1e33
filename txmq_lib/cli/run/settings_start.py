"""A settings file to begin with. Starts no JVM."""

from __future__ import annotations

import os
from pathlib import Path

from txmq_lib.cli.options import FOUND_FILE
from txmq_lib.config.resources import conf_dir
from txmq_lib.errors import InputError, UsageError


def write_start(start: str, out: Path) -> list[str]:
    """Write the file of `conf/start` to `out`; what to say of it, and what comes next.

    UsageError where `out` exists, InputError where it cannot be written.
    """
    text = (conf_dir() / "start" / f"{start}.yaml").read_text(encoding="utf-8")
    try:
        with open(out, "x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise UsageError(f"{out} exists and is left as it is; name another file by --out") from None
    except OSError as error:
        raise InputError(f"{out} cannot be written: {error.strerror}") from error
    option = "" if os.path.normpath(out) == FOUND_FILE else f" --conf {out}"
    return [
        f"{out} written: set warehouse, sources and the limits of your brokers in it",
        f"next: txmq{option} doctor, then txmq{option} run, then txmq{option} status",
    ]
