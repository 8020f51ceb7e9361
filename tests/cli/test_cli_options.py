"""Lists of whole numbers on the command line."""

from __future__ import annotations

import pytest

from specverify.cli.options import positive_integers, size_in_bytes, usual_workers
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


@pytest.mark.parametrize(
    ("text", "size"),
    [("4096", 4096), ("2G", 2**31), ("500M", 500 * 2**20), ("1.5k", 1536), ("1 GiB", 2**30)],
)
def test_sizes(text: str, size: int) -> None:
    assert size_in_bytes("--memory-limit", text) == size


@pytest.mark.parametrize("text", ["", "much", "-1G", "0", "2X", "0.5"])
def test_no_size_names_the_option_and_the_value(text: str) -> None:
    with pytest.raises(InvalidInputError, match=f"--memory-limit.*{text}"):
        size_in_bytes("--memory-limit", text)


def test_one_or_two_workers_where_none_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    for cores, workers in ((1, 1), (2, 2), (64, 2)):
        monkeypatch.setattr("os.sched_getaffinity", lambda pid, n=cores: set(range(n)))
        assert usual_workers() == workers
