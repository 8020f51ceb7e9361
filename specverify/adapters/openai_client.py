"""Requests to a server that may fail: bounded concurrency, retries, and nothing counted twice."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from specverify.errors import (
    ImplementationRaisedError,
    InvalidInputError,
    MissingDependencyError,
    UnknownTargetError,
)

if TYPE_CHECKING:
    import httpx

__all__ = ["CompletionClient"]

_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})
"""Status codes that another attempt may cure."""

_FIRST_WAIT, _LONGEST_WAIT = 0.05, 2.0
_STARTING = 5.0
"""Seconds that a server which is just being started has until it takes connections."""
_QUOTED = 300


class CompletionClient:
    """Posts completion requests; each is answered once or the whole batch fails.

    A request that fails in a way that may pass (no connection, a timeout, a status such as 503, a
    body cut short) is sent again, with growing pauses, until ``patience`` is over. A request whose
    answer was lost may have been worked on twice by the server; it is counted once here.

    Args:
        url: Base address, such as ``http://127.0.0.1:8080/v1``.
        concurrency: Requests in flight at once, at least 1.
        timeout: Seconds that one attempt may take.
        patience: Seconds after its first failure at which a request is given up.

    Raises:
        InvalidInputError: If a setting is out of its range.
        MissingDependencyError: If httpx is not installed.
    """

    def __init__(
        self, url: str, *, concurrency: int = 4, timeout: float = 60.0, patience: float = 60.0
    ) -> None:
        for name, value in (("concurrency", concurrency), ("timeout", timeout)):
            if value <= 0:
                raise InvalidInputError(name, f"must be positive, got {value}")
        if patience < 0:
            raise InvalidInputError("patience", f"must not be negative, got {patience}")
        self._httpx = _library()
        self.url = url.rstrip("/")
        self._concurrency, self._patience = int(concurrency), float(patience)
        self._loop = asyncio.new_event_loop()
        key = os.environ.get("OPENAI_API_KEY")
        self._client: httpx.AsyncClient = self._httpx.AsyncClient(
            timeout=timeout,
            headers={"Authorization": f"Bearer {key}"} if key else {},
            limits=self._httpx.Limits(max_connections=self._concurrency),
        )

    def reach(self) -> None:
        """Wait until the server takes connections, a few seconds at most.

        Raises:
            UnknownTargetError: If nothing listens at its address.
        """
        self._loop.run_until_complete(self._reach())

    def complete(self, requests: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        """Answers to completion requests, in their order.

        Raises:
            ImplementationRaisedError: If the server refuses a request, or fails for longer than the
                patience.
        """
        return self._loop.run_until_complete(self._complete(requests))

    def get(self, path: str) -> dict[str, Any] | None:
        """JSON of an address of the server, None where there is none."""
        return self._loop.run_until_complete(self._get(path))

    def close(self) -> None:
        """Close the connections."""
        if not self._loop.is_closed():
            self._loop.run_until_complete(self._client.aclose())
            self._loop.close()

    async def _reach(self) -> None:
        wait, given_up = _FIRST_WAIT, time.monotonic() + min(self._patience, _STARTING)
        while True:
            try:
                await self._client.get(f"{self.url}/models")
            except self._httpx.ConnectError as error:
                if time.monotonic() + wait > given_up:
                    raise UnknownTargetError(
                        "target", f"no server answers at {self.url}: {error}"
                    ) from error
            except self._httpx.TransportError:
                return  # somebody is there
            else:
                return
            await asyncio.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT)

    async def _complete(self, requests: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
        gate = asyncio.Semaphore(self._concurrency)

        async def one(request: Mapping[str, Any]) -> dict[str, Any]:
            async with gate:
                return await self._persist(request)

        return list(await asyncio.gather(*(one(request) for request in requests)))

    async def _persist(self, request: Mapping[str, Any]) -> dict[str, Any]:
        wait, given_up = _FIRST_WAIT, 0.0
        while True:
            answer, failure = await self._attempt(request)
            if answer is not None:
                return answer
            given_up = given_up or time.monotonic() + self._patience
            if time.monotonic() + wait > given_up:
                raise ImplementationRaisedError(
                    f"{self.url} failed for {self._patience:g} s: {failure}"
                )
            await asyncio.sleep(wait)
            wait = min(2 * wait, _LONGEST_WAIT)

    async def _attempt(self, request: Mapping[str, Any]) -> tuple[dict[str, Any] | None, str]:
        try:
            reply = await self._client.post(f"{self.url}/completions", json=dict(request))
        except self._httpx.TransportError as error:
            return None, f"{type(error).__name__} {error}".strip()
        if reply.status_code in _PASSING:
            return None, f"status {reply.status_code}: {reply.text[:_QUOTED]}"
        if reply.status_code != 200:
            raise ImplementationRaisedError(
                f"{self.url} refused a request with status {reply.status_code}: "
                f"{reply.text[:_QUOTED]}"
            )
        try:
            answer = reply.json()
        except ValueError:
            return None, f"a body that is no JSON: {reply.text[:_QUOTED]!r}"
        if not isinstance(answer, dict) or not answer.get("choices"):
            return None, f"an answer without choices: {reply.text[:_QUOTED]!r}"
        return answer, ""

    async def _get(self, path: str) -> dict[str, Any] | None:
        try:
            reply = await self._client.get(path)
            found = reply.json() if reply.status_code == 200 else None
        except (self._httpx.TransportError, ValueError):
            return None
        return found if isinstance(found, dict) else None


def _library() -> Any:
    try:
        import httpx
    except ImportError as error:
        raise MissingDependencyError("httpx", "server") from error
    return httpx
