"""Which figures there are, what each needs and says; drawn, or a reason why not."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from specverify.errors import MissingDependencyError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FIGURES", "FigureKind", "draw_figure", "drawn_or_reason"]


@dataclass(frozen=True)
class FigureKind:
    """A kind of figure.

    Attributes:
        name: File name without its ending, and name of the module in ``report/plots``.
        title: Headline, also for screen readers.
        caption: What to see in it.
        study: Name of the study that it shows; None if it is computed from closed forms.
        columns: Columns of the study that stand below the figure as a table.
    """

    name: str
    title: str
    caption: str
    study: str | None = None
    columns: tuple[str, ...] = ()


FIGURES = (
    FigureKind(
        "speedup_curve",
        "Speedup over the draft length",
        "Lines: theory, tokens per pass over the cost of a pass. Dots: simulated runs whose steps"
        " vary in time, with 95 % intervals.",
        "speedup_vs_theory",
    ),
    FigureKind(
        "pair_speedup",
        "Speedup of the shipped pair",
        "Measured on one machine, with 95 % intervals, against the prediction from its measured"
        " times. Where the measured speedup is not inside the band, the table names the term to"
        " blame, and what it multiplies the speedup by.",
        "gpt_pair_times",
        ("gamma", "speedup", "predicted_speedup", "inside", "to_blame", "to_blame_factor"),
    ),
    FigureKind(
        "pair_tokens",
        "Tokens per pass of the shipped pair",
        "The prediction knows the acceptance rate of every tested token; the formula knows their"
        " mean alone. Bars: 95 % intervals.",
        "gpt_pair",
    ),
    FigureKind(
        "pair_positions",
        "Acceptance of the shipped pair by position",
        "Accepted drafts over those tested at each position, with 95 % intervals.",
        "gpt_pair_positions",
    ),
    FigureKind(
        "gamma_map",
        "The best draft length, and what a fixed one loses",
        "Colours: the draft length of the largest expected speedup. Contours: how much of that"
        " speedup a fixed draft length of 4 gives away. Computed from the closed forms.",
    ),
    FigureKind(
        "batch_crossover",
        "Where the batch ends the gain",
        "Verifying is free while reading the weights binds; once arithmetic binds every drafted"
        " token is paid for. Lines: closed form. Dots: simulated, with 95 % intervals.",
        "batch_crossover",
    ),
    FigureKind(
        "gamma_policies",
        "What adapting the draft length earns",
        "The same mean acceptance rate on four kinds of text. Fixed: the best fixed length;"
        " optimal: stops drafting where the next token does not pay, and knows every token's"
        " chance. Bars: 95 % intervals.",
        "gamma_policies",
    ),
    FigureKind(
        "heterogeneity",
        "What one acceptance rate hides",
        "Text that is now easy, now hard has more long blocks than the formula of a constant"
        " acceptance rate says. Lines: closed form of the mixture. Dots: simulated, with 95 %"
        " intervals.",
        "heterogeneity",
    ),
    FigureKind(
        "finite_length",
        "The bias of stopping at N tokens",
        "The mean of each run's tokens over rounds is off by where the last round ends; the ratio"
        " of sums is not. Bars: 95 % intervals.",
        "finite_length_bias",
    ),
    FigureKind(
        "round_lengths",
        "How many tokens a simulated round emits",
        "Bars: exact law. Dots: simulated rounds, with intervals that hold together at 95 % in each"
        " panel.",
        "emitted_length",
    ),
    FigureKind(
        "block_lengths",
        "How many tokens a block of the sampler emits",
        "Bars: exact law of the standard rule. Dots: blocks of real verifiers, with intervals that"
        " hold together at 95 % for each. resample_from_target is as fast as it should be: its"
        " tokens are wrong, its lengths are not.",
        "sampled_blocks",
    ),
    FigureKind(
        "acceptance",
        "Acceptance by position",
        "Accepted drafts over those tested, at each position; the exact value is 1 less the total"
        " variation of target and draft there. Intervals hold together at 95 % for each verifier.",
        "sampled_blocks",
    ),
    FigureKind(
        "token_frequencies",
        "Observed against expected token frequencies",
        "The first token of a block: deviation from the target's law, with intervals that hold"
        " together at 95 % for each verifier.",
        "sampled_blocks",
    ),
    FigureKind(
        "evidence_paths",
        "Evidence along an audit",
        "The e-process after every token, a line a run. Whatever the bug, an alarm is a crossing of"
        " the line, which a right sampler makes at most as often as the level says, however long"
        " it is watched.",
        "evidence_paths",
    ),
    FigureKind(
        "alarms",
        "Power: tokens until an alarm",
        "Medians over runs with distribution-free 95 % bounds; the crosses are computed from the"
        " noncentral law, not sampled.",
        "power",
    ),
    FigureKind(
        "calibration",
        "Calibration: promised and counted",
        "Dots: counted rates with exact 95 % intervals; hollow where nothing was counted. Bars:"
        " what was promised. Raw chi-square tests, repeated looks and pooled rates do not keep it.",
        "calibration",
    ),
)


def draw_figure(kind: FigureKind, studies: Mapping[str, Mapping[str, Any]]) -> Figure:
    """Draw one figure.

    Args:
        kind: Which.
        studies: Contents of studies by name.

    Raises:
        MissingDependencyError: If matplotlib is not installed.
        KeyError: If the study is not there, or lacks what the figure shows.
    """
    try:
        module = importlib.import_module(f"specverify.report.plots.{kind.name}")
    except ModuleNotFoundError as error:
        if error.name != "matplotlib":
            raise
        raise MissingDependencyError("matplotlib", "report") from None
    arguments = () if kind.study is None else (studies[kind.study],)
    figure: Figure = module.draw(*arguments)
    return figure


def drawn_or_reason(
    kind: FigureKind, studies: Mapping[str, Mapping[str, Any]]
) -> tuple[Figure | None, str]:
    """The figure, or None and the reason for people why it is not there."""
    if kind.study is not None and kind.study not in studies:
        return None, f"the study {kind.study} was not run (no {kind.study}.json)"
    unusable = f"{kind.study}.json does not hold what this figure shows"
    if kind.study is not None and studies[kind.study].get("rows") == []:
        return None, f"{unusable} (no rows)"
    try:
        return draw_figure(kind, studies), ""
    except MissingDependencyError as error:
        return None, str(error)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        # A study of another version, or a file cut short, must not cost the whole page.
        return None, f"{unusable} ({error!r})"
