"""A table as data, and its text: drawn by rich on a terminal, plain aligned columns when piped."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from io import StringIO
from typing import Any, Literal

from specverify.report.numbers import MISSING, scalar

__all__ = ["Table", "records_table", "render_table"]

_STYLES = {
    "pass": "green",
    "xfail": "green",
    "fail": "bold red",
    "xpass": "bold red",
    "error": "bold red",
    "inconclusive": "yellow",
    "skip": "dim",
}
_GAP = 2  # blanks between two columns
_USUAL_WIDTH = 120
_LEGIBLE = 4


@dataclass(frozen=True)
class Table:
    """Rows of text under headers.

    Attributes:
        headers: One text a column.
        rows: Cells, one text a column.
        right: Indices of the columns that are aligned to the right (numbers).
        title: A line above the table.
    """

    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    right: frozenset[int] = frozenset()
    title: str = ""


def records_table(records: Sequence[Mapping[str, Any]], *, title: str = "") -> Table:
    """A row a record; columns of numbers are aligned to the right.

    Args:
        records: At least one; their keys, in order of appearance, are the headers, and a record
            without one of them shows it as unknown.
        title: A line above the table.
    """
    keys = list(dict.fromkeys(key for record in records for key in record))
    rows = [[scalar(record.get(key)) for key in keys] for record in records]
    places = range(len(keys))
    numeric = (place for place in places if all(_is_number(row[place]) for row in rows))
    headers = [key.replace("_", " ") for key in keys]
    return Table(headers=headers, rows=rows, right=frozenset(numeric), title=title)


def render_table(table: Table, *, width: int | None = None, color: bool = False) -> str:
    """Render a table as text, ending in a newline.

    Args:
        table: What to show.
        width: Columns of the terminal, to which cells are wrapped; ``None`` never wraps.
        color: Draw for a terminal (rules and colours) instead of plain text.

    Returns:
        The text: without colour no line has an escape sequence, a rule or trailing blanks.
    """
    return _drawn(table, width) if color else _plain(table)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text == MISSING
    return True


def _plain(table: Table) -> str:
    lines = [table.headers, *table.rows]
    widths = [max(len(line[column]) for line in lines) for column in range(len(table.headers))]
    text = [f"{table.title}\n"] if table.title else []
    for line in lines:
        cells = [
            cell.rjust(width) if column in table.right else cell.ljust(width)
            for column, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        text.append("  ".join(cells).rstrip() + "\n")
    return "".join(text)


def _widths(table: Table, width: int) -> list[int]:
    """Widths of the columns: no word of a cell is broken where all of them fit side by side."""
    columns = [list(column) for column in zip(table.headers, *table.rows, strict=True)]
    whole = [max(map(len, column)) for column in columns]
    room = max(width - _GAP * (len(columns) - 1), len(columns))
    headers = [_longest_word(column[:1]) for column in columns]
    # A header may be broken for the cells' sake, yet not to a letter a line.
    legible = [min(length, _LEGIBLE) for length in headers]
    widths = list(map(max, legible, (_longest_word(column[1:]) for column in columns)))
    while sum(widths) > room:
        widths[widths.index(max(widths))] -= 1
    for wanted in (headers, whole):  # what is left goes to whom it serves with the least
        missing = [max(want - there, 0) for want, there in zip(wanted, widths, strict=True)]
        for place in sorted(range(len(columns)), key=missing.__getitem__):
            widths[place] += min(missing[place], room - sum(widths))
    return widths


def _longest_word(cells: Sequence[str]) -> int:
    return max((len(word) for cell in cells for word in cell.split()), default=1)


def _drawn(table: Table, width: int | None) -> str:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    drawn = RichTable(
        box=SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
        padding=(0, 1, 0, 0),
    )
    room = width or _USUAL_WIDTH
    for column, (header, cells) in enumerate(zip(table.headers, _widths(table, room), strict=True)):
        # A name is folded, never cut: it is what one types to run a check again.
        justify: Literal["left", "right"] = "right" if column in table.right else "left"
        drawn.add_column(Text(header), justify=justify, overflow="fold", width=cells)
    for row in table.rows:
        drawn.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in row))
    text = StringIO()
    console = Console(file=text, width=room, force_terminal=True, color_system="standard")
    if table.title:
        console.print(Text(table.title, style="bold"))
    console.print(drawn)
    return text.getvalue().rstrip("\n") + "\n"
