"""Whether a file on this machine is whole: what a power cut may have left of it. Reads only."""

from __future__ import annotations

import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

DIFFERS = "is not what its checksum says"
_ROWS_AT_ONCE = 1024  # few: a value that a dictionary has once may be in each of them
_CHECKSUM_MAGIC = b"crc\0"
_CHECKSUM_HEADER = 8  # the magic, and a big-endian int: bytes that each checksum is of


def fault_of(file: Path, size: int | None, *, is_read: bool = True) -> str:
    """Why a Parquet file cannot be read whole; empty where it can. OSError where the system does not give it."""
    try:
        if size is not None and file.stat().st_size != size:
            return f"its file {file.name} is cut off"
        if not is_read:
            return ""
        if not is_as_summed(file):
            return f"its file {file.name} {DIFFERS}"
        with pq.ParquetFile(file) as parquet:
            for _ in parquet.iter_batches(batch_size=_ROWS_AT_ONCE):
                pass
    except FileNotFoundError:
        return f"its file {file.name} is not there"
    except (pa.ArrowMemoryError, pa.ArrowNotImplementedError):
        return ""  # too much for this process, or for Arrow, is no damage
    except pa.ArrowException:
        return f"its file {file.name} is damaged"
    except OSError as error:
        if error.errno is not None:
            raise  # that a file could not be read says nothing of what is in it
        return f"its file {file.name} is damaged"
    return ""


def is_as_summed(file: Path, *, is_streamed: bool = False) -> bool:
    """Whether a file is what the checksums say that Hadoop keeps beside it; true where it keeps none.

    Spark reads nothing of a file that differs, be it whole, and they cut off. Without their header a file is streamed
    unchecked, and Parquet, which is read by ranges, is not read (ChecksumFileSystem.java).
    """
    try:
        summed = file.with_name(f".{file.name}.crc").read_bytes()
    except FileNotFoundError:
        return True
    if len(summed) < _CHECKSUM_HEADER or not summed.startswith(_CHECKSUM_MAGIC):
        return is_streamed
    size = int.from_bytes(summed[len(_CHECKSUM_MAGIC) : _CHECKSUM_HEADER], "big")
    with file.open("rb") as content:
        chunks = iter(lambda: content.read(size), b"")
        sums = b"".join(zlib.crc32(chunk).to_bytes(4, "big") for chunk in chunks)
    return sums == summed[_CHECKSUM_HEADER:]
