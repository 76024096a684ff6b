"""``Lanes``: vectors of eight float64 for kernels, with the same bits on every processor.

A rounded sum depends on the order of its additions. By default LLVM either adds one number after the other, which is
slow, or, with ``fastmath``, splits the sum into as many parts as a vector of this processor has elements, so that
results differ between processors. In this module the parts are fixed: element ``j`` belongs to part ``j % 8``. The
eight partial sums are a value of LLVM's type ``<8 x double>``, which becomes one register with AVX-512, two with AVX
and four with SSE2 or NEON, with the same operations in the same order.

The functions ``_emit_...`` build LLVM's instructions for the intrinsics of the same names below: they return a
signature and a code generator, or None for types that the intrinsic does not support.
"""

import operator
from typing import Any

import numpy as np
from llvmlite import ir
from numba import config, types
from numba.extending import intrinsic, lower_builtin, models, register_model, type_callable
from numpy.typing import ArrayLike

WIDTH = 8
"""Lanes per value: one register of AVX-512."""

_VECTOR = ir.VectorType(ir.DoubleType(), WIDTH)
_INT = ir.IntType(32)


class LanesType(types.Type):
    """Numba type of eight float64 values."""

    def __init__(self) -> None:
        super().__init__(name="Lanes")


lanes = LanesType()


@register_model(LanesType)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, dmm: Any, fe_type: Any) -> None:
        super().__init__(dmm, fe_type, _VECTOR)  # type: ignore[no-untyped-call]


def _constant(kind: Any, values: Any) -> Any:
    return ir.Constant(kind, [ir.Constant(kind.element, v) for v in values])


def _zeros() -> Any:
    return _constant(_VECTOR, [0.0] * WIDTH)


def _pointer(context: Any, builder: Any, array_type: Any, array: object, indices: Any) -> Any:
    """Return the address of an element of a C-ordered array of one or two dimensions."""
    struct = context.make_array(array_type)(context, builder, array)
    index = indices[-1]
    if len(indices) == 2:
        index = builder.add(builder.mul(indices[0], builder.extract_value(struct.shape, 1)), index)
    return builder.gep(struct.data, [index], inbounds=True)


def _load(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Load eight elements of an array, beginning at the given indices, as float64."""
    array_type, (array, *indices) = signature.args[0], arguments
    pointer = _pointer(context, builder, array_type, array, indices)
    element = context.get_data_type(array_type.dtype)
    vector = ir.VectorType(element, WIDTH)
    # aligned only as a single element, because rows may begin at any element
    loaded = builder.load(
        builder.bitcast(pointer, vector.as_pointer()), align=context.get_abi_sizeof(element)
    )
    if array_type.dtype == types.float64:
        return loaded
    if array_type.dtype == types.float32:
        return builder.fpext(loaded, _VECTOR)
    return builder.sitofp(loaded, _VECTOR)


def _load_tail(context: object, builder: Any, signature: Any, arguments: Any) -> Any:
    """Load eight elements, and set all but the last ``n`` of them to zero."""
    n = builder.sub(_INT(WIDTH), builder.trunc(arguments[-1], _INT))
    kept = builder.icmp_signed(">=", _constant(ir.VectorType(_INT, WIDTH), range(WIDTH)), _spread(builder, n))
    return builder.select(kept, _load(context, builder, signature, arguments[:-1]), _zeros())


def _spread(builder: Any, value: Any) -> Any:
    """Copy a number to all lanes: LLVM's idiom is to insert it in lane 0 and shuffle."""
    none = ir.Constant(ir.VectorType(value.type, WIDTH), ir.Undefined)
    first = builder.insert_element(none, value, _INT(0))
    return builder.shuffle_vector(first, none, _constant(ir.VectorType(_INT, WIDTH), [0] * WIDTH))


def _gated(builder: Any, x: ArrayLike, y: Any) -> Any:
    """Set to zero the lanes of ``y`` where ``x`` is not positive."""
    return builder.select(builder.fcmp_ordered(">", x, _zeros()), y, _zeros())


def _check(array: ArrayLike, ndim: int) -> bool:
    return (
        isinstance(array, types.Array)
        and array.ndim == ndim
        and array.layout == "C"
        and array.dtype in (types.float32, types.float64, types.int32)
    )


def _emit_zero(typingctx: object) -> Any:
    """Return eight zeros."""
    return lanes(), lambda context, builder, signature, arguments: _zeros()


def _emit_spread(typingctx: object, x: ArrayLike) -> Any:
    """Return eight lanes that all hold ``x``."""
    return lanes(types.float64), lambda context, builder, signature, arguments: _spread(builder, arguments[0])


def _emit_load(typingctx: object, a: Any, i: Any) -> Any:
    """Return ``a[i : i + 8]``, all inside the array, which is C-ordered float64, float32 or int32."""
    return (lanes(a, types.intp), _load) if _check(a, 1) else None


def _emit_load_row(typingctx: object, a: Any, r: Any, i: Any) -> Any:
    """Return ``a[r, i : i + 8]``, all inside the row."""
    return (lanes(a, types.intp, types.intp), _load) if _check(a, 2) else None


def _emit_tail(typingctx: object, a: Any, i: Any, n: Any) -> Any:
    """Return ``a[i : i + 8]`` with all but the last ``n`` set to zero, to end a sum without reading past the array."""
    return (lanes(a, types.intp, types.intp), _load_tail) if _check(a, 1) else None


def _emit_tail_row(typingctx: object, a: Any, r: Any, i: Any, n: Any) -> Any:
    """Return :func:`tail` of row ``r``."""
    return (lanes(a, types.intp, types.intp, types.intp), _load_tail) if _check(a, 2) else None


def _emit_total(typingctx: object, x: object) -> Any:
    """Return the sum of the lanes, ``((0 + 4) + (2 + 6)) + ((1 + 5) + (3 + 7))``."""
    if x != lanes:
        return None

    def codegen(context: object, builder: Any, signature: Any, arguments: Any) -> Any:
        value, half = arguments[0], WIDTH // 2
        # add the upper half of the lanes to the lower half, three times
        while half:
            kind = ir.VectorType(_INT, half)
            none = ir.Constant(value.type, ir.Undefined)
            low = builder.shuffle_vector(value, none, _constant(kind, range(half)))
            high = builder.shuffle_vector(value, none, _constant(kind, range(half, 2 * half)))
            value, half = builder.fadd(low, high), half // 2
        return builder.extract_element(value, _INT(0))

    return types.float64(lanes), codegen


def _emit_store(typingctx: object, a: Any, i: Any, x: ArrayLike) -> Any:
    """Set ``a[i : i + 8]``, all inside the array, which is C-ordered float64."""
    if not (_check(a, 1) and a.dtype == types.float64):
        return None

    def codegen(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature.args[0], arguments[0], [arguments[1]])
        builder.store(arguments[2], builder.bitcast(pointer, _VECTOR.as_pointer()), align=8)
        return context.get_dummy_value()

    return types.void(a, types.intp, lanes), codegen


def _emit_gate(typingctx: object, x: ArrayLike, y: Any) -> Any:
    """Return ``y`` where ``x`` is positive, and zero elsewhere."""
    return lanes(lanes, lanes), lambda context, builder, signature, arguments: _gated(builder, *arguments)


def _emit_positive(typingctx: object, x: ArrayLike) -> Any:
    """Return ``max(x, 0)``."""
    return lanes(lanes), lambda context, builder, signature, x: _gated(builder, *x, *x)


zero: Any = intrinsic(_emit_zero)
load: Any = intrinsic(_emit_load)
load_row: Any = intrinsic(_emit_load_row)
tail: Any = intrinsic(_emit_tail)
tail_row: Any = intrinsic(_emit_tail_row)
total: Any = intrinsic(_emit_total)
spread: Any = intrinsic(_emit_spread)
store: Any = intrinsic(_emit_store)
gate: Any = intrinsic(_emit_gate)
positive: Any = intrinsic(_emit_positive)


def _define(operation: Any, instruction: str) -> None:
    """Make a Python operator, such as ``x + y``, available to kernels for lanes."""
    # numba's ``overload`` would be compiled in each kernel that uses it

    typed: Any = type_callable
    lowered: Any = lower_builtin

    @typed(operation)
    def infer(context: object) -> Any:
        return lambda x, y: lanes if x == y == lanes else None

    @lowered(operation, LanesType, LanesType)
    def lower(context: object, builder: Any, signature: Any, arguments: Any) -> Any:
        return getattr(builder, instruction)(*arguments)


_define(operator.add, "fadd")
_define(operator.sub, "fsub")
_define(operator.mul, "fmul")


if getattr(config, "DISABLE_JIT", 0):  # kernels are Python functions, and lanes are arrays of eight

    def zero() -> Any:
        return np.zeros(WIDTH)

    def load(a: Any, i: int) -> Any:
        return a[i : i + WIDTH].astype(np.float64)

    def load_row(a: Any, r: int, i: int) -> Any:
        return load(a[r], i)

    def tail(a: ArrayLike, i: int, n: int) -> Any:
        return np.where(np.arange(WIDTH) >= WIDTH - n, load(a, i), 0.0)

    def tail_row(a: Any, r: int, i: int, n: int) -> Any:
        return tail(a[r], i, n)

    def total(x: Any) -> Any:
        while len(x) > 1:
            x = x[: len(x) // 2] + x[len(x) // 2 :]
        return x[0]

    def spread(x: float) -> Any:
        return np.full(WIDTH, x)

    def store(a: Any, i: int, x: Any) -> None:
        a[i : i + WIDTH] = x

    def gate(x: Any, y: Any) -> Any:
        return np.where(x > 0, y, 0.0)

    def positive(x: Any) -> Any:
        return np.where(x > 0, x, 0.0)
