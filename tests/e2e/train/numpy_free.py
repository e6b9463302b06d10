"""Sums over raw little-endian tensors without third-party packages."""
import array
import math


def sums_float32(raw):
    """(sum, sum of absolute values) in double precision."""
    values = array.array("f")
    values.frombytes(raw)
    return math.fsum(values), math.fsum(map(abs, values))
