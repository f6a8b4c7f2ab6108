"""A reward that a service computes: one POST for each response.

A task waits for a place among `concurrency`, then tries; whatever happens to its request ends in a number or in a
`RewardError` of its own. Clients belong to an event loop, since their connections do, and end with it.
"""

import asyncio
import json
import math
import random
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from surefoot.envs.rewards.options import is_number
from surefoot.types.errors import HookError, RewardError

if TYPE_CHECKING:
    import httpx

MAX_REPLY = 1 << 20  # bytes
SHOWN = 200  # characters of a reply in an error
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 10.0  # seconds between tries
_KEYS = ("score", "reward")


class _TryAgain(Exception):
    """A failure that may pass: no connection, no answer in time, 429, 5xx. `pause`: seconds the service asks for."""

    def __init__(self, reason: str, pause: float = 0.0) -> None:
        super().__init__(reason)
        self.pause = pause


@dataclass(frozen=True, slots=True)
class _Session:
    """What calls in one event loop share."""

    client: "httpx.AsyncClient"
    keeper: AsyncGenerator[None]  # closes the client when the loop shuts its generators down, as `asyncio.run` does
    places: dict[tuple[str, int], asyncio.Semaphore] = field(default_factory=dict)

    def place(self, url: str, concurrency: int) -> asyncio.Semaphore:
        return self.places.setdefault((url, concurrency), asyncio.Semaphore(concurrency))


_SESSIONS: WeakKeyDictionary[asyncio.AbstractEventLoop, _Session] = WeakKeyDictionary()


async def score(
    prompt: str,
    response: str,
    label: Any,
    metadata: Mapping[str, Any],
    *,
    url: str,
    key: str = "",
    headers: Mapping[str, str] | None = None,
    try_timeout: float = 20.0,
    deadline: float = 60.0,
    tries: int = 4,
    concurrency: int = 64,
) -> float:
    """The number that `url` answers to {"prompt", "response", "label", "metadata"}, as JSON.

    The answer is a number or an object that has one under `key`, without `key` under "score" or "reward". Up to
    `tries` tries of `try_timeout` seconds each and `deadline` seconds together, from when one of the `concurrency`
    places is free; failed connections, 429 and 5xx are tried again, with pauses that double or are as long as
    Retry-After says. Raises `RewardError` with status and the answer's beginning: for its sample only.
    """
    _check_options(url, key, headers, try_timeout, deadline, tries, concurrency)
    body = _body({"prompt": prompt, "response": response, "label": label, "metadata": metadata})
    session = await _session()
    failures: list[str] = []
    try:
        async with session.place(url, concurrency), asyncio.timeout(deadline):
            reply = await _persist(session.client, url, headers or {}, body, try_timeout, tries, failures)
    except TimeoutError as error:
        so_far = f"; before that: {failures[-1]}" if failures else ""
        raise RewardError(f"{_shown(url)} gave no reward within {deadline:g} s{so_far}") from error
    return _number(reply, key, url)


def check(
    label: Any,
    metadata: Mapping[str, Any],
    *,
    url: str,
    key: str = "",
    headers: Mapping[str, str] | None = None,
    try_timeout: float = 20.0,
    deadline: float = 60.0,
    tries: int = 4,
    concurrency: int = 64,
) -> None:
    """Raise `RewardError` for what JSON cannot hold, `HookError` for options that cannot be; nothing is sent."""
    _check_options(url, key, headers, try_timeout, deadline, tries, concurrency)
    _body({"label": label, "metadata": metadata})


def _check_options(
    url: Any, key: Any, headers: Any, try_timeout: Any, deadline: Any, tries: Any, concurrency: Any
) -> None:
    try:
        parts = urlsplit(url)
        is_url = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except (ValueError, AttributeError, TypeError) as error:
        raise HookError(f"url = {url!r}: {error}") from error
    if not is_url:
        raise HookError(f"url = {url!r} is not like http://host:port/path")
    if not isinstance(key, str):
        raise HookError(f"key = {key!r} is not text")
    pairs = [] if headers is None else list(headers.items()) if isinstance(headers, Mapping) else [(headers, None)]
    if not all(isinstance(name, str) and isinstance(value, str) for name, value in pairs):
        raise HookError("headers is not an object of texts")  # their values may be secret
    for name, seconds in (("try_timeout", try_timeout), ("deadline", deadline)):
        if not is_number(seconds) or seconds <= 0:
            raise HookError(f"{name} = {seconds!r} is no number of seconds above 0")
    for name, number in (("tries", tries), ("concurrency", concurrency)):
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            raise HookError(f"{name} = {number!r} is no whole number from 1")


def _body(content: Mapping[str, Any]) -> bytes:
    try:
        return json.dumps(content, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise RewardError(f"label or metadata cannot be sent as JSON: {error}") from error


async def _session() -> _Session:
    """The running loop's, made when first asked for."""
    import httpx

    loop = asyncio.get_running_loop()
    if loop not in _SESSIONS:
        # Places bound the connections, and every wait has a limit of ours: the client's own would cut in before.
        client = httpx.AsyncClient(timeout=None, limits=httpx.Limits(max_connections=None))
        session = _SESSIONS[loop] = _Session(client, _keep(client))
        await anext(session.keeper)
    return _SESSIONS[loop]


async def _keep(client: "httpx.AsyncClient") -> AsyncGenerator[None]:
    try:
        yield
    finally:
        _SESSIONS.pop(asyncio.get_running_loop(), None)
        await client.aclose()


async def _persist(
    client: "httpx.AsyncClient",
    url: str,
    headers: Mapping[str, str],
    body: bytes,
    try_timeout: float,
    tries: int,
    failures: list[str],
) -> bytes:
    """The reply of the first try that has one; why tries failed is added to `failures`."""
    for number in range(tries):
        try:
            return await _try(client, url, headers, body, try_timeout)
        except _TryAgain as failure:
            failures.append(str(failure))
            pause = failure.pause or min(FIRST_PAUSE * 2**number, LONGEST_PAUSE) * random.SystemRandom().uniform(0.5, 1)
        if number + 1 < tries:
            await asyncio.sleep(pause)
    raise RewardError(f"{_shown(url)} failed {tries} times, at last: {failures[-1]}")


async def _try(
    client: "httpx.AsyncClient", url: str, headers: Mapping[str, str], body: bytes, try_timeout: float
) -> bytes:
    import httpx

    # Identity: a small compressed reply could unpack to one that no memory holds.
    headers = {"Content-Type": "application/json", "Accept-Encoding": "identity", **headers}
    limit = asyncio.timeout(try_timeout)
    try:
        async with limit, client.stream("POST", url, content=body, headers=headers) as response:
            reply = await _read(response)
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise _TryAgain(f"no answer within {try_timeout:g} s") from error
    except httpx.TransportError as error:
        raise _TryAgain(f"{type(error).__name__}: {error}") from error
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:  # an impossible header is a ValueError
        raise RewardError(f"{_shown(url)}: {type(error).__name__}: {error}") from error
    if response.status_code == 429 or response.status_code >= 500:
        raise _TryAgain(f"status {response.status_code}: {_excerpt(reply)}", _pause(response))
    if not response.is_success:
        raise RewardError(f"{_shown(url)} answered with status {response.status_code}: {_excerpt(reply)}")
    return reply


async def _read(response: "httpx.Response") -> bytes:
    reply = bytearray()
    async for chunk in response.aiter_raw():
        reply += chunk
        if len(reply) > MAX_REPLY:
            start = _excerpt(bytes(reply))
            raise RewardError(f"{_shown(str(response.url))} answered with more than {MAX_REPLY} bytes: {start}")
    return bytes(reply)


def _pause(response: "httpx.Response") -> float:
    """Seconds that Retry-After asks for; 0 where it gives none, or a date."""
    asked = response.headers.get("Retry-After", "")
    return float(asked) if asked.isascii() and asked.isdigit() else 0.0


def _number(reply: bytes, key: str, url: str) -> float:
    try:
        value = json.loads(reply)
    except (ValueError, RecursionError) as error:
        raise RewardError(f"{_shown(url)} answered with no JSON: {_excerpt(reply)}") from error
    if isinstance(value, dict):
        found = [name for name in ((key,) if key else _KEYS) if name in value]
        if len(found) != 1:
            wanted = repr(key) if key else "exactly one of 'score' and 'reward'"
            raise RewardError(f"{_shown(url)}: the answer does not have {wanted}: {_excerpt(reply)}")
        value = value[found[0]]
    try:
        number = float(value) if isinstance(value, int | float) else math.nan
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise RewardError(f"{_shown(url)} answered with no finite number: {_excerpt(reply)}")
    return number


def _excerpt(reply: bytes) -> str:
    text = reply[: 4 * SHOWN].decode("utf8", "replace")[:SHOWN]
    return repr(text) if text else "nothing"


def _shown(url: str) -> str:
    """Without user, password and query: they may be secret."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"
