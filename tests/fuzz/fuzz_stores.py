"""Damaged stores: each is refused in one line that names it, or works; nothing crashes, hangs or fills the memory.

python tests/fuzz/fuzz_stores.py --cases 100000 --seed 1
"""

import contextlib
import dataclasses
import json
import random
import shutil
import zlib

import numpy as np
from common import check_refusal, main_of_child, mutate_bytes, nested, npy, spoil_json
from scipy import sparse

from structsvm.common.array_files import Damaged, read_header
from structsvm.oracles import get_oracle
from structsvm.queries import dense_column, first_beyond
from structsvm.readers import make_ranking, open_store, store, write_store
from structsvm.readers.store import check_store
from structsvm.trainers.passes import RankingProblem

ROUNDS = ("bytes", "header", "value", "meta", "files")


def prepare(folder):
    data = make_ranking(5, 4, 3, noise=0.2)
    rows = np.arange(data.n_rows)
    for name, changes in (
        ("dense", {}),
        ("names", {"docid": np.array([f"D{i}é" for i in rows]), "query_ids": np.array(list("abcde"))}),
        ("csr", {"X": sparse.csr_matrix(np.where(data.X > 0, data.X, 0)), "order": rows[::-1].copy()}),
        ("float32", {"X": sparse.csr_matrix(data.X.astype(np.float32))}),
    ):
        write_store(dataclasses.replace(data, **changes), folder / name)
        use(open_store(folder / name))  # compiles
    return folder


def run_case(folder, seed, case):
    rng = random.Random(f"{seed} {case}")
    base = folder / rng.choice(("dense", "names", "csr", "float32"))
    path = folder / "case.store"
    shutil.rmtree(path, ignore_errors=True)
    shutil.copytree(base, path)
    kind, files = rng.choice(ROUNDS), sorted(path.glob("*.npy"))
    file, other = rng.choices(files, k=2)
    meta = json.loads((path / "meta.json").read_bytes())
    if kind == "bytes":
        target = file if rng.random() < 0.7 else path / "meta.json"
        target.write_bytes(mutate_bytes(rng, target.read_bytes()))
    elif kind == "header":
        file.write_bytes(npy(rng, np.load(file)))
        if rng.random() < 0.5:  # and the description agrees
            with contextlib.suppress(Damaged), file.open("rb") as raw:
                header = read_header(raw)
                meta["arrays"][file.stem] |= {"dtype": header.dtype.str, "shape": list(header.shape)}
    elif kind == "value":
        content = bytearray(file.read_bytes())
        array = np.frombuffer(content, offset=256, dtype=meta["arrays"][file.stem]["dtype"])
        if array.size:
            odd = {"U": (0xFFFFFFFF, 0x110000, 0xD800, 65), "f": (np.nan, np.inf, 1e30, -2.0)}
            values = array.view(np.uint32) if array.dtype.kind == "U" else array
            wrong = rng.choice(odd.get(array.dtype.kind, (-1, 1, 3, 10**6, 2**31 - 1)))
            values[rng.randrange(array.size)] = np.array(wrong)
        file.write_bytes(content)
    elif kind == "meta":
        meta = spoil_json(rng, meta, ("<f8", "<f4", "<i8", "csr", "dense", "../X", "structsvm-store"))
    else:
        action = rng.randrange(5)
        if action in (0, 2):
            file.unlink()
        if action == 1:
            a, b = file.read_bytes(), other.read_bytes()
            file.write_bytes(b)
            other.write_bytes(a)
        elif action == 2:
            file.mkdir()
        elif action == 3:
            (path / "meta.json").write_bytes(nested(rng.randrange(10, 200_000)))
        elif action == 4:
            (path / "meta.json").write_bytes(b"1" * rng.randrange(1, 2_000_000))
    if kind in ("header", "value", "meta"):
        settle(rng, path, meta)
    store._CHEAP_BYTES = rng.choice((0, 1 << 23))  # 0: as if it were large
    try:
        data = open_store(path)
    except (ValueError, OSError) as error:
        check_refusal(error, path)
        return f"{kind} refused"
    sound = True
    try:
        check_store(path)
    except (ValueError, OSError) as error:
        check_refusal(error, path)
        sound = False
    try:
        use(data)
    except ValueError:
        missing = first_beyond(data.X) is not None
        assert not sound or kind == "meta" or missing, "sound as check_store says, and of no use"
    return f"{kind} {'sound' if sound else 'found by check'}"


def settle(rng, path, meta):
    """Keep the checksums, update them, or remove them, as in a store of an earlier version."""
    choice = rng.randrange(3)
    if isinstance(meta, dict) and choice:
        specs = meta.get("arrays")
        for name, spec in list(specs.items()) if isinstance(specs, dict) else ():  # it may hold itself
            if isinstance(spec, dict):
                spec.pop("crc32", None)
                file = path / f"{name}.npy"
                if choice == 1 and "/" not in str(name) and "\0" not in str(name) and file.is_file():
                    spec["crc32"] = f"{zlib.crc32(file.read_bytes()[256:]):08x}"
        meta.pop("crc32", None)
        if choice == 1:
            meta["crc32"] = store._meta_crc(meta)
    (path / "meta.json").write_text(json.dumps(meta))


def use(data):
    """Run compiled code, of SciPy and of this package, that uses the indices."""
    assert data.qid.shape == (data.n_rows,)
    data.select([0, data.n_queries - 1])
    if data.n_features > 10**6:
        return
    dense_column(data.X, min(1, data.n_features - 1))
    problem = RankingProblem(data.X, data.offsets, get_oracle("map").bind(data.y, data.offsets))
    problem.cut(np.ones(data.n_features))
    problem.query_cuts(np.zeros(data.n_features), 0, 1, np.zeros(1), np.zeros((1, data.n_features)))


if __name__ == "__main__":
    main_of_child(__file__, prepare, run_case, __doc__)
