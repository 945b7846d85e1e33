"""`txmq metrics`: the text of the metrics into a file, whole or not at all. Needs deltalake and DuckDB, no JVM."""

from __future__ import annotations

import sys
from datetime import datetime
from functools import partial
from pathlib import Path

from txmq_lib.cli.options import Options, location, settings_of
from txmq_lib.cli.output.out_file import write_out
from txmq_lib.cli.output.pipe import while_read
from txmq_lib.cli.output.said import say
from txmq_lib.config.source_steps import steps_of_sources
from txmq_lib.errors import InputError
from txmq_lib.files.plain_file import read_plain
from txmq_lib.views.metrics import metrics_text
from txmq_lib.views.reader import WarehouseReader

STDOUT = "-"
MOST_BYTES = 64 << 20


def write_metrics(options: Options, out: str, now: datetime) -> None:
    """Write FILE anew; counters go on from what it told before. UsageError where it cannot be written."""
    settings = settings_of(options)
    metrics = partial(
        metrics_text,
        WarehouseReader(location(settings.warehouse)),
        now,
        lag_window_ms=settings.lag_window_ms,
        source_steps=steps_of_sources(settings.sources),
    )
    if out == STDOUT:
        with while_read():
            sys.stdout.write(metrics())
        return
    path = Path(out)
    text = metrics(before=told_before(path))
    write_out(out, text)
    series = sum(not line.startswith("#") for line in text.rstrip("\n").split("\n"))
    say(f"{series} series in {out}", err=True)


def told_before(path: Path) -> str:
    """The text of FILE, empty where there is none; InputError where it is no text of metrics."""
    from prometheus_client.parser import text_string_to_metric_families

    try:
        # Read as text, a carriage return within a label would come back as the end of a line.
        text = read_plain(path, MOST_BYTES).decode("utf-8")
        list(text_string_to_metric_families(text))
    except FileNotFoundError:
        return ""
    except (OSError, ValueError, IndexError, KeyError) as error:
        raise InputError(f"{path} holds no metrics whose counters could be carried on ({error}): remove it") from error
    return text
