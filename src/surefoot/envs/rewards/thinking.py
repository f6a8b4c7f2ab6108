"""Where a response stops thinking."""


def final_part(response: str) -> str | None:
    """What follows the last </think>; all of it where nobody thinks; None where thinking never ends.

    >>> final_part("<think>2 and 2</think>4"), final_part("4"), final_part("<think>2 and")
    ('4', '4', None)
    """
    _, _, rest = response.rpartition("</think>")
    return None if "<think>" in rest else rest
