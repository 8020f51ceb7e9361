"""What an implementation is run on: laws that have caught real bugs, built from fixed seeds.

Rows differ by position everywhere: identical rows hide every off-by-one. A block verifier gets rows
for ``2 * gamma + 1`` positions, so that a block that ended early can be completed to ``gamma + 1``
tokens by calling again with the rows that follow.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from specverify.audit import rows
from specverify.audit.chains import Chain
from specverify.audit.forms import Form
from specverify.errors import InvalidInputError
from specverify.warping import SamplingParams

__all__ = ["Scenario", "find", "scenarios"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Scenario:
    """One setting in which an implementation is observed.

    Attributes:
        name: Name, unique within a form.
        form: How the implementation is called.
        chain: Target and draft rows by position.
        gamma: Drafted tokens in a block.
        length: Tokens of one completion.
        purpose: Why it is here, in a few words.
        coarse: An edge case, or a large vocabulary: looked at for gross defects, so that its
            total variation is bounded by ``COARSE_TV`` and not by the audit's own.
        eos: Token that ends a completion, if any: the chain stays there, as padding does.
        models: Rows of the models behind the chain, where the chain's own end differs.
    """

    name: str
    form: Form
    chain: Chain
    gamma: int
    length: int
    purpose: str
    coarse: bool = False
    eos: int | None = None
    models: Chain | None = None

    @property
    def vocab_size(self) -> int:
        """Number of tokens."""
        return self.chain.vocab_size

    def params(self) -> dict[str, object]:
        """Record for ``result.json``."""
        record: dict[str, object] = {
            "scenario": self.name,
            "purpose": self.purpose,
            "vocab_size": self.vocab_size,
            "gamma": self.gamma,
            "length": self.length,
        }
        return record | ({} if self.eos is None else {"eos_token_id": self.eos})


@dataclass(frozen=True, kw_only=True)
class _Plan:
    """What a scenario is built from; ``start`` is the context before the first position."""

    recipe: rows.Recipe
    gamma: int
    purpose: str
    coarse: bool = False
    length: int = 0
    eos: int | None = None
    start: int = 0


_COLD = SamplingParams(temperature=0.5)
_FILTERED = SamplingParams(temperature=1.3, top_k=8, top_p=0.9)

_VERIFY = {
    "mixed": _Plan(recipe=rows.mixed(8), gamma=4, purpose="every token in both supports"),
    "zeros-in-target": _Plan(
        recipe=rows.zeros_in_target(5, 2), gamma=3, purpose="drafts that the target never emits"
    ),
    "top-k-top-p": _Plan(
        recipe=rows.warped(12, _FILTERED), gamma=2, purpose="temperature, top-k, top-p on both"
    ),
    "markov": _Plan(
        recipe=rows.mixed(3, order=1), gamma=3, purpose="rows that follow the draft before"
    ),
    "smallest": _Plan(recipe=rows.mixed(2), gamma=1, purpose="two tokens, one draft", coarse=True),
    "zeros-in-draft": _Plan(
        recipe=rows.zeros_in_draft(5, 2),
        gamma=2,
        purpose="tokens that only the residual emits",
        coarse=True,
    ),
    "same": _Plan(
        recipe=rows.same(4), gamma=3, purpose="target = draft: nothing is rejected", coarse=True
    ),
    "disjoint": _Plan(
        recipe=rows.disjoint(4), gamma=2, purpose="nothing is ever accepted", coarse=True
    ),
    "near-ties": _Plan(
        recipe=rows.near_ties(4), gamma=2, purpose="ratios next to one", coarse=True
    ),
    "one-hot": _Plan(recipe=rows.one_hot_target(5), gamma=3, purpose="temperature 0", coarse=True),
    "cold": _Plan(
        recipe=rows.warped(6, _COLD), gamma=2, purpose="temperature 0.5 on both", coarse=True
    ),
    "long-block": _Plan(recipe=rows.mixed(3, 0.25), gamma=8, purpose="gamma 8", coarse=True),
    "vocab-1024": _Plan(recipe=rows.zipf(1024), gamma=2, purpose="a long tail", coarse=True),
    "vocab-50257": _Plan(
        recipe=rows.zipf(50257), gamma=1, purpose="GPT-2's vocabulary", coarse=True
    ),
}

_VERIFY_THOROUGH = {
    f"gamma-{gamma}": _Plan(recipe=rows.mixed(5, 0.3), gamma=gamma, purpose=f"gamma {gamma}")
    for gamma in range(1, 9)
} | {
    "markov-8": _Plan(recipe=rows.mixed(8, order=1), gamma=2, purpose="larger Markov rows"),
    "sparse": _Plan(recipe=rows.zeros_in_target(32, 24), gamma=4, purpose="mostly zeros"),
    "vocab-4096": _Plan(recipe=rows.zipf(4096, 1.0), gamma=4, purpose="a weak draft"),
    "hot": _Plan(
        recipe=rows.warped(64, SamplingParams(temperature=2.0)), gamma=4, purpose="temperature 2"
    ),
    "min-p": _Plan(
        recipe=rows.warped(64, SamplingParams(min_p=0.1)), gamma=3, purpose="min-p on both sides"
    ),
}

_DECODE = {
    "markov": _Plan(
        recipe=rows.mixed(4, order=1), gamma=3, length=6, purpose="rows follow the context"
    ),
    "smallest": _Plan(
        recipe=rows.mixed(2, order=1),
        gamma=1,
        length=4,
        purpose="two tokens, one draft",
        coarse=True,
    ),
    "zeros": _Plan(
        recipe=rows.zeros_in_target(5, 2),
        gamma=2,
        length=5,
        purpose="forbidden tokens",
        coarse=True,
    ),
    "same": _Plan(
        recipe=rows.same(4),
        gamma=4,
        length=7,
        purpose="target = draft; length off the blocks",
        coarse=True,
    ),
    "one-token": _Plan(
        recipe=rows.mixed(4, order=1),
        gamma=4,
        length=1,
        purpose="one token asked of gamma 4",
        coarse=True,
    ),
    "long-block": _Plan(
        recipe=rows.mixed(3, 0.2, order=1), gamma=8, length=10, purpose="gamma 8", coarse=True
    ),
}

_DECODE["eos"] = _Plan(
    recipe=rows.mixed(4, order=1),
    gamma=3,
    length=6,
    eos=1,
    purpose="an end inside a block",
    coarse=True,
)

_DECODE["order-2"] = _Plan(
    recipe=rows.mixed(3, 0.5, order=2, concentration=0.3),
    gamma=2,
    length=6,
    start=3,  # the tokens 1 and 0
    purpose="rows follow two tokens",
    coarse=True,
)

_DECODE_THOROUGH = {
    "larger": _Plan(recipe=rows.mixed(12, order=1), gamma=4, length=12, purpose="a larger chain"),
    "long": _Plan(recipe=rows.mixed(4, order=1), gamma=3, length=40, purpose="many rounds"),
}


def scenarios(form: Form, suite: str = "default") -> tuple[Scenario, ...]:
    """The scenarios of a form.

    Args:
        form: ``verify``, ``batched`` or ``decode``.
        suite: ``default``, or ``thorough``, which holds the default ones too.

    Raises:
        InvalidInputError: If the form has no fixed scenarios.
    """
    return tuple(find(form, name) for name in _plans(form, suite))


@cache
def find(form: Form, name: str) -> Scenario:
    """The scenario of this name.

    Raises:
        InvalidInputError: If there is none.
    """
    known = _plans(form, "thorough")
    if name not in known:
        raise InvalidInputError("scenario", f"{name!r} is none of {', '.join(known)}")
    return _build(name, form)


def _plans(form: Form, suite: str) -> dict[str, _Plan]:
    if form in (Form.VERIFY, Form.BATCHED):
        default, thorough = _VERIFY, _VERIFY_THOROUGH
    elif form is Form.DECODE:
        default, thorough = _DECODE, _DECODE_THOROUGH
    else:
        raise InvalidInputError("form", f"{form} has no fixed scenarios")
    return default if suite == "default" else default | thorough


def _build(name: str, form: Form) -> Scenario:
    plan = _plans(form, "thorough")[name]
    # The seed is the name: a new scenario changes no other.
    rng = np.random.default_rng(list(name.encode()))
    length = plan.length or plan.gamma + 1
    # A decoder's models know the tokens before and not the position: one row set, repeated.
    given = 1 if form is Form.DECODE else 2 * plan.gamma + 1
    target, draft = plan.recipe(rng, given)
    if form is Form.DECODE:
        known = max(length, plan.gamma + 1)
        target, draft = (np.repeat(side, known, axis=0) for side in (target, draft))
    chain = models = Chain(target=target, draft=draft, start=plan.start)
    if plan.eos is not None:
        target, draft = _ended(target, plan.eos), _ended(draft, plan.eos)
        chain = Chain(target=target, draft=draft, start=plan.start)
    return Scenario(
        name=name,
        form=form,
        chain=chain,
        models=models,
        gamma=plan.gamma,
        length=length,
        purpose=plan.purpose,
        coarse=plan.coarse,
        eos=plan.eos,
    )


def _ended(rows: NDArray[np.float64], eos: int) -> NDArray[np.float64]:
    """Rows of a text that stays at its end."""
    ended = rows.copy()
    ended[:, eos :: rows.shape[2]] = np.eye(rows.shape[2])[eos]
    return ended
