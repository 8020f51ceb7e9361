"""One lazily imported file for each third-party engine, server protocol or log format.

Importing this package gives the engines their names; each file, and its library, is loaded only
when the audit asks for it.
"""

from specverify.audit.forms import Form
from specverify.audit.targets import register

register("transformers", Form.VERIFY, "specverify.adapters.transformers:speculative_sampling")
register(
    "transformers", Form.GENERATE, "specverify.adapters.transformers_engine:TransformersEngine"
)
register("llama-cpp", Form.GENERATE, "specverify.adapters.llama_cpp:LlamaCppEngine")
register("llama-cpp-gguf", Form.GENERATE, "specverify.adapters.llama_gguf:LlamaGgufEngine")
register("mlx-lm", Form.GENERATE, "specverify.adapters.mlx_lm:MlxLmEngine")
register("openvino-genai", Form.GENERATE, "specverify.adapters.openvino_genai:OpenVinoGenAIEngine")
register("http", Form.GENERATE, "specverify.adapters.openai_server:OpenAIServer")
register("samples", Form.GENERATE, "specverify.adapters.recorded_engine:RecordedSamples")

_SMALL = "specverify.adapters.small_libraries"
_LOOPS = "specverify.adapters.small_loops"
register("flashspec", Form.VERIFY, f"{_SMALL}:Flashspec")
register("flashspec", Form.BATCHED, f"{_SMALL}:FlashspecBatch")
register("economize", Form.VERIFY, f"{_SMALL}:Economize")
register("economize", Form.BATCHED, f"{_SMALL}:EconomizeBatch")
register("rotalabs-accel", Form.VERIFY, f"{_SMALL}:RotalabsAccel")
register("naive-speculate", Form.VERIFY, f"{_SMALL}:NaiveSpeculate")
register("specdec", Form.VERIFY, f"{_SMALL}:Specdec")
register("mini-infer", Form.DECODE, f"{_LOOPS}:MiniInfer")
register("sequential-speculative-decoding", Form.DECODE, f"{_LOOPS}:SequentialSpeculativeDecoding")
register("speculative-decoding", Form.DECODE, "specverify.adapters.lucidrains:LoopAlone")
register("speculative-decoding", Form.GENERATE, "specverify.adapters.lucidrains:LucidrainsEngine")
_ONNX = "specverify.adapters.onnxruntime_genai:OnnxRuntimeGenAI"
register("onnxruntime-genai", Form.GENERATE, _ONNX)
register("litgpt", Form.DECODE, "specverify.adapters.litgpt:LitGPT")
register("litgpt", Form.VERIFY, "specverify.adapters.litgpt:LitGPTRound")
register("litgpt", Form.GENERATE, "specverify.adapters.litgpt_engine:LitGPTEngine")
register("vllm-rejection-sampler", Form.BATCHED, "specverify.adapters.vllm:VllmRejectionSampler")
_VLLM_V2 = "specverify.adapters.vllm_v2:VllmRejectionSamplerV2"
register("vllm-rejection-sampler-v2", Form.BATCHED, _VLLM_V2)
register("vllm-rejection-sampler-v2", Form.DECODE, "specverify.adapters.vllm_loop:VllmLoopV2")
