"""Cases run one after another in a child process: if it dies, hangs or takes too much memory, the case is known."""

import argparse
import json
import os
import resource
import select
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

SECONDS = 60  # of one case
PREPARATION = 600  # seconds until the first case is done: kernels may have to be compiled
MEMORY = 3 << 30  # of address space, beyond what the child has when it begins


def run_in_child(script, cases, seed):
    """The summary of ``cases`` cases of a fuzzer's script."""
    counts, failures, at, began = Counter(), [], 0, time.monotonic()
    root = Path(script).resolve().parents[2]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])}
    while at < cases and len(failures) < 50:
        command = [sys.executable, script, "--child", str(at), "--cases", str(cases), "--seed", str(seed)]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE if failures else None, env=environment
        ) as child:
            rest, patience = b"", PREPARATION
            while True:
                ready = select.select([child.stdout], [], [], patience)[0]
                block = os.read(child.stdout.fileno(), 1 << 16) if ready else b""
                if not block:
                    break
                patience = SECONDS
                *lines, rest = (rest + block).split(b"\n")
                for line in lines:
                    case, outcome, why = json.loads(line)
                    at = case + 1
                    counts[outcome] += 1
                    if why:
                        failures.append(why)
            if not ready:
                child.kill()
        if at < cases and len(failures) < 50:
            failures.append(
                f"case {at}: the process {'hung' if not ready else f'ended with {child.returncode}'}"
            )
            at += 1
    return {
        "cases": at, "seed": seed, **dict(sorted(counts.items())), "failures": failures,
        "seconds": round(time.monotonic() - began, 1),
    }  # fmt: skip


def child(start, cases, seed, prepare, run_case):
    """Run cases ``start:cases`` and say a line on each."""
    with tempfile.TemporaryDirectory() as folder:
        context = prepare(Path(folder))
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
        for case in range(start, cases):
            why = ""
            try:
                outcome = run_case(context, seed, case)
            except Exception:
                outcome, why = "failed", f"case {case}: {traceback.format_exc()}"
            print(json.dumps([case, outcome, why]), flush=True)


def check_refusal(error, path=Path()):
    """One line that names the file, if there is one."""
    text = str(error)
    assert "\n" not in text, text
    assert len(text) < 700, text
    assert str(path.name) in text, text


def main(script, prepare, run_case, doc):
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


# -- damage ---------------------------------------------------------------------------------------------


def spoil_bytes(rng, content):
    """Bits turned, a piece cut off, taken out, doubled, blanked, or moved."""
    content = bytearray(content)
    n = len(content)
    if n == 0:
        return b"\0"
    kind = rng.integers(7)
    a, b = sorted(int(v) for v in rng.integers(0, n + 1, 2))
    if kind == 0:
        for at in rng.integers(0, n, int(rng.integers(1, 9))).tolist():
            content[at] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        del content[a:]
    elif kind == 2:
        del content[a : min(b, a + 64)]
    elif kind == 3:
        content[b:b] = content[a:b]
    elif kind == 4:
        content[a : min(b, a + 64)] = bytes(min(b, a + 64) - a)
    elif kind == 5:
        content += rng.bytes(int(rng.integers(1, 300)))
    else:
        content[a : a + 8] = rng.bytes(8)
    return bytes(content)


VALUES = (
    *(None, True, False, 0, 1, -1, 2, 3, 7, 10**13, 2**31, 2**63, 10**400, -(10**400), 0.5, 1e308),
    *(
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
        "é" * 50,
    ),
)
TYPES = (
    *(
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
    ),
    *("x", "<f2", "<U0"),
)
HEADERS = ("{", "(" * 3000, "{'descr': '<f8'}", "[1, 2", "'''", "{1: {2: 3}}", "\0", "-" * 5000 + "1")
LENGTHS = (0, 1, 2, 10**13, 2**62, 2**70, -1)


def nodes(value, path=()):
    """The places of a JSON value."""
    yield path
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from nodes(inner, (*path, key))
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            yield from nodes(inner, (*path, i))


def spoil_json(rng, value, more=()):
    """The value with a few places changed, dropped, doubled or exchanged."""
    value = json.loads(json.dumps(value))
    for _ in range(int(rng.integers(1, 4))):
        places = [place for place in nodes(value) if place]
        if not places:
            return value
        place = places[int(rng.integers(len(places)))]
        holder = value
        for step in place[:-1]:
            holder = holder[step]
        kind = int(rng.integers(6))
        if kind == 0:
            del holder[place[-1]]
        elif kind == 1:
            other = value
            for step in places[int(rng.integers(len(places)))]:
                other = other[step]
            holder[place[-1]] = json.loads(json.dumps(other))
        elif kind == 2 and isinstance(holder[place[-1]], (int, float)) and abs(holder[place[-1]]) < 1e9:
            holder[place[-1]] += int(rng.choice([-1, 1, 2, 1000, 10**13]))
        elif kind == 3 and isinstance(holder, dict):
            holder[str(rng.choice(["extra", "predict", "coef_", "class", "fields", "array"]))] = holder[
                place[-1]
            ]
        else:
            pool = (*VALUES, *more)
            holder[place[-1]] = pool[int(rng.integers(len(pool)))]
    return value


def nested(depth):
    return b"[" * depth + b"]" * depth


def npy(rng, array):
    """An array as a ``.npy`` file whose header lies."""
    descr, shape, order = array.dtype.str, list(array.shape), False
    kind = int(rng.integers(8))
    if kind == 0:
        descr = TYPES[int(rng.integers(len(TYPES)))]
    elif kind == 1:
        shape = [LENGTHS[int(n)] for n in rng.integers(0, len(LENGTHS), int(rng.integers(0, 4)))]
    elif kind == 2:
        shape = shape[::-1] if rng.random() < 0.5 else [*shape, 1]
    elif kind == 3:
        order = True
    elif kind == 4 and shape:
        shape[0] += int(rng.choice([-1, 1, 10**13]))
    text = repr({"descr": descr, "fortran_order": order, "shape": tuple(shape)})
    if kind == 5:
        text = HEADERS[int(rng.integers(len(HEADERS)))]
    version = bytes([int(rng.integers(0, 5)), 0]) if kind == 6 else b"\x01\x00"
    raw = text.encode()
    length = int(rng.integers(0, 65536)) if kind == 7 else len(raw) + 1
    return b"\x93NUMPY" + version + length.to_bytes(2, "little") + raw + b"\n" + array.tobytes()
