"""Training on a toy scale: it learns, it can be interrupted, and its files can be used."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from specverify.errors import InvalidInputError
from specverify.models.corpus import stdlib_docs
from specverify.models.evaluate import acceptance_along, held_out_loss, summarize_acceptance
from specverify.models.gpt import GPTModel
from specverify.models.muon import Muon, orthogonalize
from specverify.models.train import TINY, train_pair
from specverify.models.trainer import TrainingProgress, draw_windows
from specverify.models.weights import load_gpt
from specverify.warping import SamplingParams


@pytest.fixture(scope="module")
def corpus():
    return stdlib_docs(max_characters=120_000)


@pytest.fixture(scope="module")
def trained(corpus, tmp_path_factory):
    seen: list[TrainingProgress] = []
    report = train_pair(
        tmp_path_factory.mktemp("pair"), seed=5, plan=TINY, corpus=corpus, progress=seen.append
    )
    return report, seen


def test_the_target_learns_and_the_draft_follows(trained) -> None:
    report, _ = trained
    uniform = np.log(TINY.vocab_size)
    assert report.held_out_loss < uniform - 1.5
    (warm, cold) = report.acceptance["draft"]
    assert (warm.temperature, cold.temperature) == (1.0, 0.7)
    target = load_gpt(report.directory / "target")
    generator = torch.Generator().manual_seed(0)
    fresh = GPTModel(TINY.vocab_size, 16, 2, 1, TINY.context, generator=generator)
    windows = torch.randint(0, TINY.vocab_size, (4, TINY.context), generator=generator)
    untrained = acceptance_along(target, fresh, windows, SamplingParams()).mean()
    assert warm.mean > untrained + 0.2


def test_what_is_written(trained) -> None:
    report, _ = trained
    names = {path.name for path in report.directory.iterdir()}
    assert names == {"target", "draft", "tokenizer.json", "MODEL_CARD.md", "checkpoints"}
    card = (report.directory / "MODEL_CARD.md").read_text()
    for fact in (
        f"{report.held_out_loss:.3f} nats a token",
        f"{report.acceptance['draft'][0].mean:.3f}",
        report.corpus.sha256,
        "PSF-2.0",
        "60 steps",
        "Seed 5",
    ):
        assert fact in card


def test_progress_tells_every_stage(trained) -> None:
    _, seen = trained
    assert [state.stage for state in seen if state.step == state.steps] == [
        "corpus",
        "target",
        "drafts",
        "measure",
    ]
    losses = [state.losses["target"] for state in seen if state.stage == "target"]
    assert losses[-1] < losses[0]


def test_an_interrupted_run_is_continued(trained, corpus, tmp_path) -> None:
    """Weights agree to the bit with those of the run that was not interrupted."""
    whole, _ = trained

    def interrupt(state: TrainingProgress) -> None:
        if state.stage == "target" and state.step == 60:
            raise KeyboardInterrupt

    arguments = {"seed": 5, "plan": TINY, "corpus": corpus}
    with pytest.raises(KeyboardInterrupt):
        train_pair(tmp_path, **arguments, progress=interrupt)
    seen: list[TrainingProgress] = []
    train_pair(tmp_path, **arguments, progress=seen.append)
    assert min(state.step for state in seen if state.stage == "target") == 60
    for name in ("target", "draft"):
        again, first = load_gpt(tmp_path / name), load_gpt(whole.directory / name)
        assert all(map(torch.equal, again.parameters(), first.parameters()))


def test_another_seed_is_another_run(trained, corpus) -> None:
    whole, _ = trained
    plan = dataclasses.replace(TINY, target_steps=1, draft_steps=1)
    other = train_pair(whole.directory / "other", seed=6, plan=plan, corpus=corpus)
    weights = [load_gpt(r.directory / "target").wte.weight for r in (whole, other)]
    assert not torch.equal(*weights)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"target_steps": 0}, "target_steps: must be at least 1"),
        ({"draft_steps": -1}, "draft_steps: must be at least 1"),
        ({"corpus": "nonsense"}, "corpus: must be auto"),
        ({"corpus": stdlib_docs(max_characters=1200)}, "too few"),
        ({"plan": dataclasses.replace(TINY, vocab_size=100)}, "at least 256"),
    ],
)
def test_refuses_bad_input(changes, problem, corpus, tmp_path) -> None:
    with pytest.raises(InvalidInputError, match=problem):
        train_pair(tmp_path, **{"plan": TINY, "corpus": corpus, **changes})


@pytest.mark.parametrize("shape", [(8, 8), (4, 12), (12, 4)])
def test_orthogonalized_matrices_keep_directions_and_level_lengths(shape) -> None:
    matrix = torch.randn(shape, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    left, _, right = torch.linalg.svd(matrix, full_matrices=False)
    rotated = left.mT @ orthogonalize(matrix) @ right.mT
    lengths = rotated.diagonal()
    torch.testing.assert_close(rotated, torch.diag(lengths), rtol=0, atol=1e-9)
    assert 0.6 < float(lengths.min()) <= float(lengths.max()) < 1.3


def test_muon_takes_query_key_and_value_apart() -> None:
    parameter = torch.zeros(4, 12, requires_grad=True)
    generator = torch.Generator().manual_seed(2)
    parameter.grad = torch.randn(4, 12, generator=generator)
    optimizer = Muon([parameter], lr=1.0, momentum=0.0)
    optimizer.step()
    parts = [-orthogonalize(part) for part in parameter.grad.chunk(3, 1)]
    torch.testing.assert_close(parameter.detach(), 3**0.5 * torch.cat(parts, 1))


def test_windows_depend_on_their_seed_alone() -> None:
    tokens = torch.arange(100)
    first, again, other = (draw_windows(tokens, 5, 3, [0, n]) for n in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(first - first[:, :1], torch.arange(5).expand(3, 5))
    whole = draw_windows(tokens, 100, 2, [0])
    assert torch.equal(whole, tokens.expand(2, 100))


def test_loss_and_acceptance_against_plain_formulas() -> None:
    generator = torch.Generator().manual_seed(3)
    target, draft = (GPTModel(11, 8, 2, 1, 40, generator=generator) for _ in range(2))
    windows = torch.randint(0, 11, (20, 40), generator=generator)
    with torch.no_grad():
        target_probs = target(windows).double().softmax(-1)
        draft_probs = draft(windows).double().softmax(-1)
        taken = target_probs[:, :-1].gather(-1, windows[:, 1:, None])
    rates = acceptance_along(target, draft, windows, SamplingParams())
    np.testing.assert_allclose(rates, torch.minimum(target_probs, draft_probs).sum(-1), atol=1e-12)
    assert held_out_loss(target, windows) == pytest.approx(float(-taken.log().mean()), abs=1e-5)
    summary = summarize_acceptance(rates, 1.0)
    assert summary.mean == pytest.approx(rates[:, 16:].mean())
    assert [bounds[:2] for bounds in summary.by_position] == [(16, 20), (20, 30), (30, 40)]
    with pytest.raises(InvalidInputError, match="at least 2 texts"):
        summarize_acceptance(rates[:1], 1.0)
