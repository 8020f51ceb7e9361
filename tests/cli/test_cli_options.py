"""Lists of whole numbers on the command line."""

from __future__ import annotations

import pytest

from specverify.cli.options import positive_integers
from specverify.errors import InvalidInputError


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("4", (4,)),
        ("1,2,4", (1, 2, 4)),
        ("1-4", (1, 2, 3, 4)),
        ("1-2, 8", (1, 2, 8)),
        ("2,2", (2,)),
    ],
)
def test_lists_and_ranges(text: str, numbers: tuple[int, ...]) -> None:
    assert positive_integers("--gamma", text) == numbers


@pytest.mark.parametrize("text", ["", "a", "1,,2", "4-1", "1.5", "0", "-3", "0-2"])
def test_nonsense_names_the_option_and_the_value(text: str) -> None:
    with pytest.raises(InvalidInputError, match=f"--gamma.*{text}"):
        positive_integers("--gamma", text)
