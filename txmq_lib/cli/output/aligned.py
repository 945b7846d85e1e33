"""Columns of a screen of 80 characters. What does not fit is cut at its end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from txmq_lib.escaping import shortened, visible

WIDTH = 80
ELLIPSIS = "…"

Row = Sequence[str]


def aligned(head: Row, rows: Sequence[Row], *, text: Sequence[int] = (0,)) -> Iterator[str]:
    """Indented columns within 80, those of `text` to the left and cut where there is no room, numbers to the right."""
    if not rows:
        return
    rows = [[visible(shortened(cell, WIDTH)) for cell in row] for row in rows]
    widths = [max(len(row[place]) for row in (head, *rows)) for place in range(len(head))]
    over = sum(widths) + 2 * len(widths) - WIDTH
    for place in sorted(text, key=lambda place: -widths[place]):
        least = max(len(head[place]), 12)
        cut = min(max(over, 0), max(widths[place] - least, 0))
        widths[place] -= cut
        over -= cut
    for row in (head, *rows):
        cells = [
            f"{_cut(cell, width):<{width}}" if place in text else f"{cell:>{width}}"
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        ]
        yield ("  " + "  ".join(cells)).rstrip()


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + ELLIPSIS
