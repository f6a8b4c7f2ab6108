import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surefoot.envs.grade import KEPT_CHARACTERS, SHOWN_CHARACTERS, Mark, plain
from surefoot.envs.workers.call import LENGTH, MAX_REPLY, Inbox, Reply, frame
from surefoot.envs.workers.output import BYTES

MARKS = st.builds(Mark, st.floats(allow_nan=False, allow_infinity=False), st.none() | st.text())
REPLIES = st.builds(Reply, st.integers(0, 2**63), st.none() | MARKS, st.text(), st.text())


@given(st.lists(st.binary(max_size=50), max_size=5), st.integers(1, 20))
def test_frames_come_out_whole_however_they_are_cut(bodies: list[bytes], cut: int) -> None:
    stream = b"".join(frame(body[:3], body[3:]) for body in bodies)
    inbox = Inbox(50)
    found = [body for at in range(0, len(stream), cut) for body in inbox.feed(stream[at : at + cut])]
    assert found == bodies


def test_a_frame_beyond_the_limit_is_refused_before_it_is_held() -> None:
    assert Inbox(4).feed(frame(b"1234")) == [b"1234"]
    with pytest.raises(ValueError, match="5 bytes, more than 4"):
        Inbox(4).feed(LENGTH.pack(5))


@given(REPLIES)
def test_replies_read_back(reply: Reply) -> None:
    (body,) = Inbox(MAX_REPLY).feed(reply.pack())
    assert Reply.unpack(body) == reply


@given(st.binary() | st.recursive(st.none() | st.floats() | st.text(), st.lists).map(lambda x: repr(x).encode()))
def test_anything_else_is_no_reply(body: bytes) -> None:
    try:
        reply = Reply.unpack(body)
    except ValueError:
        return
    assert reply.mark is None or math.isfinite(reply.mark.value)


@pytest.mark.parametrize(
    "body",
    [
        b'[1, [NaN, null], "", ""]',
        b'[1, [1e999, null], "", ""]',
        b'[1, [1, null], "", ""]',
        b'[1, [0.5, 3], "", ""]',
        b'[1, [0.5], "", ""]',
        b'["1", null, "", ""]',
        b'[1, null, null, ""]',
        b'[1, null, "", null]',
        b'[1, null, ""]',
        b"[" * 100_000,
        b"\xff",
        b"",
    ],
)
def test_a_field_that_is_wrong(body: bytes) -> None:
    with pytest.raises(ValueError, match="no reply"):
        Reply.unpack(body)


def test_the_longest_reply_fits() -> None:
    """A character beyond the first plane takes 12 bytes of JSON."""
    odd = "\U0001f600"
    answer, error = plain(odd * 10**5, KEPT_CHARACTERS), plain(odd * 10**5)
    assert (len(answer), len(error)) == (KEPT_CHARACTERS, SHOWN_CHARACTERS)
    assert len(Reply(2**64 - 1, Mark(-1e-300, answer), error, "\x00" * (BYTES + 100)).pack()) <= MAX_REPLY
