"""Compiled kernels that scan LETOR text from bytes to numbers, used only by :mod:`structsvm.readers.letor`.

Numbers agree with ``float()`` to the last bit. Clinger's exact case (at most 53 bits of digits, power of ten up to 22)
comes first, then the 128-bit product of Eisel and Lemire (D. Lemire, "Number parsing at a gigabyte per second", 2021),
and ``float()`` itself if that is undecided. No token contains a line feed, and each line ends with one, so that scans
need no bound.
"""

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from structsvm.common.kernel import kernel
from structsvm.protocols import Float, Int

Bytes = NDArray[np.uint8]
Words = NDArray[np.uint64]
Lengths = NDArray[np.int32]

OK, MALFORMED, NO_QID, QID_AND_SIZES, INDEX_LOW, INDEX_HIGH, TWICE, NAN, INFINITE, BAD_GRADE, RARE_FULL = (
    range(11)
)
_FINITE, _IS_NAN, _IS_INFINITE, _NO_NUMBER, _UNDECIDED = range(5)
_LF, _HASH, _ZERO, _NINE, _COLON, _EQUAL, _POINT, _MINUS, _PLUS = b"\n#09:=.-+"
_A, _C, _D, _E, _F, _I, _N, _O, _Q, _T, _Y = b"acdefinoqty"


@cache
def power_tables() -> tuple[Float, Words, Words]:
    """Return ``10^0 ... 10^22`` as floats, and the leading 128 bits of ``5^-342 ... 5^308`` (high, low)."""
    exact = np.array([float(10**k) for k in range(23)])
    leading = []
    for q in range(-342, 309):
        if q >= 0:
            power = 5**q
            shift = 128 - power.bit_length()
            leading.append(power << shift if shift >= 0 else power >> -shift)
        else:
            power = 5**-q
            bits = power.bit_length()
            # 1 / 5^-q, rounded up if a tie between floats can arise (q >= -27), else truncated
            if q >= -27:
                leading.append((1 << (bits + 127)) // power + 1)
            else:
                reciprocal = (1 << (2 * bits + 128)) // power
                leading.append(reciprocal >> (reciprocal.bit_length() - 128))
    high = np.array([v >> 64 for v in leading], dtype=np.uint64)
    low = np.array([v & (2**64 - 1) for v in leading], dtype=np.uint64)
    for table in (exact, high, low):
        table.flags.writeable = False
    return exact, high, low


class Outcome(NamedTuple):
    """Result for a chunk of lines: ``code`` is OK, RARE_FULL (``rare`` is too short) or an error at byte ``at``."""

    code: int
    at: int
    max_column: int
    n_entries: int
    unsorted: bool
    n_rare: int


@kernel
def _blank(c: Any) -> bool:
    return bool(c == 32 or (9 <= c <= 13 and c != 10))


@kernel
def count_rows(buf: Bytes, start: int, end: int) -> tuple[int, int, int]:
    """Count the rows and colons of ``buf[start:end]``; also return the largest index that seems to end a line."""
    rows = colons = last = 0
    line = start
    p = start
    while p < end:
        stop = min(p + 64, end)
        feeds = 0
        for j in range(p, stop):  # two plain sums, which the compiler vectorises
            feeds += buf[j] == _LF
            colons += buf[j] == _COLON
        if feeds:
            for j in range(p, stop):
                if buf[j] == _LF:
                    k = line
                    while _blank(buf[k]):
                        k += 1
                    if buf[k] != _LF and buf[k] != _HASH:
                        rows += 1
                        k = j - 1
                        while k > line and not (buf[k] == _COLON and _ZERO <= buf[k - 1] <= _NINE):
                            k -= 1
                        value, unit = 0, 1
                        k -= 1
                        while k > line and _ZERO <= buf[k] <= _NINE and unit < 10_000_000_000:
                            value += (buf[k] - _ZERO) * unit
                            unit *= 10
                            k -= 1
                        if _blank(buf[k]):
                            last = max(last, value)
                    line = j + 1
        p = stop
    return rows, colons, last


@kernel
def parse_lines(
    buf: Bytes,
    start: int,
    end: int,
    row: int,
    entry: int,
    dense: bool,
    width: int,
    doubles: Float,
    singles: Any,
    indices: Lengths,
    row_nnz: Int,
    y: Float,
    qid_at: Int,
    qid_len: Lengths,
    note_at: Int,
    note_len: Lengths,
    limit: int,
    base: int,
    with_grade: bool,
    with_qid: bool,
    fill: float,
    exact: Float,
    high: Words,
    low: Words,
    rare: Int,
) -> Outcome:
    """Parse the lines of ``buf[start:end]`` into rows from ``row`` on (entries from ``entry`` on).
    Values are written to ``singles``, or to ``doubles`` if that is empty, so that one compilation serves both types.
    ``nan`` becomes ``fill``, and is an error if ``fill`` is infinite.
    """
    # Numbers that Python has to parse go into `rare`: (start, end, position in the values; -1 - row for a grade). The
    # kernel does not grow `rare` itself, as Numba would then count references to it for every number read.
    n_rare = 0
    max_column = -1
    unsorted = False
    first_entry = entry
    single = singles.shape[0] > 0
    p = start
    while p < end:
        while _blank(buf[p]):
            p += 1
        if buf[p] == _LF:
            p += 1
            continue
        if buf[p] == _HASH:
            while buf[p] != _LF:
                p += 1
            p += 1
            continue
        # the grade
        if with_grade:
            at = p
            value, p, kind = _number(buf, p, exact, high, low)
            if kind == _NO_NUMBER or not (_blank(buf[p]) or buf[p] == _LF or buf[p] == _HASH):
                return Outcome(MALFORMED, at, max_column, entry - first_entry, unsorted, n_rare)
            if kind == _UNDECIDED:
                if n_rare == rare.shape[0]:
                    return Outcome(RARE_FULL, at, max_column, entry - first_entry, unsorted, n_rare)
                rare[n_rare, 0], rare[n_rare, 1], rare[n_rare, 2] = at, p, -1 - row
                n_rare += 1
            elif not np.isfinite(value):
                return Outcome(BAD_GRADE, at, max_column, entry - first_entry, unsorted, n_rare)
            y[row] = value
            while _blank(buf[p]):
                p += 1
        # the query id; only its position is kept: ids are compared and decoded for whole runs of rows
        is_qid = buf[p] == _Q and buf[p + 1] == _I and buf[p + 2] == _D and buf[p + 3] == _COLON
        if is_qid != with_qid:
            return Outcome(
                NO_QID if with_qid else QID_AND_SIZES, p, max_column, entry - first_entry, unsorted, n_rare
            )
        if is_qid:
            at = p
            p += 4
            qid_at[row] = p
            while not (_blank(buf[p]) or buf[p] == _LF or buf[p] == _HASH):
                p += 1
            qid_len[row] = p - qid_at[row]
            if qid_len[row] == 0:
                return Outcome(MALFORMED, at, max_column, entry - first_entry, unsorted, n_rare)
        # the features; rows whose indices are not ascending need sorting and a search for repeated indices
        features = p
        row_start, row_at = entry, row * width
        previous = -1
        ascending = True
        while True:
            while _blank(buf[p]):
                p += 1
            if buf[p] == _LF or buf[p] == _HASH:
                break
            at = p
            k = 0
            while _ZERO <= buf[p] <= _NINE:
                k = min(k * 10 + (buf[p] - _ZERO), 10_000_000_000)
                p += 1
            if p == at or buf[p] != _COLON:
                return Outcome(MALFORMED, at, max_column, entry - first_entry, unsorted, n_rare)
            number_at = p + 1
            value, p, kind = _number(buf, number_at, exact, high, low)
            if kind == _NO_NUMBER or not (_blank(buf[p]) or buf[p] == _LF or buf[p] == _HASH):
                return Outcome(MALFORMED, at, max_column, entry - first_entry, unsorted, n_rare)
            column = k - base
            if column < 0:
                return Outcome(INDEX_LOW, at, max_column, entry - first_entry, unsorted, n_rare)
            if column > limit:
                return Outcome(INDEX_HIGH, at, max_column, entry - first_entry, unsorted, n_rare)
            if kind == _IS_NAN:
                value = fill
                if np.isinf(fill):
                    return Outcome(NAN, number_at, max_column, entry - first_entry, unsorted, n_rare)
            if column <= previous:
                ascending = False
            previous = column
            max_column = max(max_column, column)
            if dense:
                if column >= width:
                    continue  # wider than estimated: only the width matters now, because the text is parsed again
                target = row_at + column
            else:
                target = entry
                if value == 0.0 and kind != _UNDECIDED:
                    continue
                indices[entry] = column
                entry += 1
            place = np.uint64(target)  # no check for negative indices
            if single:
                singles[place] = value
                value = singles[place]
            else:
                doubles[place] = value
            if not np.isfinite(value) and kind != _UNDECIDED and kind != _IS_NAN:
                return Outcome(INFINITE, number_at, max_column, entry - first_entry, unsorted, n_rare)
            if kind == _UNDECIDED:
                if n_rare == rare.shape[0]:
                    return Outcome(RARE_FULL, at, max_column, entry - first_entry, unsorted, n_rare)
                rare[n_rare, 0], rare[n_rare, 1], rare[n_rare, 2] = number_at, p, target
                n_rare += 1
        if not ascending:
            unsorted = True
            at = _first_repeat(buf, features)
            if at >= 0:
                return Outcome(TWICE, at, max_column, entry - first_entry, unsorted, n_rare)
        if not dense:
            row_nnz[row] = entry - row_start
        p, note_at[row], note_len[row] = _note(buf, p)
        p += 1
        row += 1
    return Outcome(OK, end, max_column, entry - first_entry, unsorted, n_rare)


@kernel
def _first_repeat(buf: Bytes, p: int) -> int:
    """Return the position where the well-formed features from ``p`` on repeat an index; -1 if no index is repeated."""
    start = p
    n = 0
    while buf[p] != _LF and buf[p] != _HASH:
        n += buf[p] == _COLON
        p += 1
    # sort the features by index, with their positions: repeated indices are then adjacent
    keys = np.empty(n, dtype=np.int64)
    n = 0
    p = start
    while True:
        while _blank(buf[p]):
            p += 1
        if buf[p] == _LF or buf[p] == _HASH:
            break
        k = 0
        at = p
        while buf[p] != _COLON:
            k = k * 10 + (buf[p] - _ZERO)
            p += 1
        keys[n] = (k << 31) | (at - start)  # sorts by feature, then by position; a line is shorter than 2 GB
        n += 1
        while not (_blank(buf[p]) or buf[p] == _LF or buf[p] == _HASH):
            p += 1
    gap = n
    while gap > 1:  # Shell sort
        gap = max(1, gap * 5 // 11)
        for i in range(gap, n):
            key = keys[i]
            j = i
            while j >= gap and keys[j - gap] > key:
                keys[j] = keys[j - gap]
                j -= gap
            keys[j] = key
    found = -1  # the earliest repeated feature of the line
    for i in range(1, n):
        if keys[i] >> 31 == keys[i - 1] >> 31:
            at = keys[i] & 0x7FFFFFFF
            if found < 0 or at < found:
                found = at
    return start + found if found >= 0 else -1


@kernel
def _note(buf: Bytes, p: int) -> tuple[int, int, int]:
    """Return the end of the line after its features, and the start and length of the docid or text in its comment."""
    if buf[p] == _LF:
        return p, p, 0
    p += 1
    while _blank(buf[p]):
        p += 1
    # ``docid = <id>`` is recognised at the start of a word; otherwise the whole stripped comment is the docid
    start = p
    stop = p
    word = True
    while buf[p] != _LF:
        if (
            word
            and buf[p] == _D
            and buf[p + 1] == _O
            and buf[p + 2] == _C
            and buf[p + 3] == _I
            and buf[p + 4] == _D
        ):
            q = p + 5
            while _blank(buf[q]):
                q += 1
            if buf[q] == _EQUAL:
                q += 1
                while _blank(buf[q]):
                    q += 1
                start = q
                while not (_blank(buf[q]) or buf[q] == _LF):
                    q += 1
                stop = q
                while buf[q] != _LF:
                    q += 1
                return q, start, stop - start
        word = _blank(buf[p])
        p += 1
        if not word:
            stop = p
    return p, start, stop - start


@kernel(inline="always")
def _number(buf: Bytes, p: int, exact: Float, high: Words, low: Words) -> tuple[float, int, int]:
    """Parse the number at ``p``: return value, end, and which of ``_FINITE`` to ``_UNDECIDED`` it is."""
    # digits with or without a point, as one integer and a power of ten; the integer wraps around beyond 18 digits, in
    # which case the leading digits are read again
    c = buf[p]
    negative = c == _MINUS
    if negative or c == _PLUS:
        p += 1
    start = p
    m = np.int64(0)
    while _ZERO <= buf[p] <= _NINE:
        m = m * 10 + (buf[p] - _ZERO)
        p += 1
    digits = p - start
    power = 0
    if buf[p] == _POINT:
        p += 1
        point = p
        while _ZERO <= buf[p] <= _NINE:
            m = m * 10 + (buf[p] - _ZERO)
            p += 1
        power = point - p
        digits -= power
    if digits == 0:
        return _word(buf, start, p, negative)  # type: ignore[no-any-return]
    stop = p
    explicit = 0
    if buf[p] | 32 == _E:
        p += 1
        down = buf[p] == _MINUS
        if down or buf[p] == _PLUS:
            p += 1
        if not _ZERO <= buf[p] <= _NINE:
            return 0.0, p, _NO_NUMBER
        while _ZERO <= buf[p] <= _NINE:
            # capped at a value that no number of digits could compensate
            explicit = min(explicit * 10 + (buf[p] - _ZERO), 1_000_000_000_000)
            p += 1
        if down:
            explicit = -explicit
    dropped = False
    if digits > 18:
        m, power, dropped = _leading_digits(buf, start, stop)
    power += explicit
    # Clinger's fast path, then the algorithm of Eisel and Lemire; dropped digits matter only if incrementing the last
    # kept digit would change the result
    if m <= 9007199254740992 and -22 <= power <= 22 and not dropped:
        value = m / exact[-power] if power < 0 else m * exact[power]
    elif m == 0 or power < -342:
        value = 0.0
    elif power > 308:
        value = np.inf
    else:
        value = _scale(m, power, high[power + 342], low[power + 342])
        if np.isnan(value) or (
            dropped and value != _scale(m + 1, power, high[power + 342], low[power + 342])
        ):
            return 0.0, p, _UNDECIDED
    return (-value if negative else value), p, _FINITE


@kernel
def _leading_digits(buf: Bytes, p: int, stop: int) -> tuple[Any, int, bool]:
    """Return the first 18 significant digits, their power of ten, and whether non-zero digits were dropped."""
    m = np.int64(0)
    power: Any = 0
    kept: Any = 0
    fraction = False
    dropped: Any = False
    while p < stop:
        if buf[p] == _POINT:
            fraction = True
        else:
            d = np.int64(buf[p] - _ZERO)
            if kept < 18:
                m = m * 10 + d
                kept += m > 0
                power -= fraction
            else:
                dropped |= d > 0
                power += not fraction
        p += 1
    return m, power, dropped


@kernel
def _word(buf: Bytes, start: int, p: int, negative: bool) -> tuple[float, int, int]:
    """Parse ``nan``, ``inf`` or ``infinity`` in any case."""
    if p == start:
        # | 32 converts letters to lower case; a line feed does not become a letter
        a, b, c = buf[p] | 32, buf[p + 1] | 32, buf[p + 2] | 32
        if a == _N and b == _A and c == _N:
            return np.nan, p + 3, _IS_NAN
        if a == _I and b == _N and c == _F:
            p += 3
            tail = (_I, _N, _I, _T, _Y)
            same = 0
            while same < 5 and (buf[p + same] | 32) == tail[same]:
                same += 1
            if same == 5:
                p += 5
            return (-np.inf if negative else np.inf), p, _IS_INFINITE
    return 0.0, p, _NO_NUMBER


@kernel
def _product(a: Any, b: Any) -> tuple[Any, Any]:
    """Return the high and low word of the 128-bit product."""
    mask, half = np.uint64(0xFFFFFFFF), np.uint64(32)
    a0, a1, b0, b1 = a & mask, a >> half, b & mask, b >> half
    low = a0 * b0
    middle = a1 * b0 + (low >> half)
    other = a0 * b1 + (middle & mask)
    return a1 * b1 + (middle >> half) + (other >> half), (other << half) | (low & mask)


@kernel
def _scale(m: Any, power: int, high: Any, low: Any) -> float:
    """Return the float nearest to ``m * 10^power`` for 0 < m < 2^63 (Eisel, Lemire); NaN if the rounding is undecided.
    ``high`` and ``low`` are the leading bits of ``5^power``.
    """
    # 64 bits of the number times the leading bits of the power; the second word is needed if the result is close to a
    # tie
    w = np.uint64(m)
    shift = 0
    for step in (32, 16, 8, 4, 2, 1):
        if (w >> np.uint64(64 - step)) == np.uint64(0):
            w <<= np.uint64(step)
            shift += step
    hi, lo = _product(w, high)
    if (hi & np.uint64(0x1FF)) == np.uint64(0x1FF):
        more, _ = _product(w, low)
        lo += more
        if lo < more:
            hi += np.uint64(1)
        if lo == np.uint64(0xFFFFFFFFFFFFFFFF) and not -27 <= power <= 55:
            return np.nan
    # 54 bits, one more than a float has, and its exponent; 217706 / 2^16 is about log2(10)
    upper = np.int64(hi >> np.uint64(63))
    cut = np.uint64(upper + 9)
    bits = hi >> cut
    exponent = ((217706 * power) >> 16) + 63 + upper - shift + 1023
    if exponent <= 0:  # a subnormal number
        if 1 - exponent >= 64:
            return 0.0
        bits >>= np.uint64(1 - exponent)
        bits += bits & np.uint64(1)
        bits >>= np.uint64(1)
        # rounding up into the hidden bit gives the smallest normal number, whose exponent is 1
        return np.uint64(bits).view(np.float64)
    if (
        lo <= np.uint64(1)
        and -4 <= power <= 23
        and (bits & np.uint64(3)) == np.uint64(1)
        and (bits << cut) == hi
    ):
        bits &= ~np.uint64(1)  # exactly between two floats: round to even
    bits += bits & np.uint64(1)
    bits >>= np.uint64(1)
    if bits >= np.uint64(1 << 53):
        bits = np.uint64(1 << 52)
        exponent += 1
    if exponent >= 2047:
        return np.inf
    bits = (bits & np.uint64((1 << 52) - 1)) | (np.uint64(exponent) << np.uint64(52))
    return np.uint64(bits).view(np.float64)


@kernel
def find_runs(buf: Bytes, at: Int, length: Lengths) -> Int:
    """Return the rows whose word differs from that of the previous row, including row 0."""
    starts = np.empty(at.shape[0], dtype=np.int64)
    n = 0
    for i in range(at.shape[0]):
        same = i > 0 and length[i] == length[i - 1]
        if same:
            for j in range(length[i]):
                if buf[at[i] + j] != buf[at[i - 1] + j]:
                    same = False
                    break
        if not same:
            starts[n] = i
            n += 1
    return starts[:n].copy()


@kernel
def copy_ascii(buf: Bytes, at: Int, length: Lengths, points: Any) -> bool:
    """Copy words as code points; return False if one is not ASCII, or has a NUL, at which NumPy ends a string."""
    for i in range(at.shape[0]):
        for j in range(length[i]):
            c = buf[at[i] + j]
            if c > 127 or c == 0:
                return False
            points[i, j] = c
    return True
