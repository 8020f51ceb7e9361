"""What the installed transformers emits with an assistant, traced exactly and compared with itself.

Every setting is run twice under the tracer on tiny random GPT-2s: assisted ``generate``, and plain
sampling ``generate``. Their laws must be one; the plain one is also compared with the suite's own
law of the model where the suite has the parameter. What deviates is searched for its smallest case.

Usage: python simulations/exact_transformers.py [--quick] [--only NAME ...] [--out DIRECTORY]
"""

from __future__ import annotations

import argparse
import copy
import json
import sys
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers
from transformers.generation.utils import _speculative_sampling

from specverify.errors import UnsupportedRandomness
from specverify.exact import ExactLaw, enumerate_law, tv_bounds
from specverify.exact.blocks import check_exact
from specverify.exact.scenario import BlockScenario
from specverify.theory.completion_law import completion_law, completion_law_with_eos
from specverify.warping import SamplingParams, warp_logits

DEFAULT_OUTPUT = Path(__file__).resolve().parent.parent / "reports"
# The library computes its sampling distributions in float32.
ROUNDING = 1e-6
PROMPT = (1, 0)
SEEDS = (1, 2)


@dataclass(frozen=True, kw_only=True)
class Size:
    """How large a case is."""

    vocab_size: int
    length: int
    gamma: int


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One way to call ``generate``.

    Attributes:
        name: What the report calls it.
        options: Keyword arguments of ``generate``.
        own: The suite's parameters for the same law, or None where it has none.
        schedule: ``num_assistant_tokens_schedule`` of the assistant.
        threshold: ``assistant_confidence_threshold`` of the assistant.
        eos: Whether token 0 ends a completion.
        assisted_only: Options of the assisted run alone.
        size: How large its row of the table is.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)
    own: SamplingParams | None = None
    schedule: str = "constant"
    threshold: float = 0.0
    eos: bool = False
    assisted_only: Mapping[str, Any] = field(default_factory=dict)
    size: Size = Size(vocab_size=3, length=3, gamma=2)


PLAIN = SamplingParams()
# A schedule changes the number of drafts from the second pass on.
LONGER = Size(vocab_size=2, length=4, gamma=1)
SETTINGS = (
    Setting(name="sampling", own=PLAIN),
    Setting(
        name="temperature 0.7", options={"temperature": 0.7}, own=SamplingParams(temperature=0.7)
    ),
    Setting(name="top_k 2", options={"top_k": 2}, own=SamplingParams(top_k=2)),
    Setting(name="top_p 0.9", options={"top_p": 0.9}, own=SamplingParams(top_p=0.9)),
    Setting(name="min_p 0.2", options={"min_p": 0.2}, own=SamplingParams(min_p=0.2)),
    Setting(name="repetition_penalty 1.5", options={"repetition_penalty": 1.5}),
    Setting(name="no_repeat_ngram_size 2", options={"no_repeat_ngram_size": 2}),
    Setting(name="eos", own=PLAIN, eos=True),
    Setting(name="heuristic schedule", own=PLAIN, schedule="heuristic", size=LONGER),
    Setting(name="confidence threshold 0.4", own=PLAIN, threshold=0.4),
    Setting(
        name="heuristic schedule, confidence threshold 0.4",
        own=PLAIN,
        schedule="heuristic",
        threshold=0.4,
        size=LONGER,
    ),
    Setting(name="guidance_scale 1.5", options={"guidance_scale": 1.5}),
    # Lossy by declaration: shows that the comparison can fail.
    Setting(
        name="assistant_ensemble_weight 0.5",
        own=PLAIN,
        assisted_only={"assistant_ensemble_weight": 0.5},
    ),
)
QUICK = ("sampling", "assistant_ensemble_weight 0.5")
QUICK_SIZE = Size(vocab_size=2, length=2, gamma=1)


# From small to large: the first that deviates is the smallest.
SIZES = [
    Size(vocab_size=v, length=n, gamma=g)
    for n in (1, 2, 3)
    for v in (2, 3)
    for g in (1, 2)
    if g <= n
]


def tiny_gpt2(seed: int, *, vocab_size: int) -> Any:
    """A random one-layer GPT-2 in float64, far enough from uniform."""
    config = transformers.GPT2Config(
        vocab_size=vocab_size,
        n_positions=16,
        n_embd=8,
        n_layer=1,
        n_head=2,
        bos_token_id=None,
        eos_token_id=None,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = transformers.GPT2LMHeadModel(config).double().eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.add_(torch.randn_like(parameter) * 0.3)
    return model


def generated_law(setting: Setting, size: Size, *, assisted: bool) -> ExactLaw:
    """Exact law of the new tokens of ``generate``; state that a run changes is put back."""
    target, assistant = (tiny_gpt2(seed, vocab_size=size.vocab_size) for seed in SEEDS)
    drafting = copy.deepcopy(assistant.generation_config)
    drafting.num_assistant_tokens = size.gamma
    drafting.num_assistant_tokens_schedule = setting.schedule
    drafting.assistant_confidence_threshold = setting.threshold
    prompt = torch.tensor([PROMPT])
    options = {"top_k": 0, "pad_token_id": 0, **setting.options}
    if setting.eos:
        options["eos_token_id"] = 0

    def run() -> Any:
        assistant.generation_config = copy.deepcopy(drafting)
        extra = {"assistant_model": assistant, **setting.assisted_only} if assisted else {}
        completion = target.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            do_sample=True,
            max_new_tokens=size.length,
            **extra,
            **options,
        )
        return completion[0, prompt.shape[1] :]

    return enumerate_law(run, max_seconds=300.0)


def own_law(setting: Setting, size: Size) -> dict[tuple[int, ...], float] | None:
    """The suite's law of a completion, from the model's logits; None where it has no such law."""
    if setting.own is None:
        return None
    model, params = tiny_gpt2(SEEDS[0], vocab_size=size.vocab_size), setting.own

    def next_probs(context: Any) -> Any:
        with torch.no_grad():
            logits = model(torch.tensor([list(context)])).logits[0, -1].numpy()
        return warp_logits(logits, params)

    arguments = (next_probs, PROMPT, size.length, size.vocab_size)
    if setting.eos:
        return completion_law_with_eos(*arguments, eos_token_id=0)
    law = completion_law(*arguments)
    return {tuple(index): float(law[tuple(index)]) for index in np.argwhere(law > 0).tolist()}


def compare(setting: Setting, size: Size) -> dict[str, Any]:
    """One row of the table."""
    row: dict[str, Any] = {"setting": setting.name, **vars_of(size)}
    try:
        plain, assisted = (generated_law(setting, size, assisted=flag) for flag in (False, True))
    except UnsupportedRandomness as error:
        return row | {"verdict": "refused", "reason": f"{error}"}
    bounds = tv_bounds(assisted, plain.probabilities)
    own = own_law(setting, size)
    high = min(1.0, bounds.high + plain.unexplored_mass)
    return row | {
        "tv_low": bounds.low,
        "tv_high": high,
        "tv_plain_to_own": None if own is None else tv_bounds(plain, own).high,
        "paths": assisted.paths,
        "paths_plain": plain.paths,
        "seconds": round(plain.seconds + assisted.seconds, 1),
        "exceptions": dict(assisted.exceptions),
        "verdict": verdict(max(bounds.low - plain.unexplored_mass, 0.0), high),
    }


def verdict(low: float, high: float) -> str:
    """Lossless or biased where proved, open where the budget did not suffice."""
    if low > ROUNDING:
        return "biased"
    return "lossless" if high <= ROUNDING else "open"


def vars_of(size: Size) -> dict[str, int]:
    return {"vocab_size": size.vocab_size, "length": size.length, "gamma": size.gamma}


def verify_step(target: Any, draft: Any, tokens: Any) -> Any:
    """The library's verification of one block."""
    ids = torch.cat([torch.zeros(1, dtype=torch.int64), tokens])[None]
    emitted, accepted = _speculative_sampling(
        ids, draft.log()[None], len(tokens), target.log()[None]
    )
    return emitted[0], accepted


def step_row(vocab_size: int, gamma: int, dtype: str) -> dict[str, Any]:
    """The verification step alone, on random rows that differ by position."""
    rng = np.random.default_rng([vocab_size, gamma])
    scenario = BlockScenario.from_rows(
        rng.dirichlet(np.ones(vocab_size), gamma + 1), rng.dirichlet(np.ones(vocab_size), gamma)
    )
    found = check_exact(verify_step, scenario, dtype=dtype)
    outcome = {True: "lossless", False: "biased", None: "open"}[found.lossless]
    return {
        "setting": f"_speculative_sampling, {dtype}",
        **vars_of(Size(vocab_size=vocab_size, length=gamma + 1, gamma=gamma)),
        "tv_low": found.tv.low,
        "tv_high": found.tv.high,
        "tv_plain_to_own": None,
        "paths": found.law.paths,
        "paths_plain": None,
        "seconds": round(found.law.seconds, 1),
        "exceptions": dict(found.law.exceptions),
        "verdict": outcome,
    }


def smallest(setting: Setting) -> dict[str, Any] | None:
    """The first size at which a setting deviates, with a script that shows it."""
    for size in SIZES:
        row = compare(setting, size)
        if row["verdict"] == "biased":
            return row | {"script": script(setting, size)}
    return None


def script(setting: Setting, size: Size) -> str:
    """A paste-ready script that prints the two laws of a case."""
    options = {"top_k": 0, "pad_token_id": 0, "max_new_tokens": size.length, **setting.options}
    return SCRIPT.format(
        vocab_size=size.vocab_size,
        gamma=size.gamma,
        seeds=SEEDS,
        prompt=list(PROMPT),
        options=options,
        schedule=setting.schedule,
        threshold=setting.threshold,
        assisted=dict(setting.assisted_only),
    )


SCRIPT = """\
import copy, torch
from transformers import GPT2Config, GPT2LMHeadModel
from specverify import enumerate_law, tv_bounds

def model(seed):
    torch.manual_seed(seed)
    made = GPT2LMHeadModel(GPT2Config(vocab_size={vocab_size}, n_positions=16, n_embd=8, n_layer=1,
        n_head=2, bos_token_id=None, eos_token_id=None)).double().eval()
    with torch.no_grad():
        for parameter in made.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return made

target, assistant = map(model, {seeds})
drafting = assistant.generation_config
drafting.num_assistant_tokens = {gamma}
drafting.num_assistant_tokens_schedule = {schedule!r}
drafting.assistant_confidence_threshold = {threshold}
prompt = torch.tensor([{prompt}])

def law(**extra):
    def run():
        assistant.generation_config = copy.deepcopy(drafting)
        return target.generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=True,
            **{options}, **extra)[0, {prompt}.__len__():]
    return enumerate_law(run)

plain, assisted = law(), law(assistant_model=assistant, **{assisted})
for tokens in sorted(set(plain.probabilities) | set(assisted.probabilities)):
    print(tokens, plain.probabilities.get(tokens, 0.0), assisted.probabilities.get(tokens, 0.0))
print(tv_bounds(assisted, plain.probabilities))
"""


def study(names: list[str], *, quick: bool) -> dict[str, Any]:
    """All rows, and the smallest case of each setting that deviates without declaring it."""
    steps = [(2, 1, "float64")] if quick else [(3, 2, "float64"), (4, 2, "float32")]
    rows = [] if names else [step_row(*step) for step in steps]
    cases = []
    for setting in SETTINGS:
        if (names and setting.name not in names) or (
            quick and not names and setting.name not in QUICK
        ):
            continue
        rows.append(compare(setting, QUICK_SIZE if quick else setting.size))
        print(json.dumps(rows[-1]), file=sys.stderr, flush=True)
        if rows[-1]["verdict"] == "biased" and not setting.assisted_only:
            case = smallest(setting)
            cases += [] if case is None else [case]
    return {
        "study": "exact_transformers",
        "quick": quick,
        "versions": {"transformers": transformers.__version__, "torch": torch.__version__},
        "rounding": ROUNDING,
        "rows": rows,
        "smallest_cases": cases,
    }


def markdown(content: dict[str, Any]) -> str:
    """The report for people."""
    versions = ", ".join(f"{name} {value}" for name, value in content["versions"].items())
    lines = [
        "# Assisted generation of transformers, traced exactly",
        "",
        "Written by `python simulations/exact_transformers.py`.",
        "",
        f"{versions}. Random one-layer GPT-2s; the assisted law against plain sampling's under the",
        f"same settings; biased above {content['rounding']:g}, the rounding of float32.",
        "`plain to own`: plain sampling's law against the suite's own, where it has the parameter.",
        "",
        "| setting | V | tokens | gamma | TV, bounds | plain to own | paths | CPU s | verdict |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [line(row) for row in content["rows"]]
    for case in content["smallest_cases"]:
        lines += ["", f"## Smallest case of {case['setting']}", "", line(case).replace("|", " ")]
        lines += ["", "```python", case["script"].rstrip(), "```"]
    return "\n".join(lines) + "\n"


def line(row: dict[str, Any]) -> str:
    size = f"{row['vocab_size']} | {row['length']} | {row['gamma']}"
    if row["verdict"] == "refused":
        return f"| {row['setting']} | {size} | - | - | - | - | refused: {row['reason']} |"
    own = "-" if row["tv_plain_to_own"] is None else f"{row['tv_plain_to_own']:.1e}"
    bounds = f"{row['tv_low']:.3e} to {row['tv_high']:.3e}"
    cost = f"{row['paths']} | {row['seconds']}"
    return f"| {row['setting']} | {size} | {bounds} | {own} | {cost} | {row['verdict']} |"


def main(arguments: list[str] | None = None) -> dict[str, Any]:
    """Run the study and write its reports."""
    parser = argparse.ArgumentParser(description="Trace transformers' assisted generation.")
    parser.add_argument("--quick", action="store_true", help="three rows, on the smallest models")
    parser.add_argument("--only", nargs="*", default=[], help="settings by name")
    parser.add_argument("--out", type=Path, default=DEFAULT_OUTPUT, help="directory of the reports")
    options = parser.parse_args(arguments)
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity_error()
    content = study(options.only, quick=options.quick)
    options.out.mkdir(parents=True, exist_ok=True)
    (options.out / "exact_transformers.json").write_text(json.dumps(content, indent=1) + "\n")
    (options.out / "exact_transformers.md").write_text(markdown(content))
    return content


if __name__ == "__main__":
    main()
