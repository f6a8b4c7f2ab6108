"""Against a real server on a real socket, which does what servers do at their worst."""

import asyncio
import json
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from surefoot.envs.rewards import remote
from surefoot.types.errors import HookError, RewardError

Answer = tuple[int, bytes, dict[str, str]]


@dataclass
class Service:
    url: str = ""
    answers: list[Answer] = field(default_factory=list)  # the last one again and again
    calls: list[tuple[str, Any, dict[str, str]]] = field(default_factory=list)
    connections: set[Any] = field(default_factory=set)
    seconds: float = 0.0  # before an answer
    running: int = 0
    most_running: int = 0
    lock: Any = field(default_factory=threading.Lock)


def answer(body: object, status: int = 200, **headers: str) -> Answer:
    return status, body if isinstance(body, bytes) else json.dumps(body).encode(), headers


@pytest.fixture
def service() -> Iterator[Service]:
    state = Service()
    stop = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            with state.lock:
                number = len(state.calls)
                state.calls.append((self.path, json.loads(content), dict(self.headers)))
                state.connections.add(self.client_address)
                state.running += 1
                state.most_running = max(state.most_running, state.running)
            stop.wait(state.seconds)
            with state.lock:
                state.running -= 1
            self.reply(*state.answers[min(number, len(state.answers) - 1)])

        def reply(self, status: int, body: bytes, headers: dict[str, str]) -> None:
            if body == b"die":
                self.close_connection = True
                self.connection.close()
                return
            if body == b"hang":
                stop.wait(30)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name.replace("_", "-"), value)
            if body == b"drip":  # forever a byte: no single read ever waits long
                self.send_header("Content-Length", "100000")
                self.end_headers()
                while not stop.wait(0.05):
                    self.wfile.write(b" ")
                    self.wfile.flush()
                return
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Quiet."""

    class Server(ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, *args: object) -> None:
            """Clients that hang up are what is tested."""

    server = Server(("127.0.0.1", 0), Handler)
    state.url = f"http://127.0.0.1:{server.server_port}/score"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield state
    stop.set()
    server.shutdown()
    server.server_close()


def got(service: Service, *, label: Any = "4", metadata: Any = None, **params: Any) -> float:
    return asyncio.run(remote.score("2+2?", "It is 4.", label, metadata or {}, url=service.url, **params))


def test_what_is_sent(service: Service) -> None:
    service.answers = [answer({"score": 0.5})]
    label = [9007199254740995, None, "ü"]
    assert got(service, label=label, metadata={"a": {"b": 1.5}}, headers={"Authorization": "Bearer x"}) == 0.5
    ((path, body, headers),) = service.calls
    assert path == "/score"
    assert body == {"prompt": "2+2?", "response": "It is 4.", "label": label, "metadata": {"a": {"b": 1.5}}}
    assert headers["Authorization"] == "Bearer x"
    assert headers["Content-Type"] == "application/json"


def test_text_that_utf8_cannot_hold(service: Service) -> None:
    service.answers = [answer(1)]
    assert asyncio.run(remote.score("", "\ud800\x00", None, {}, url=service.url)) == 1
    assert service.calls[0][1]["response"] == "\ud800\x00"


@pytest.mark.parametrize(
    ("reply", "key", "expected"),
    [
        ({"score": 0.25}, "", 0.25),
        ({"reward": -1, "note": "x"}, "", -1),
        (0.5, "", 0.5),
        (7, "", 7),
        (True, "", 1),
        ({"score": 1, "quality": 0.75}, "quality", 0.75),
        (b" 0.5\n", "", 0.5),
    ],
)
def test_replies(service: Service, reply: object, key: str, expected: float) -> None:
    service.answers = [answer(reply)]
    assert got(service, key=key) == expected
    assert len(service.calls) == 1


@pytest.mark.parametrize(
    ("reply", "key", "problem"),
    [
        (b'{"score": NaN}', "", "no finite number"),
        (b"Infinity", "", "no finite number"),
        (b"1" + b"0" * 400, "", "no finite number"),
        ({"score": "0.5"}, "", "no finite number"),
        ({"score": None}, "", "no finite number"),
        ([0.5], "", "no finite number"),
        (b"fine, thanks", "", "no JSON: 'fine, thanks'"),
        (b"", "", "no JSON: nothing"),
        (b"\xff\xfe", "", "no JSON"),
        (b"[" * 100_000, "", "no JSON"),
        ({"value": 1}, "", "exactly one of 'score' and 'reward'"),
        ({"score": 1, "reward": 2}, "", "exactly one of 'score' and 'reward'"),
        ({"score": 1}, "quality", "does not have 'quality'"),
        (b"1" * (remote.MAX_REPLY + 1), "", "more than 1048576 bytes"),
    ],
)
def test_replies_that_are_no_reward(service: Service, reply: object, key: str, problem: str) -> None:
    service.answers = [answer(reply)]
    with pytest.raises(RewardError, match=problem) as caught:
        got(service, key=key)
    assert len(service.calls) == 1  # the same question has the same answer
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize("status", [500, 503, 429])
def test_passing_faults_are_tried_again(service: Service, status: int) -> None:
    service.answers = [answer("busy", status), answer("busy", status), answer({"score": 1})]
    assert got(service) == 1
    assert len(service.calls) == 3


def test_a_connection_that_dies_is_tried_again(service: Service) -> None:
    service.answers = [answer(b"die"), answer(b"die"), answer({"score": 1})]
    assert got(service) == 1
    assert len(service.calls) == 3


def test_faults_that_do_not_pass(service: Service) -> None:
    service.answers = [answer("on fire", 500)]
    with pytest.raises(RewardError, match=r"/score failed 2 times, at last: status 500: .*on fire"):
        got(service, tries=2)
    assert len(service.calls) == 2


@pytest.mark.parametrize("status", [400, 404, 422, 302])
def test_the_askers_faults_are_not_tried_again(service: Service, status: int) -> None:
    service.answers = [answer("x" * 10_000, status, Location="/elsewhere")]
    with pytest.raises(RewardError, match=f"status {status}: '\"xxx") as caught:
        got(service)
    assert len(service.calls) == 1
    assert len(str(caught.value)) < 500


def test_retry_after_is_waited_for(service: Service) -> None:
    service.answers = [answer("", 429, Retry_After="1"), answer({"score": 1})]
    began = time.monotonic()
    assert got(service) == 1
    assert time.monotonic() - began >= 1


def test_nobody_listens() -> None:
    with pytest.raises(RewardError, match="failed 2 times, at last: ConnectError"):
        asyncio.run(remote.score("", "", "4", {}, url="http://127.0.0.1:9/score", tries=2))


@pytest.mark.parametrize("body", [b"hang", b"drip"])
def test_each_try_has_a_limit(service: Service, body: bytes) -> None:
    service.answers = [answer(body), answer({"score": 1})]
    began = time.monotonic()
    assert got(service, try_timeout=0.5) == 1
    assert len(service.calls) == 2
    assert time.monotonic() - began < 5


def test_all_tries_together_have_a_limit(service: Service) -> None:
    service.answers = [answer("busy", 503, Retry_After="60")]
    began = time.monotonic()
    with pytest.raises(RewardError, match=r"no reward within 0\.5 s; before that: status 503"):
        got(service, deadline=0.5)
    assert time.monotonic() - began < 5
    service.answers = [answer(b"hang")]
    with pytest.raises(RewardError, match=r"no reward within 0\.5 s"):
        got(service, deadline=0.5)


def test_one_failure_is_one_samples(service: Service) -> None:
    service.answers = [answer({"score": 1}), answer("no", 404), answer({"score": 1})]

    async def both() -> list[float | BaseException]:
        calls = [remote.score("", "", "4", {}, url=service.url, concurrency=1) for _ in range(3)]
        return await asyncio.gather(*calls, return_exceptions=True)

    results = asyncio.run(both())
    assert results[0] == results[2] == 1
    assert isinstance(results[1], RewardError)


def test_concurrency_is_bounded_and_connections_are_kept(service: Service) -> None:
    service.answers, service.seconds = [answer({"score": 1})], 0.05

    async def many() -> list[float]:
        calls = (remote.score("", "", "4", {}, url=service.url, concurrency=3) for _ in range(12))
        return await asyncio.gather(*calls)

    assert asyncio.run(many()) == [1.0] * 12
    assert service.most_running == 3
    assert len(service.connections) == 3


def test_the_wait_for_a_place_is_not_the_services(service: Service) -> None:
    service.answers, service.seconds = [answer({"score": 1})], 0.3

    async def many() -> list[float]:
        calls = (remote.score("", "", "4", {}, url=service.url, concurrency=1, deadline=1.0) for _ in range(5))
        return await asyncio.gather(*calls)

    assert asyncio.run(many()) == [1.0] * 5


def test_the_client_ends_with_its_loop(service: Service) -> None:
    service.answers = [answer({"score": 1})]
    clients = []

    async def twice() -> None:
        for _ in range(2):
            await remote.score("", "", "4", {}, url=service.url)
            clients.append(remote._SESSIONS[asyncio.get_running_loop()].client)

    asyncio.run(twice())
    asyncio.run(twice())
    first, same, second, _ = clients
    assert first is same
    assert first is not second
    assert first.is_closed
    assert second.is_closed
    assert not remote._SESSIONS


def test_a_cancelled_wait_ends_at_once(service: Service) -> None:
    service.answers = [answer(b"hang")]

    async def cancelled() -> None:
        async with asyncio.timeout(0.3):
            await remote.score("", "", "4", {}, url=service.url)

    with pytest.raises(TimeoutError):
        asyncio.run(cancelled())


@pytest.mark.parametrize("label", [None, 7, 7.0, "007", [1], True, {"a": None}])
def test_any_json_is_a_label(label: object) -> None:
    remote.check(label, {}, url="http://host/score")


@pytest.mark.parametrize(("label", "metadata"), [(float("nan"), {}), ("4", {"a": float("inf")}), ({1, 2}, {})])
def test_what_json_cannot_hold(label: object, metadata: dict[str, Any]) -> None:
    with pytest.raises(RewardError, match="JSON"):
        remote.check(label, metadata, url="http://host/score")


@pytest.mark.parametrize(
    "options",
    [
        {"url": "host/score"},
        {"url": "ftp://host/score"},
        {"url": "http://"},
        {"url": "http://host:port/"},
        {"url": 7},
        {"key": 7},
        {"headers": {"a": 1}},
        {"headers": ["a"]},
        {"try_timeout": 0},
        {"deadline": float("inf")},
        {"tries": 0},
        {"tries": 2.0},
        {"concurrency": True},
    ],
)
def test_options_that_cannot_be(options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(HookError, match=name):
        remote.check("4", {}, **{"url": "http://host/score", **options})


def test_errors_do_not_tell_secrets() -> None:
    with pytest.raises(RewardError) as caught:
        asyncio.run(remote.score("", "", 1, {}, url="http://me:secret@127.0.0.1:9/score?token=secret", tries=1))
    assert "secret" not in str(caught.value)
