"""Shared code of the fuzzers: mutations of files, rules for errors, and the loop that counts and measures.

The same seed makes the same cases. A case fails by an exception that is not ours, by a wrong reading, by time, and by a
crash: cases run in a process of their own.
"""

import argparse
import bz2
import copy
import faulthandler
import gzip
import json
import lzma
import os
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

SECONDS = 120
"""A case that takes longer hangs."""
PREPARATION = 600
"""Seconds until the first case of a child is done: kernels may have to be compiled."""
MEMORY = 3 << 30
"""Bytes of address space of a child, beyond what it has when it begins."""

NUMBERS = [
    "0",
    "-0",
    "+1",
    "1.",
    ".5",
    ".",
    "-",
    "+",
    "e",
    "1e",
    "1e+",
    "1e5",
    "1E-5",
    "1e400",
    "-1e400",
    "1e-400",
    "1e308",
    "1.8e308",
    "5e-324",
    "2e-324",
    "nan",
    "NaN",
    "-nan",
    "inf",
    "-Infinity",
    "infinit",
    "0x10",
    "1_000",
    "1,5",
    "1.2.3",
    "--1",
    "007",
    "9007199254740993",
    "9007199254740992.5",
    "2147483647",
    "2147483648",
    "2147483649",
    "4294967297",
    "9223372036854775808",
    "18446744073709551616",
    "1e999999999999",
    "0.1",
    "0.30000000000000004",
    "\u0661",
    "1\u0662",
    "7.2057594037927933e16",
    "1.00000000000000011102230246251565404236316680908203125",
    "3.5844466002796428e298",
    "\uff11",
    "9" * 19,
    "9" * 30,
    "1" * 400,
    "0." + "0" * 400 + "1",
    "1" * 5000,
    "9" * 19 + "e-19",
]

PIECES = [
    b"\0",
    b"\xef\xbb\xbf",
    b"\xff",
    b"\xff\xfe",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xc0\x80",
    b"\x85",
    b"\xc2\xa0",
    b"\xe2\x80\xa8",
    b"\xf0\x9f\x98\x80",
    b"\x1b[31m",
    b"\r",
    b"\n",
    b"\r\n",
    b"\n\n",
    b"\t",
    b"\x0b",
    b"\x0c",
    b"\x1c",
    b" ",
    b"#",
    b":",
    b"::",
    b"qid:",
    b"docid = ",
    b"{",
    b"}",
    b"[",
    b"]",
    b'"',
    b"\\",
    b",",
    b"null",
    b"NaN",
    b'"\\ud800"',
    b'"\\u0000"',
    b"_",
    b"x" * 2000,
    b" " * 5000,
    b"1:1 " * 500,
    b"\n" * 300,
]


def mutate_bytes(rng: random.Random, data: bytes) -> bytes:
    """Replace, delete, repeat, truncate, flip, blank or insert some bytes."""
    at = rng.randrange(len(data) + 1)
    end = min(len(data), at + rng.choice((1, 1, 2, 8, 60)))
    before, some, after = data[:at], data[at:end], data[end:]
    return rng.choice(
        (
            lambda: before + rng.randbytes(len(some)) + after,
            lambda: before + after,
            lambda: before + some * rng.randrange(2, 5) + after,
            lambda: before if rng.random() < 0.5 else some + after,
            lambda: before + bytes(byte ^ 1 << rng.randrange(8) for byte in some) + after,
            lambda: before + bytes(len(some)) + after,
            *[lambda: before + rng.choice(PIECES) + some + after] * 2,
        )
    )()


def mutate_tokens(rng: random.Random, data: bytes) -> bytes:
    """Replace, delete, repeat or swap a word, or append something to a word."""
    words = re.split(rb"([\s:,\[\]{}]+)", data)
    at, other = rng.randrange(len(words)), rng.randrange(len(words))
    word, more = words[at], words[at : at + rng.choice((1, 2, 6))]
    number, piece = rng.choice(NUMBERS).encode(), rng.choice(PIECES)
    kind, new = rng.choice(list(enumerate(([number], [], [*more, word], [word + piece], [words[other]]))))
    if kind == 4:
        words[other] = word
    words[at : at + 1] = new
    return b"".join(words)


def recode(rng: random.Random, data: bytes) -> bytes:
    """Return the text with another encoding or other line ends."""
    text, mark = data.decode("utf-8", "replace"), b"\xef\xbb\xbf"
    return rng.choice(
        (
            lambda: mark + data,
            lambda: text.encode(rng.choice(("utf-16", "utf-16-le", "utf-32", "utf-7"))),
            lambda: text.encode("latin-1", "replace"),
            *(partial(data.replace, b"\n", end) for end in (b"\r\n", b"\r", "\N{LINE SEPARATOR}".encode())),
            lambda: data.rstrip(b"\n"),
            lambda: data + mark + data,
            lambda: data + data,
        )
    )()


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda data: gzip.compress(data, 1, mtime=0),
    "bzip2": lambda data: bz2.compress(data, 1),
    "xz": lambda data: lzma.compress(data, preset=0),
}


def _all_streams(
    data: bytes, decompressor: Callable[[], bz2.BZ2Decompressor | lzma.LZMADecompressor]
) -> bytes:
    """Decompress all streams; ``bz2.decompress`` and ``lzma.decompress`` drop damaged streams after the first."""
    text = b""
    while data := data.lstrip(b"\0"):
        one = decompressor()
        text += one.decompress(data)
        if not one.eof:
            raise EOFError
        data = one.unused_data
    return text


UNPACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.decompress,
    "bzip2": lambda data: _all_streams(data, bz2.BZ2Decompressor),
    "xz": lambda data: _all_streams(data, lzma.LZMADecompressor),
}
MAGIC = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\x00": "xz"}
REFUSED_MAGIC = (b"\x28\xb5\x2f\xfd", b"PK\x03\x04", b"\xff\xfe", b"\xfe\xff")


def pack(rng: random.Random, data: bytes) -> bytes:
    """Return a compressed file: complete, of several members, truncated, damaged, or with trailing bytes."""
    packer = PACKERS[rng.choice(list(PACKERS))]
    kind = rng.randrange(8)
    if kind == 0:
        at = rng.randrange(len(data) + 1)
        return packer(data[:at]) + packer(data[at:])
    packed = packer(data)
    if kind == 1:
        return packed[: rng.randrange(len(packed))]
    if kind == 2:
        return mutate_bytes(rng, packed)
    if kind == 3:
        return packed + rng.choice((b"\0" * 4, b"\0" * 100, b"junk", packed[: len(packed) // 2], b"\x1f\x8b"))
    if kind == 4:
        return packer(packed)
    if kind == 5:
        return rng.choice((*REFUSED_MAGIC, *MAGIC)) + data
    return packed


def unpack(data: bytes) -> bytes | None:
    """Return the text of a file as the standard library decompresses it; None if it cannot."""
    if data.startswith(REFUSED_MAGIC):
        return None
    for magic, kind in MAGIC.items():
        if data.startswith(magic):
            try:
                return UNPACKERS[kind](data)
            except Exception:
                return None
    return data


def mutate(rng: random.Random, data: bytes) -> bytes:
    """Return a text after a few mutations, sometimes compressed."""
    for _ in range(rng.choice((0, 1, 1, 1, 2, 3, 6))):
        data = rng.choice((mutate_bytes, mutate_tokens, mutate_tokens, recode))(rng, data)[: 1 << 18]
    return pack(rng, data) if rng.random() < 0.15 else data


def fault_of(error: BaseException, path: Path) -> str | None:
    """Return why an exception is not a proper error; None for one printable line with file and expectation."""
    if isinstance(error, OSError) and error.errno is not None:
        return None
    if not isinstance(error, ValueError):
        return f"{type(error).__name__} is not ours"
    text = str(error)
    if not re.match(re.escape(str(path)) + r"(:\d+)?: ", text):
        return "the message does not begin with the file"
    if "expected" not in text and "state" not in text:
        return "the message does not say what was expected"
    if len(text.splitlines()) != 1 or not text.isprintable() or len(text) > 700:
        return "the message is not one printable line"
    return None


# cases in a process of their own
# ------------------------------------------------------------------------------------------------------


def run_in_child(script, cases, seed):
    """Return the summary of ``cases`` cases of a fuzzer's script."""
    counts, failures, at, began, grown = Counter(), [], 0, time.monotonic(), 0
    root = Path(script).resolve().parents[2]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])}
    while at < cases and len(failures) < 50:
        command = [sys.executable, script, "--child", str(at), "--cases", str(cases), "--seed", str(seed)]
        silent = subprocess.DEVNULL if failures else None
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=silent, env=environment) as child:
            for line in child.stdout:
                case, outcome, why, megabytes = json.loads(line)
                at, grown = case + 1, max(grown, megabytes)
                counts[outcome] += 1
                if why:
                    failures.append(why)
        if at < cases and len(failures) < 50:
            failures.append(f"case {at}: the process hung or crashed, and ended with {child.returncode}")
            at += 1
    return {
        "cases": at,
        "seed": seed,
        **dict(sorted(counts.items())),
        "failures": failures,
        "grown megabytes": grown,
        "seconds": round(time.monotonic() - began, 1),
    }


def child(start, cases, seed, prepare, run_case):
    """Run cases ``start:cases`` and print a line for each; a case that hangs ends the process."""
    faulthandler.dump_traceback_later(PREPARATION, exit=True)
    with tempfile.TemporaryDirectory() as folder:
        context = prepare(Path(folder))
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for case in range(start, cases):
            why = ""
            try:
                outcome = run_case(context, seed, case)
            except Exception:
                outcome, why = "failed", f"case {case}: {traceback.format_exc()}"
            faulthandler.dump_traceback_later(SECONDS, exit=True)
            grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak) // 1024
            print(json.dumps([case, outcome, why, grown]), flush=True)


def in_turn(kinds):
    """Return a ``run_case`` that alternates kinds of files; each makes a file, and returns whether it was accepted."""
    names = list(kinds)

    def run_case(folder, seed, case):
        kind = names[case % len(names)]
        path = folder / f"{kind}.fuzz"
        try:
            accepted = kinds[kind](random.Random(f"{seed} {case}"), path)
        except Exception as error:
            why = "wrong" if isinstance(error, AssertionError) else fault_of(error, path)
            if why is not None:
                begins = path.read_bytes()[:300] if path.is_file() else b""
                raise AssertionError(f"{kind}: {why}: {error!s:.1500}; the file begins {begins!r}") from error
            accepted = False
        return f"{kind} {'accepted' if accepted else 'refused'}"

    return run_case


def main_of_child(script, prepare, run_case, doc):
    parser = argparse.ArgumentParser(description=doc)
    parser.add_argument("--cases", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        child(options.child, options.cases, options.seed, prepare, run_case)
        return
    summary = run_in_child(script, options.cases, options.seed)
    print(json.dumps(summary, indent=1))
    sys.exit(bool(summary["failures"]))


def check_refusal(error, path=Path()):
    """Assert that the message is one line that names the file, if there is a file."""
    text = str(error)
    assert "\n" not in text, text
    assert len(text) < 700, text
    assert str(path.name) in text, text


# damage to JSON and headers of arrays
# ------------------------------------------------------------------------------------------------------

VALUES = (
    None,
    True,
    False,
    0,
    1,
    -1,
    2,
    3,
    7,
    10**13,
    2**31,
    2**63,
    10**400,
    -(10**400),
    0.5,
    1e308,
    float("nan"),
    float("inf"),
    "",
    "x",
    "map",
    "none",
    "nan",
    [],
    {},
    [1, 2],
    {"a": 1},
    "\0",
    "\ud800",
    "\u00e9" * 50,
)
TYPES = (
    "<f4",
    "<f8",
    ">f8",
    "<i4",
    "<i8",
    "|b1",
    "|u1",
    "<U3",
    "<U100000000",
    "|O",
    "<c16",
    "|V8",
    "<M8[s]",
    "|S5",
    "x",
    "<f2",
    "<U0",
)
HEADERS = ("{", "(" * 3000, "{'descr': '<f8'}", "[1, 2", "'''", "{1: {2: 3}}", "\0", "-" * 5000 + "1")
LENGTHS = (0, 1, 2, 10**13, 2**62, 2**70, -1)


def nodes(value, path=()):
    """Yield the paths of a JSON value."""
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from nodes(inner, (*path, key))
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from nodes(inner, (*path, i))


def spoil_json(rng: random.Random, value, more=()):
    """Return the value with some entries changed, dropped, repeated or exchanged."""
    value = json.loads(json.dumps(value))
    for _ in range(rng.randint(1, 3)):
        paths = [path for path in nodes(value) if path]
        if not paths:
            return value
        *path, last = rng.choice(paths)
        holder = at_path(value, path)
        kind = rng.randrange(6)
        if kind == 0:
            del holder[last]
        elif kind == 1:
            holder[last] = copy.deepcopy(at_path(value, rng.choice(paths)))
        elif kind == 2 and isinstance(holder[last], (int, float)) and abs(holder[last]) < 1e9:
            holder[last] += rng.choice((-1, 1, 2, 1000, 10**13))
        elif kind == 3 and isinstance(holder, dict):
            key = rng.choice(("extra", "predict", "coef_", "class", "fields", "array"))
            holder[key] = copy.deepcopy(holder[last])
        elif kind == 3:
            holder.extend(copy.deepcopy(holder) * rng.choice((1, 50)))
        else:
            holder[last] = copy.deepcopy(rng.choice((*VALUES, *more)))
    return value


def at_path(value, path):
    for step in path:
        value = value[step]
    return value


def nested(depth):
    return b"[" * depth + b"]" * depth


def npy(rng: random.Random, array):
    """Return an array as a ``.npy`` file with a false header."""
    descr, shape, order, kind = array.dtype.str, list(array.shape), False, rng.randrange(8)
    if kind == 0:
        descr = rng.choice(TYPES)
    elif kind == 1:
        shape = rng.choices(LENGTHS, k=rng.randrange(4))
    elif kind == 2:
        shape = rng.choice((shape[::-1], [*shape, 1]))
    elif kind == 3:
        order = True
    elif kind == 4 and shape:
        shape[0] += rng.choice((-1, 1, 10**13))
    text = repr({"descr": descr, "fortran_order": order, "shape": tuple(shape)})
    raw = (rng.choice(HEADERS) if kind == 5 else text).encode()
    version = bytes([rng.randrange(5), 0]) if kind == 6 else b"\x01\x00"
    length = rng.randrange(65536) if kind == 7 else len(raw) + 1
    return b"\x93NUMPY" + version + length.to_bytes(2, "little") + raw + b"\n" + array.tobytes()
