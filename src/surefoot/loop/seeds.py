"""One root seed, and from it a number for every use that does not depend on the order of uses."""

import hashlib


def derive_seed(root: int, *use: str | int) -> int:
    """A 63-bit seed. Example: derive_seed(0, "rollout", draw, index)."""
    text = " ".join(map(str, (root, *use)))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "little") >> 1
