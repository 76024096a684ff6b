"""Damaged models and states of bandits: each is refused in one line that names the file, or works; nothing crashes.

python tests/fuzz/fuzz_models.py --cases 100000 --seed 1
"""

import io
import json
import random
import warnings
import zipfile

import numpy as np
from common import check_refusal, main_of_child, mutate_bytes, nested, npy, spoil_json

import structsvm
from structsvm.clicks import ClickCells, ClickSVM
from structsvm.common.candidates import CandidateSet
from structsvm.estimators.fusion import fusion_path
from structsvm.export import model_file as persistence
from structsvm.features.binning import BinnedFeatures
from structsvm.online import bandits
from structsvm.readers import make_ranking
from structsvm.readers.qrels import Qrels
from structsvm.readers.run_features import candidates
from structsvm.readers.runs import Run

DATA = make_ranking(6, 5, 3, noise=0.2)
SETS = [CandidateSet(["apple pie", "apple pie", "sea ship sail"])] * 4
KINDS = ("bytes", "members", "description", "header")


def models():
    good = Run.from_arrays([1, 1, 1], ["a", "b", "c"], [3.0, 2.0, 1.0], tag="good")
    bad = Run.from_arrays([1, 1, 1], ["a", "b", "c"], [1.0, 2.0, 9.0], tag="bad")
    pool = candidates([good, bad], Qrels.from_arrays([1, 1], ["a", "b"], [1, 0]))
    yield "fusion", next(fusion_path(pool, [1.0])), lambda m: m.predict(pool)
    diverse = structsvm.SVMDiv(C=10, k=2).fit(SETS, [[[1, 0], [1, 0], [0, 1]]] * 4)
    yield "diverse", diverse, lambda m: m.decision_function(SETS)
    for model in (
        structsvm.SVMMap(scale="zscore"),
        structsvm.SVMNDCG(scale="query-minmax"),
        structsvm.AccuracySVM(),
        structsvm.StructuralRankerCV(Cs=[0.1, 1.0], cv=2),
        structsvm.LambdaRank(hidden=(2,), max_epochs=2),
        structsvm.PairwiseSGD(n_steps=9),
        structsvm.CoRegularizedSGD(n_steps=9),
        structsvm.OrdinalSVM(),
        structsvm.PairwiseSVM(),
        structsvm.TreeRanker(n_trees=2, n_leaves=3, min_rows=2, n_bins=4, random_state=0),
    ):
        model.fit(DATA.X, DATA.y, qid=DATA.qid)
        yield type(model).__name__, model, lambda m: m.predict(DATA.X, qid=DATA.qid)
    cells = ClickCells.from_arrays([0] * 4, [2, 1, 2, 1], [1, 2, 1, 2], [0, 1, 0, 1])
    clicked = ClickSVM(propensities=[1.0, 0.5], scale="zscore")
    clicked.fit(DATA.X, cells, qid=DATA.qid, docid=[i % 5 for i in range(len(DATA.X))])
    yield "ClickSVM", clicked, lambda m: m.predict(DATA.X, qid=DATA.qid)
    for model in (structsvm.QueryScaler(within="data"), BinnedFeatures(n_bins=3)):
        yield type(model).__name__, model.fit(DATA.X), lambda m: m.transform(DATA.X, qid=DATA.qid)


def prepare(folder):
    warnings.simplefilter("ignore")
    uses, contents = {}, {}
    for name, model, use in models():
        persistence.save(model, folder / name)
        contents[name], uses[name] = (folder / name).read_bytes(), use
        use(persistence.load(folder / name))
    return folder, contents, uses, [one.to_json() for one in played_bandits()]


def played_bandits():
    """Return every bandit, new and after some duels."""
    rng = np.random.default_rng(0)
    for steps in (0, 60):
        for bandit in (
            *(bandits.make(name, 4, horizon=100) for name in bandits.NAMES),
            bandits.ExploreThenExploit(bandits.make("rucb", 4), 50),
            bandits.Anytime("savage", 4, first=50),
        ):
            for _ in range(steps):
                play(bandit, rng)
            yield bandit


def play(bandit, rng):
    duel = bandit.select(rng)
    bandit.update(duel, [0.5] * len(duel.pairs()) if len(duel.arms) != 2 else rng.random())


def members(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(parts):
    out = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        warnings.simplefilter("ignore")  # a name may come twice
        for name, raw in parts:
            archive.writestr(name, raw)
    return out.getvalue()


def saved(array):
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


def spoil_members(rng, parts, name, other):
    """Exchange, drop, damage or lengthen a member, add an unused one, or one of the same name."""
    raw, more = parts[name], parts[other]
    return parts | rng.choice(
        (
            {name: more, other: raw},
            {name: None},
            {name: mutate_bytes(rng, raw)},
            {"unused.npy": rng.randbytes(100)},
            {name: raw + bytes(1 << 22)},
            {f"{name} again": more},
        )
    )


def spoil_model(rng, kind, content):
    if kind == "bytes":
        return mutate_bytes(rng, content)
    parts = members(content)
    names = sorted(parts)
    name, other = rng.choices(names, k=2)
    if kind == "members":
        parts = spoil_members(rng, parts, name, other)
    elif kind == "header":
        parts[name] = npy(rng, np.load(io.BytesIO(parts[name])))
    else:
        described = json.loads(np.load(io.BytesIO(parts["description.npy"])).tobytes())
        arrays = tuple({"array": one.removesuffix(".npy")} for one in names)
        more = *arrays, {"float": "nan"}, {"float": "0x1p9999"}, {"class": "Fit", "fields": {}}, {"list": [1]}
        text = json.dumps(spoil_json(rng, described, more)).encode()
        if rng.random() < 0.05:
            text = text.replace(b"null", nested(rng.randrange(10, 100_000)), 1)
        parts["description.npy"] = saved(np.frombuffer(text, dtype=np.uint8))
        if rng.random() < 0.3:  # numbers that are none
            array = np.load(io.BytesIO(parts[name]))
            if array.dtype == np.float64 and array.size:
                array.flat[rng.randrange(array.size)] = np.nan
                parts[name] = saved(array)
    return packed((key.removesuffix(" again"), raw) for key, raw in parts.items() if raw is not None)


def run_case(context, seed, case):
    folder, contents, uses, states = context
    rng = random.Random(f"{seed} {case}")
    path = folder / "case.npz"
    if rng.random() < 0.2:
        return run_state(rng, states)
    name, kind = rng.choice(sorted(contents)), rng.choice(KINDS)
    path.write_bytes(spoil_model(rng, kind, contents[name]))
    try:
        model = persistence.load(path)
    except (ValueError, OSError) as error:
        check_refusal(error, path)
        return f"{kind} refused"
    repr(model)
    if type(model).__name__ != type(persistence.load(folder / name)).__name__:
        return f"{kind} works"  # what is fitted alike is another model
    try:
        scores = uses[name](model)
    except ValueError:  # such as features that are called otherwise
        if kind != "description":
            raise
        return f"{kind} is of no use"
    if name not in ("QueryScaler", "BinnedFeatures"):
        assert np.isfinite(scores).all(), scores
    persistence.save(model, folder / "again.npz")
    return f"{kind} works"


def run_state(rng, states):
    text, numbers = rng.choice(states), np.random.default_rng(rng.getrandbits(60))
    if rng.random() < 0.2:
        text = mutate_bytes(rng, text.encode()).decode("utf-8", "replace")
    else:
        text = json.dumps(spoil_json(rng, json.loads(text), ("rucb", "Rucb", "SAVAGE")))
    try:
        bandit = bandits.from_json(text)
    except ValueError as error:
        check_refusal(error)
        return "bandit refused"
    for _ in range(3):
        play(bandit, numbers)
    return "bandit works"


if __name__ == "__main__":
    main_of_child(__file__, prepare, run_case, __doc__)
