"""vLLM's rejection sampler from its released wheel, without the rest of vLLM and without a GPU.

Only the sampler's own file is loaded. What it imports from the rest of vLLM is replaced by empty
stand-ins while it loads, and the launcher of its Triton kernels by one that launches them directly;
the kernels run in Triton's interpreter. The rule, the uniforms and the exponentials are vLLM's.
"""

from __future__ import annotations

import importlib.util
import inspect
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType, SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from specverify.adapters.loading import load_file, load_module

__all__ = ["VllmRejectionSampler"]

_FILE = "v1/sample/rejection_sampler.py"


class VllmRejectionSampler:
    """``rejection_sample`` of vLLM's v1 sampler; a batch of blocks at temperature 1.

    Random numbers come from torch's global generator. The bonus token, which vLLM takes from its
    ordinary sampler, is drawn here. Logits are the logarithms of the target's probabilities.

    Raises:
        MissingDependencyError: If vllm or triton is not installed.
    """

    def __init__(self) -> None:
        os.environ["TRITON_INTERPRET"] = "1"  # read when triton itself is first imported
        load_module("triton", "vllm")
        with _stand_ins():
            module = load_file("vllm", _FILE, "vllm")
        self._sample = module.rejection_sample

    def __call__(self, target_probs: Tensor, draft_probs: Tensor, draft_tokens: Tensor) -> Tensor:
        """Emitted ids, padded with -1, shape ``(batch, gamma + 1)``."""
        batch, gamma, vocab = draft_probs.shape
        # Everything is in float32 there; a greedy request would have temperature 0.
        request = SimpleNamespace(
            all_greedy=False, all_random=True, temperature=torch.ones(batch), generators={}
        )
        emitted = self._sample(
            draft_tokens.reshape(-1).to(torch.int32),
            [gamma] * batch,
            gamma,
            gamma * torch.arange(1, batch + 1, dtype=torch.int32),
            draft_probs.reshape(-1, vocab).float(),
            target_probs[:, :-1].reshape(-1, vocab).float().log(),
            torch.multinomial(target_probs[:, -1], 1),
            request,
        )
        return emitted.to(torch.int64)  # type: ignore[no-any-return]


def _launcher(kernel: Any, **_: Any) -> Callable[[Any], Any]:
    """A stand-in of vLLM's launcher, which also compiles kernels ahead of their first call."""

    def wrap(specify: Callable[..., Any]) -> Callable[..., None]:
        names = inspect.signature(specify)

        def launch(*arguments: Any, **more: Any) -> None:
            grid, constants = specify(*arguments, **more)
            given = names.bind(*arguments, **more).arguments.items()
            # The kernels call a tensor's parameter `x_ptr` where the launcher says `x`.
            named = {n if n in kernel.arg_names else f"{n}_ptr": value for n, value in given}
            kernel[grid](**named, **constants)

        return launch

    return wrap


class _StandIn(ModuleType):
    """A module in which every name is an empty class."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


class _Finder(MetaPathFinder, Loader):
    """Answers every import of vLLM's own modules."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if not fullname.startswith("vllm."):
            return None
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _StandIn(spec.name)

    def exec_module(self, module: Any) -> None:
        if module.__name__ == "vllm.triton_utils":
            import triton

            module.triton, module.tl = triton, triton.language
        if module.__name__ == "vllm.logger":
            module.init_logger = lambda name: None
        if module.__name__.endswith("jit_warmup_triton_helper"):
            module.triton_kernel_dispatcher_with_warmup = _launcher


@contextmanager
def _stand_ins() -> Iterator[None]:
    """Stand-ins in place of vLLM's modules; none of them is left behind."""
    finder, package = _Finder(), _StandIn("vllm")
    package.__path__ = []
    found = importlib.util.find_spec("vllm")  # before the stand-in is there
    package.__spec__ = found
    before = {name for name in sys.modules if name.partition(".")[0] == "vllm"}
    if found is not None and "vllm" not in sys.modules:
        sys.modules["vllm"] = package
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        for name in [n for n in sys.modules if n.partition(".")[0] == "vllm"]:
            if name not in before:
                del sys.modules[name]
