# SPDX-License-Identifier: MIT
"""numpy's types for those of files."""

import numpy

_DTYPES = {
    "BOOL": "bool", "U8": "uint8", "I8": "int8", "I16": "int16", "U16": "uint16", "F16": "float16",
    "I32": "int32", "U32": "uint32", "F32": "float32", "C64": "complex64", "F64": "float64",
    "I64": "int64", "U64": "uint64",
}
# numpy has none of these itself.
_ML_DTYPES = {
    "BF16": "bfloat16", "F8_E5M2": "float8_e5m2", "F8_E4M3": "float8_e4m3fn",
    "F8_E8M0": "float8_e8m0fnu", "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
}


def dtype_of(name):
    if name in _DTYPES:
        return numpy.dtype(_DTYPES[name]).newbyteorder("<")
    if name in _ML_DTYPES:
        try:
            import ml_dtypes
        except ImportError:
            raise TypeError(f"numpy has no {name}: install ml_dtypes") from None
        return numpy.dtype(getattr(ml_dtypes, _ML_DTYPES[name]))
    raise TypeError(f"numpy has no {name}, whose elements are no whole bytes")


def array_type(kind, dtype, shape, block_elements, block_bytes, swapped=False):
    """Type and shape of an array. Blocks are bytes, with those of a row in the last dimension.

    `kind` is the name that the format has, `dtype` the library's, None where it has none: for
    blocks, and for numbers of the other byte order ("F32 big-endian").
    """
    name, *order = kind.split()
    if dtype is None and name in _DTYPES and (order or swapped):
        dtype, swapped = name, True
    if dtype is not None and block_elements == 1:
        dtype = dtype_of(dtype)
        return dtype.newbyteorder("S") if swapped else dtype, shape
    last = shape[-1] if shape else 1
    return numpy.dtype("uint8"), (*shape[:-1], last // block_elements * block_bytes)


def array_over(source, dtype, shape, offset=0, order="C"):
    """An array over a buffer, which may be empty."""
    if 0 in shape:
        return numpy.empty(shape, dtype)
    n = 1
    for size in shape:
        n *= size
    return numpy.frombuffer(source, dtype, n, offset).reshape(shape, order=order)
