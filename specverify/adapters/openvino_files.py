"""Our GPT models as OpenVINO's intermediate representation, which OpenVINO GenAI reads.

The graph is written operation by operation, in the form that exported language models have: keys
and values are states that grow along the sequence, and attention is one operation, which the
pipeline replaces by its paged one. No converter and no tokeniser of a model hub is needed.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from specverify.adapters.loading import load_module
from specverify.models.gpt import GPTModel

__all__ = ["write_openvino"]

_PACKAGE = "openvino-genai"
_HIDDEN = np.float32(-65504.0)
"""Score of a position that may not be looked at."""


def write_openvino(model: GPTModel, directory: Path) -> None:
    """Write a model in float32, and a tokeniser that stands in for one.

    The pipeline encodes a sentence with the target's and the draft's tokeniser to compare them,
    though prompts are given as ids: the stand-in gives every text the id 0.

    Args:
        model: What to write.
        directory: Where ``openvino_model.xml`` and ``openvino_tokenizer.xml`` go; made if need be.

    Raises:
        MissingDependencyError: If openvino is not installed.
    """
    openvino = load_module("openvino", _PACKAGE)
    directory.mkdir(parents=True, exist_ok=True)
    for name, graph in (("model", _Graph(model).build()), ("tokenizer", _tokenizer())):
        file = directory / f"openvino_{name}.xml"
        openvino.save_model(graph, str(file), compress_to_fp16=False)


class _Graph:
    """One model's graph under construction.

    Args:
        model: The model.
    """

    def __init__(self, model: GPTModel) -> None:
        self._op = load_module("openvino.opset13", _PACKAGE)
        self._model = model
        self._weights = {n: v.detach().float().numpy() for n, v in model.state_dict().items()}
        self._heads = (model.num_heads, model.embed_dim // model.num_heads)
        self._sinks: list[Any] = []

    def build(self) -> Any:
        """The graph: ids, mask, positions and beam indices in; logits out."""
        op, names = self._op, ("input_ids", "attention_mask", "position_ids")
        inputs = [_input(name, [-1, -1], np.int64) for name in names]
        self._beams = _input("beam_idx", [-1], np.int32)
        ids, mask, positions = inputs
        self._batch = self._size(ids, 0)
        self._bias = self._hidden(mask, positions)
        rows = op.add(self._rows("wte", ids), self._rows("wpe", positions))
        for layer in range(self._model.num_layers):
            rows = self._block(rows, f"h.{layer}")
        normalised = self._norm(rows, "ln_f")
        logits = op.matmul(normalised, _constant(self._weights["wte.weight"]), False, True)
        results = [_result("logits", logits)]
        model = load_module("openvino", _PACKAGE).Model
        return model(results, self._sinks, [*inputs, self._beams], "gpt2")

    def _block(self, rows: Any, name: str) -> Any:
        op = self._op
        attended = self._attend(self._norm(rows, f"{name}.ln_1"), name)
        rows = op.add(rows, self._map(attended, f"{name}.attn.c_proj"))
        inner = self._map(self._norm(rows, f"{name}.ln_2"), f"{name}.mlp.c_fc")
        return op.add(rows, self._map(op.gelu(inner, "tanh"), f"{name}.mlp.c_proj"))

    def _attend(self, rows: Any, name: str) -> Any:
        op = self._op
        parts = op.split(self._map(rows, f"{name}.attn.c_attn"), _constant(2), 3).outputs()
        query, key, value = (self._split_heads(part) for part in parts)
        key, value = self._extend(key, f"{name}.key"), self._extend(value, f"{name}.value")
        mixed = op.scaled_dot_product_attention(query, key, value, self._bias)
        shape = _constant([0, 0, self._model.embed_dim])
        return op.reshape(op.transpose(mixed, _constant([0, 2, 1, 3])), shape, True)

    def _split_heads(self, rows: Any) -> Any:
        """From ``(batch, time, width)`` to ``(batch, heads, time, head width)``."""
        heads = self._op.reshape(rows, _constant([0, 0, *self._heads]), True)
        return self._op.transpose(heads, _constant([0, 2, 1, 3]))

    def _extend(self, new: Any, name: str) -> Any:
        """What a state holds, with new rows after it; the state then holds both."""
        op, states = self._op, load_module("openvino.opset6", _PACKAGE)
        variable, (heads, width) = _variable(name, self._heads), self._heads
        shape = op.concat([self._batch, _constant([heads, 0, width])], 0)
        empty = op.broadcast(_constant(np.float32(0)), shape)
        past = op.gather(states.read_value(empty, variable), self._beams, _constant(0))
        both = op.concat([past, new], 2)
        self._sinks.append(states.assign(both, variable))
        return both

    def _hidden(self, mask: Any, positions: Any) -> Any:
        """Added to scores, ``(batch, 1, time, all)``: what lies ahead or is masked is hidden."""
        op = self._op
        count = op.squeeze(self._size(mask, 1), _constant([0]))
        places = op.range(_constant(0), count, _constant(1), "i64")
        before = op.less_equal(
            op.unsqueeze(places, _constant([0, 1, 2])), op.unsqueeze(positions, _constant([1, 3]))
        )
        there = op.convert(op.unsqueeze(mask, _constant([1, 2])), "boolean")
        seen = op.logical_and(before, there)
        return op.select(seen, _constant(np.float32(0)), _constant(_HIDDEN))

    def _size(self, tensor: Any, axis: int) -> Any:
        return self._op.gather(self._op.shape_of(tensor, "i64"), _constant([axis]), _constant(0))

    def _rows(self, name: str, ids: Any) -> Any:
        return self._op.gather(_constant(self._weights[f"{name}.weight"]), ids, _constant(0))

    def _map(self, rows: Any, name: str) -> Any:
        weight, bias = (_constant(self._weights[f"{name}.{kind}"]) for kind in ("weight", "bias"))
        return self._op.add(self._op.matmul(rows, weight, False, False), bias)

    def _norm(self, rows: Any, name: str) -> Any:
        op = self._op
        weight, bias = (_constant(self._weights[f"{name}.{kind}"]) for kind in ("weight", "bias"))
        eps = self._model.layer_norm_eps
        normal = op.mvn(rows, _constant([-1]), True, eps, "inside_sqrt")
        return op.add(op.multiply(normal, weight), bias)


def _tokenizer() -> Any:
    """A graph that gives every text the one id 0."""
    op, openvino = load_module("openvino.opset13", _PACKAGE), load_module("openvino", _PACKAGE)
    texts = _input("texts", [-1], openvino.Type.string)
    shape = op.concat([op.shape_of(texts, "i64"), _constant([1])], 0)
    results = [
        _result(name, op.broadcast(_constant(value), shape))
        for name, value in (("input_ids", 0), ("attention_mask", 1))
    ]
    return openvino.Model(results, [texts], "tokenizer")


def _variable(name: str, heads: tuple[int, int]) -> Any:
    openvino = load_module("openvino", _PACKAGE)
    states = load_module("openvino.op.util", _PACKAGE)
    info = states.VariableInfo()
    info.data_shape = openvino.PartialShape([-1, heads[0], -1, heads[1]])
    info.data_type, info.variable_id = openvino.Type.f32, name
    return states.Variable(info)


def _input(name: str, shape: list[int], kind: Any) -> Any:
    parameter = load_module("openvino.opset13", _PACKAGE).parameter(shape, kind, name=name)
    parameter.output(0).get_tensor().set_names({name})
    return parameter


def _result(name: str, value: Any) -> Any:
    result = load_module("openvino.opset13", _PACKAGE).result(value)
    result.output(0).get_tensor().set_names({name})
    return result


def _constant(value: int | list[int] | np.float32 | NDArray[np.float32]) -> Any:
    values = np.array(value, order="C")
    return load_module("openvino.opset13", _PACKAGE).constant(values)
