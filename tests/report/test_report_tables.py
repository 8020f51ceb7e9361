"""Tables: plain when piped, drawn and wrapped on a terminal."""

from __future__ import annotations

import re

from specverify.report.tables import Table, render_table

TABLE = Table(
    headers=("verdict", "check", "n"),
    rows=[("pass", "a check with a long name", "20,000"), ("fail", "b", "7")],
    right=frozenset({2}),
    title="checks",
)


def test_plain_text_is_aligned() -> None:
    assert render_table(TABLE) == (
        "checks\n"
        "verdict  check                          n\n"
        "pass     a check with a long name  20,000\n"
        "fail     b                              7\n"
    )


def test_plain_text_has_neither_colours_nor_rules() -> None:
    assert render_table(TABLE).isascii()
    assert "\x1b" not in render_table(TABLE)


def test_a_terminal_gets_colours_and_its_width_is_kept() -> None:
    drawn = render_table(TABLE, width=30, color=True)
    assert "\x1b[" in drawn
    lines = re.sub(r"\x1b\[[0-9;]*m", "", drawn).splitlines()
    assert max(map(len, lines)) <= 30


def test_a_name_is_folded_and_never_cut() -> None:
    table = Table(headers=("check",), rows=[("acceptance[zeros-in-target]",)])
    drawn = render_table(table, width=12, color=True)
    text = re.sub(r"\x1b\[[0-9;]*m", "", drawn)
    assert "acceptance[zeros-in-target]" in "".join(text.split())


def test_no_word_is_broken_where_all_fit_side_by_side() -> None:
    """Columns of sentences and headers give way; names, numbers and verdicts do not."""
    row = ["inconclusive", "token[zeros-in-target]", "1,398", "0.000 [0.000, 0.999]", "a b c d e"]
    table = Table(headers=("verdict", "check", "n", "TV [interval]", "detectable"), rows=[row])
    drawn = re.sub(r"\x1b\[[0-9;]*m", "", render_table(table, width=70, color=True))
    _, _, body = drawn.partition("─\n")
    assert max(map(len, drawn.splitlines())) <= 70
    assert set(" ".join(row).split()) <= set(body.split())
    narrow = re.sub(r"\x1b\[[0-9;]*m", "", render_table(table, width=50, color=True))
    assert max(map(len, narrow.splitlines())) <= 50
    assert len(narrow.splitlines()) < 12


def test_markup_in_a_cell_is_shown_not_obeyed() -> None:
    table = Table(headers=("TV [blue]",), rows=[("tokens[red]",)], title="[green]")
    drawn = render_table(table, width=40, color=True)
    assert all(said in drawn for said in ("TV [blue]", "tokens[red]", "[green]"))
