"""Audits over HTTP: against llama.cpp's real server, and against one that misbehaves."""

from __future__ import annotations

import importlib.util
import itertools
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from specverify.adapters.completions_api import counts_of, token_ids
from specverify.adapters.openai_server import OpenAIServer
from specverify.audit.config import AuditConfig, Budget
from specverify.audit.progress import Progress
from specverify.audit.run import audit
from specverify.errors import (
    ImplementationRaisedError,
    InvalidEmissionError,
    InvalidInputError,
    MissingDependencyError,
    UnknownTargetError,
)
from specverify.models.gpt import GPTModel
from specverify.models.pairs import load_pair
from specverify.models.weights import save_gpt
from specverify.results import AuditResult, Verdict
from specverify.warping import SamplingParams, warp_logits

PLAIN = SamplingParams()
needs_llama = pytest.mark.skipif(
    importlib.util.find_spec("xllamacpp") is None,
    reason="xllamacpp is not installed: its wheels are for Linux on x86_64",
)
Fault = Callable[["Handler", dict[str, Any]], None]


@pytest.fixture(scope="module")
def other(directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A pair whose target is the draft."""
    place = tmp_path_factory.mktemp("other")
    draft = load_pair(directory).draft
    assert isinstance(draft, GPTModel)
    for name in ("target", "draft"):
        save_gpt(draft, place / name)
    return place


class Handler(BaseHTTPRequestHandler):
    """Samples the target, unless the server's plan has a fault for this request."""

    server: FaultyServer

    def do_POST(self) -> None:
        size = int(self.headers["Content-Length"])
        request = json.loads(self.rfile.read(size))
        fault = self.server.faults.get(next(self.server.numbers))
        answer = {"choices": self.server.sample(request)}
        if fault is None:
            self.reply(200, json.dumps(answer))
        else:
            fault(self, answer)

    def do_GET(self) -> None:
        self.reply(200, json.dumps({"data": [{"id": "five"}]}))

    def reply(self, status: int, body: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


class FaultyServer(ThreadingHTTPServer):
    """A completion server for one model, with faults by the number of the request."""

    def __init__(self, directory: Path, faults: dict[int, Fault]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.faults, self.numbers = faults, itertools.count()
        self.stopping = threading.Event()
        self.ignores_top_p = False
        self._model = load_pair(directory).target

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def sample(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        top_p = None if self.ignores_top_p else request["top_p"]
        sampling = SamplingParams(request["temperature"], request["top_k"] or None, top_p)
        found = []
        for index in range(request["n"]):
            # As some servers do: choice i is drawn under the seed plus i.
            generator = torch.Generator().manual_seed(request["seed"] + index)
            ids = torch.tensor(request["prompt"])
            for _ in range(request["max_tokens"]):
                with torch.no_grad():
                    law = warp_logits(self._model(ids)[-1], sampling)
                ids = torch.cat([ids, torch.multinomial(law, 1, generator=generator)])
            new = ids[len(request["prompt"]) :].tolist()
            found.append({"index": index, "token_ids": new})
        return found


@contextmanager
def serving(directory: Path, faults: dict[int, Fault] | None = None) -> Iterator[FaultyServer]:
    server = FaultyServer(directory, faults or {})
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stopping.set()
        server.shutdown()
        thread.join()
        server.server_close()


def status_500(handler: Handler, _: dict[str, Any]) -> None:
    handler.reply(500, "out of slots")


def dropped(handler: Handler, _: dict[str, Any]) -> None:
    handler.connection.shutdown(socket.SHUT_RDWR)


def truncated(handler: Handler, answer: dict[str, Any]) -> None:
    handler.reply(200, json.dumps(answer)[:-7])


def silent(handler: Handler, _: dict[str, Any]) -> None:
    handler.server.stopping.wait(timeout=60)


def wrong_ids(handler: Handler, answer: dict[str, Any]) -> None:
    answer["choices"][0]["token_ids"][-1] += 1000
    handler.reply(200, json.dumps(answer))


def text_alone(handler: Handler, answer: dict[str, Any]) -> None:
    handler.reply(200, json.dumps({"choices": [{"index": 0, "text": "abc"}]}))


def refused(handler: Handler, _: dict[str, Any]) -> None:
    handler.reply(400, "unknown field samplers")


def engine(server: FaultyServer, directory: Path, **settings: Any) -> OpenAIServer:
    return OpenAIServer(server.url, reference=str(directory), **settings)


def test_faults_that_pass_change_nothing(directory: Path) -> None:
    with serving(directory) as server:
        wanted = engine(server, directory).sample([1, 2], 24, 5, PLAIN, seed=3)
    faults = {1: status_500, 3: dropped, 5: truncated, 8: silent, 9: dropped, 20: status_500}
    with serving(directory, faults) as server:
        found = engine(server, directory, timeout=0.5).sample([1, 2], 24, 5, PLAIN, seed=3)
        assert next(server.numbers) == 24 + len(faults)  # each answer is counted once
    np.testing.assert_array_equal(found.tokens, wanted.tokens)


def test_choices_of_one_request_come_from_spaced_seeds(directory: Path) -> None:
    with serving(directory) as server:
        one = engine(server, directory, per_request=6)
        first = one.sample([1], 24, 10, PLAIN, seed=0).tokens
        assert next(server.numbers) == 4
    assert len({tuple(row) for row in first.tolist()}) == 24


@pytest.mark.parametrize("fault", [status_500, dropped, truncated])
def test_patience_ends(directory: Path, fault: Fault) -> None:
    with serving(directory, dict.fromkeys(range(1000), fault)) as server:
        impatient = engine(server, directory, patience=0.2)
        with pytest.raises(ImplementationRaisedError, match=r"failed for 0\.2 s: "):
            impatient.sample([1], 2, 3, PLAIN, seed=0)


def test_what_no_retry_cures_is_told_at_once(directory: Path) -> None:
    with serving(directory, {0: refused, 1: text_alone}) as server:
        asked = engine(server, directory, concurrency=1)
        with pytest.raises(ImplementationRaisedError, match="status 400: unknown field samplers"):
            asked.sample([1], 1, 3, PLAIN, seed=0)
        with pytest.raises(InvalidEmissionError, match=r"no token ids \(keys index, text\)"):
            asked.sample([1], 1, 3, PLAIN, seed=0)


def run(url: str, directory: Path, *, calls: int = 2000, **settings: Any) -> AuditResult:
    config = AuditConfig(tv=0.2, isolation="inline", budget=Budget(calls=calls))
    fields = {"reference": directory, "model": "m"} | settings
    text = ",".join(f"{key}={value}" for key, value in fields.items())
    return audit(f"{url}#{text}", config=config)


def test_an_audit_through_faults_and_one_of_wrong_ids(directory: Path) -> None:
    with serving(directory, {5: dropped, 40: truncated, 77: status_500}) as server:
        result = run(server.url, directory, tolerance=0)
    assert result.summary.law is Verdict.PASS, result.summary.headline
    assert result.summary.efficiency is Verdict.SKIP  # it counts no drafts
    with serving(directory, {9: wrong_ids}) as server:
        result = run(server.url, directory, concurrency=1)
    assert result.verdict is Verdict.ERROR
    assert any("outside [0, 5)" in check.message for check in result.checks)


def test_an_audit_fails_a_server_that_ignores_a_setting(directory: Path) -> None:
    with serving(directory) as server:
        server.ignores_top_p = True
        result = run(server.url, directory, tolerance=0)
    failed = [check.name for check in result.checks if check.verdict is Verdict.FAIL]
    assert failed == ["token[filtered]"]


def test_an_audit_fails_a_server_of_another_model(directory: Path, other: Path) -> None:
    with serving(other) as server:
        assert run(server.url, directory).summary.law is Verdict.FAIL


def test_two_servers_are_compared_where_no_law_is_known(directory: Path, other: Path) -> None:
    with serving(directory) as plain, serving(directory) as server, serving(other) as wrong:
        settings = {"reference": plain.url, "vocab_size": 5, "calls": 80}
        right = run(server.url, directory, **settings)
        failed = run(wrong.url, directory, **settings)
    assert right.summary.law is not Verdict.FAIL, right.summary.headline
    assert failed.summary.law is Verdict.FAIL, failed.summary.headline


@contextmanager
def llama_server(port: int, mode: str = "probabilistic") -> Iterator[subprocess.Popen[str]]:
    script = Path(__file__).with_name("llama_server.py")
    command = [sys.executable, str(script), str(port), mode]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == f"http://127.0.0.1:{port}"
        yield process
    finally:
        process.kill()
        process.wait()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@needs_llama
def test_the_real_server_is_killed_and_started_again(tmp_path: Path) -> None:
    port = free_port()
    settings = "reference=tiny,model=m,gamma=4,drafting=ten-best,patience=0.5"
    target = f"http://127.0.0.1:{port}/v1#{settings}"
    config = AuditConfig(tv=0.1, isolation="inline")
    with llama_server(port):
        undisturbed = audit(target, config=config)
    assert undisturbed.summary.law is Verdict.PASS, undisturbed.summary.headline
    assert undisturbed.summary.efficiency is Verdict.PASS

    ledger, shards = tmp_path / "ledger", 0
    with llama_server(port) as server:

        def kill_in_the_middle(event: Progress) -> None:
            nonlocal shards
            shards += event.stage == "sample"
            if shards == 3:
                server.kill()

        broken = audit(target, config=config, ledger=ledger, progress=kill_in_the_middle)
    assert broken.verdict is Verdict.ERROR
    assert any("failed for 0.5 s" in check.message for check in broken.checks)
    with llama_server(port):
        resumed = audit(target, config=config, ledger=ledger)
    assert resumed.verdict is undisturbed.verdict
    assert [(c.name, c.n, c.statistic) for c in resumed.checks] == [
        (c.name, c.n, c.statistic) for c in undisturbed.checks
    ]


def test_ids_and_counts_are_found_where_servers_put_them() -> None:
    assert token_ids({"token_ids": [1, 2]}) == [1, 2]
    assert token_ids({"tokens": [1]}) == [1]
    assert token_ids({"logprobs": {"content": [{"id": 4}, {"id": 2}]}}) == [4, 2]
    one = {"choices": [{}]}
    timings = {"predicted_n": 4, "draft_n": 7, "draft_n_accepted": 3}
    assert counts_of(one | {"timings": timings}) == (3, 7)
    vllm = {"num_accepted_draft_tokens": 90, "num_draft_tokens": 150}
    assert counts_of(one | {"metrics": {"speculative_decoding": vllm}}) == (90, 150)
    meta = {"spec_num_correct_drafts": 90, "spec_num_proposed_drafts": 150}
    assert counts_of({"choices": [{"meta_info": meta}]}) == (90, 150)
    assert counts_of(one | {"timings": {"predicted_n": 4}}) == (0, 0)  # nothing was drafted
    assert counts_of(one) is None
    assert counts_of({"choices": [{}, {}], "timings": {"draft_n": 7}}) is None


@pytest.mark.parametrize(
    ("listed", "told"), [("/srv/models/target.gguf", "target.gguf"), ("org/model", "org/model")]
)
def test_the_folders_of_the_servers_machine_are_not_told(
    directory: Path, listed: str, told: str
) -> None:
    with serving(directory) as server:
        details = engine(server, directory, model=listed, quick=True).describe().details
    assert details is not None
    assert details["model"] == told


@needs_llama
def test_a_server_that_was_started_without_a_draft_is_told() -> None:
    port = free_port()
    told = "reference=tiny,model=m,gamma=4,drafting=greedy"
    with llama_server(port, "plain"):
        config = AuditConfig(tv=0.2, isolation="inline")
        result = audit(f"http://127.0.0.1:{port}/v1#{told}", config=config)
    assert result.summary.law is not Verdict.FAIL
    assert result.summary.efficiency is Verdict.FAIL
    codes = {finding.code for finding in result.summary.findings}
    assert codes >= {"no-speculation", "nothing-drafted"}


@pytest.mark.parametrize(
    ("settings", "match"),
    [
        ({}, r"reference: names the model that the server runs"),
        ({"reference": "x", "gamma": 0}, "gamma: must be at least 1, got 0"),
        ({"reference": "x", "drafting": "beam"}, "drafting: must be one of greedy"),
        ({"reference": "x", "concurrency": 0}, "concurrency: must be positive, got 0"),
        ({"reference": "x", "patience": -1}, "patience: must not be negative, got -1"),
    ],
)
def test_mistakes_are_named(settings: dict[str, Any], match: str) -> None:
    with pytest.raises(InvalidInputError, match=match):
        OpenAIServer("http://127.0.0.1:9/v1", **settings)


def test_a_port_where_nothing_listens_is_told_before_the_audit(directory: Path) -> None:
    with serving(directory, {}) as server:
        address = server.url
    with pytest.raises(UnknownTargetError, match=f"no server answers at {address}"):
        OpenAIServer(address, reference=str(directory), patience=0)


def test_an_unknown_reference_and_a_missing_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(UnknownTargetError, match="reference"):
        OpenAIServer("http://127.0.0.1:9/v1", reference=str(tmp_path / "nosuch"))
    monkeypatch.setitem(sys.modules, "httpx", None)
    with pytest.raises(MissingDependencyError, match=r"specdec-verify\[server\]"):
        OpenAIServer("http://127.0.0.1:9/v1", reference="tiny")
