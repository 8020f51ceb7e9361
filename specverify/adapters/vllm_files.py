"""Files of vLLM's wheel, loaded without the rest of vLLM and without a GPU.

What a file imports from vLLM is an empty stand-in while it loads, save the files named here, which
hold functions that its kernels call. The launcher that compiles kernels ahead of their first call
is replaced by one that launches them directly.
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
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from specverify.adapters.loading import load_file, load_module
from specverify.adapters.vllm_kernels import own_kernels

__all__ = ["load_sampler", "stand_ins"]

_WHOLE = ("vllm.v1.spec_decode.fly", "vllm.v1.worker.gpu.sample.gumbel")
"""Modules of which the samplers use functions."""


def load_sampler(path: str) -> Any:
    """One file of the wheel, its kernels ready for a :class:`~.vllm_kernels.Device`.

    Args:
        path: The file, below vLLM's package.

    Raises:
        MissingDependencyError: If vllm or triton is not installed.
    """
    os.environ["TRITON_INTERPRET"] = "1"  # read when triton itself is first imported
    load_module("triton", "vllm")
    with stand_ins():
        module = load_file("vllm", path, "vllm")
    own_kernels(module)
    return module


def launcher(kernel: Any, **_: Any) -> Callable[[Any], Any]:
    """A stand-in of vLLM's launcher."""

    def wrap(specify: Callable[..., Any]) -> Callable[..., None]:
        signature = inspect.signature(specify)

        def launch(*arguments: Any, **more: Any) -> None:
            grid, constants = specify(*arguments, **more)
            given = signature.bind(*arguments, **more).arguments.items()
            # A module's own kernels are replaced after it was loaded.
            ready = specify.__globals__.get(getattr(kernel, "__name__", ""), kernel)
            # The kernels call a tensor's parameter `x_ptr` where the launcher says `x`.
            names = ready.arg_names
            named = {n if n in names else f"{n}_ptr": value for n, value in given}
            ready[grid](**named, **constants)

        return launch

    return wrap


class _StandIn(ModuleType):
    """A module in which every name is an empty class."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (), {})


class _Finder(MetaPathFinder, Loader):
    """Answers every import of vLLM's own modules.

    Args:
        folder: Where the package lies; None where it is not installed.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if not fullname.startswith("vllm."):
            return None
        if fullname in _WHOLE and self._folder is not None:
            file = self._folder.joinpath(*fullname.split(".")[1:]).with_suffix(".py")
            return importlib.util.spec_from_file_location(fullname, file)
        return ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _StandIn(spec.name)

    def exec_module(self, module: Any) -> None:
        if module.__name__ == "vllm.triton_utils":
            import triton

            module.triton, module.tl = triton, triton.language
            module.tldevice = ModuleType("tldevice")
            module.tldevice.log1p = _log1p
        if module.__name__ == "vllm.logger":
            module.init_logger = lambda name: None
        if module.__name__.endswith("jit_warmup_triton_helper"):
            module.triton_kernel_dispatcher_with_warmup = launcher


def _log1p(value: Any) -> Any:
    """CUDA's device function for Triton's interpreter, which has none of them."""
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle

    handle = value.handle
    return tl.tensor(TensorHandle(np.log1p(handle.data), handle.dtype), value.type)


@contextmanager
def stand_ins() -> Iterator[None]:
    """Stand-ins in place of vLLM's modules; none of them is left behind."""
    package = _StandIn("vllm")
    package.__path__ = []
    found = importlib.util.find_spec("vllm")  # before the stand-in is there
    package.__spec__ = found
    places = () if found is None else found.submodule_search_locations or ()
    finder = _Finder(next((Path(place) for place in places), None))
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
