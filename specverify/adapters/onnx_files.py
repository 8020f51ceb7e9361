"""Our GPT models as ONNX files with a key-value cache, as ONNX Runtime GenAI runs them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from specverify.errors import MissingDependencyError
from specverify.models.gpt import GPTModel

__all__ = ["write_folder", "write_onnx"]

_OPSET, _IR = 20, 10
_PAST, _PRESENT = "past_key_values.%d.%s", "present.%d.%s"
_HIDDEN = -1e9
_END_LOGIT = -1000.0


def write_folder(place: Path, target: GPTModel, draft: GPTModel | None) -> None:
    """Write a target, a draft if any, and the configuration that names them.

    The runtime needs a token that ends a text, which our vocabularies do not have: one is added
    after the last id, whose logit is far below all others in every context.

    Args:
        place: An existing folder.
        target: The target.
        draft: The draft, or None for a folder without one.

    Raises:
        MissingDependencyError: If package onnx is not installed.
    """
    end = target.vocab_size
    model: dict[str, Any] = {
        "type": "llama",
        "vocab_size": target.vocab_size + 1,
        "context_length": target.max_length,
        "bos_token_id": 0,
        "eos_token_id": end,
        "pad_token_id": 0,
    }
    for role, part in (("decoder", target), ("draft", draft)):
        if part is not None:
            write_onnx(part, place / f"{role}.onnx")
            model[role] = _part(part, f"{role}.onnx")
    search = {"do_sample": True, "max_length": target.max_length}
    (place / "genai_config.json").write_text(json.dumps({"model": model, "search": search}))


def _part(model: GPTModel, file: str) -> dict[str, Any]:
    names = {kind: [side.replace("%s", kind) for side in (_PAST, _PRESENT)] for kind in _KINDS}
    return {
        "filename": file,
        "session_options": {"intra_op_num_threads": 1, "inter_op_num_threads": 1},
        "hidden_size": model.embed_dim,
        "head_size": model.embed_dim // model.num_heads,
        "num_attention_heads": model.num_heads,
        "num_key_value_heads": model.num_heads,
        "num_hidden_layers": model.num_layers,
        "inputs": {
            "input_ids": "input_ids",
            "attention_mask": "attention_mask",
            "position_ids": "position_ids",
            "past_key_names": names["key"][0],
            "past_value_names": names["value"][0],
        },
        "outputs": {
            "logits": "logits",
            "present_key_names": names["key"][1],
            "present_value_names": names["value"][1],
        },
    }


_KINDS = ("key", "value")


def write_onnx(model: GPTModel, path: Path) -> None:
    """Write a model in float32, for one sequence at a time.

    Args:
        model: What to write.
        path: The file.

    Raises:
        MissingDependencyError: If package onnx is not installed.
    """
    onnx = _library()
    graph = _Graph(onnx, model)
    logits = graph.logits()
    graph.add("Identity", logits, into="logits")
    made = onnx.helper.make_graph(
        graph.nodes, "gpt", graph.inputs(), graph.outputs(), initializer=graph.constants
    )
    opset = [onnx.helper.make_opsetid("", _OPSET)]
    onnx.save(onnx.helper.make_model(made, opset_imports=opset, ir_version=_IR), str(path))


class _Graph:
    """Nodes and constants of one model; every method returns the name of a value."""

    def __init__(self, onnx: Any, model: GPTModel) -> None:
        self._onnx, self._model = onnx, model
        self.nodes: list[Any] = []
        self.constants: list[Any] = []
        for name, value in model.state_dict().items():
            self.constant(value.detach().float().numpy(), name)

    def constant(self, values: Any, name: str = "") -> str:
        """A constant tensor."""
        name = name or f"constant_{len(self.constants)}"
        array = np.asarray(values, order="C")
        self.constants.append(self._onnx.numpy_helper.from_array(array, name))
        return name

    def add(self, kind: str, *inputs: str, into: str = "", **attributes: Any) -> str:
        """One operation with one output."""
        name = into or f"value_{len(self.nodes)}"
        node = self._onnx.helper.make_node(kind, list(inputs), [name], **attributes)
        self.nodes.append(node)
        return name

    def logits(self) -> str:
        """The whole model."""
        rows = self.add(
            "Add",
            self.add("Gather", "wte.weight", "input_ids"),
            self.add("Gather", "wpe.weight", "position_ids"),
        )
        hidden = self._hidden_keys()
        for layer in range(self._model.num_layers):
            rows = self._block(rows, layer, hidden)
        head = self.add("Transpose", "wte.weight", perm=[1, 0])
        logits = self.add("MatMul", self._normalised(rows, "ln_f"), head)
        one_more = self.constant(np.array([0, 0, 0, 0, 0, 1]))
        return self.add("Pad", logits, one_more, self._number(_END_LOGIT))

    def _hidden_keys(self) -> str:
        """Which keys lie behind each query, shape ``(batch, 1, queries, keys)``."""
        keys = self.add("Gather", self.add("Shape", "attention_mask"), self._whole(1), axis=0)
        places = self.add("Range", self._whole(0), keys, self._whole(1))
        queries = self.add("Unsqueeze", "position_ids", self.constant(np.array([1, 3])))
        return self.add("Greater", places, queries)

    def _block(self, rows: str, layer: int, hidden: str) -> str:
        attended = self._attention(self._normalised(rows, f"h.{layer}.ln_1"), layer, hidden)
        rows = self.add("Add", rows, self._affine(attended, f"h.{layer}.attn.c_proj"))
        inner = self._affine(self._normalised(rows, f"h.{layer}.ln_2"), f"h.{layer}.mlp.c_fc")
        inner = self.add("Gelu", inner, approximate="tanh")
        return self.add("Add", rows, self._affine(inner, f"h.{layer}.mlp.c_proj"))

    def _attention(self, rows: str, layer: int, hidden: str) -> str:
        heads, width = self._model.num_heads, self._model.embed_dim
        shape = self.constant(np.array([0, 0, 3, heads, width // heads]))
        split = self.add("Reshape", self._affine(rows, f"h.{layer}.attn.c_attn"), shape)
        split = self.add("Transpose", split, perm=[2, 0, 3, 1, 4])
        query, *new = (self.add("Gather", split, self._whole(i), axis=0) for i in range(3))
        key, value = (
            self.add("Concat", _PAST % (layer, kind), made, axis=2, into=_PRESENT % (layer, kind))
            for kind, made in zip(_KINDS, new, strict=True)
        )
        scores = self.add("MatMul", query, self.add("Transpose", key, perm=[0, 1, 3, 2]))
        scores = self.add("Mul", scores, self._number((width // heads) ** -0.5))
        weights = self.add("Where", hidden, self._number(_HIDDEN), scores)
        mixed = self.add("MatMul", self.add("Softmax", weights, axis=-1), value)
        mixed = self.add("Transpose", mixed, perm=[0, 2, 1, 3])
        return self.add("Reshape", mixed, self.constant(np.array([0, 0, width])))

    def _affine(self, rows: str, name: str) -> str:
        return self.add("Add", self.add("MatMul", rows, f"{name}.weight"), f"{name}.bias")

    def _normalised(self, rows: str, name: str) -> str:
        eps = self._model.layer_norm_eps
        return self.add("LayerNormalization", rows, f"{name}.weight", f"{name}.bias", epsilon=eps)

    def _number(self, value: float) -> str:
        return self.constant(np.array(value, dtype=np.float32))

    def _whole(self, value: int) -> str:
        return self.constant(np.array(value, dtype=np.int64))

    def inputs(self) -> list[Any]:
        """Declared inputs."""
        lengths = {"input_ids": "queries", "attention_mask": "keys", "position_ids": "queries"}
        whole = [self._declared(name, [1, length]) for name, length in lengths.items()]
        return whole + self._caches(_PAST, "past")

    def outputs(self) -> list[Any]:
        """Declared outputs."""
        logits = self._declared("logits", [1, "queries", self._model.vocab_size + 1], real=True)
        return [logits, *self._caches(_PRESENT, "keys")]

    def _caches(self, names: str, length: str) -> list[Any]:
        heads, width = self._model.num_heads, self._model.embed_dim
        shape = [1, heads, length, width // heads]
        return [
            self._declared(names % (layer, kind), shape, real=True)
            for layer in range(self._model.num_layers)
            for kind in _KINDS
        ]

    def _declared(self, name: str, shape: list[Any], *, real: bool = False) -> Any:
        kinds = self._onnx.TensorProto
        kind = kinds.FLOAT if real else kinds.INT64
        return self._onnx.helper.make_tensor_value_info(name, kind, shape)


def _library() -> Any:
    try:
        import onnx
    except ImportError as error:
        raise MissingDependencyError("onnx", "onnxruntime-genai") from error
    return onnx
