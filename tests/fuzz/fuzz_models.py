"""Damaged models and saved states: each is refused in one line that names the file, or works; nothing crashes.

Besides, trees of other libraries with missing values, categories and subsets of the features, which are read as the
library reads them or refused; and rows with masks, missing values or odd categories, which are refused.

python tests/fuzz/fuzz_models.py --cases 100000 --seed 1
"""

import io
import json
import warnings
import zipfile

import numpy as np
from common import check_refusal, main_of_child, mutate_bytes, nested, npy, plain, spoil_json

import structsvm
from structsvm.candidates import CandidateSet
from structsvm.clicks import ClickCells, ClickSVM
from structsvm.estimators.fusion import fusion_path
from structsvm.export import model_file as persistence
from structsvm.features.binning import BinnedFeatures
from structsvm.features.boosters import forest_of
from structsvm.online import bandits
from structsvm.online.simulation.checkpoint import Checkpoint
from structsvm.online.statistics.click_weights import ClickWeights
from structsvm.online.statistics.features import FEATURES
from structsvm.readers import make_ranking
from structsvm.readers.qrels import Qrels
from structsvm.readers.run_features import candidates
from structsvm.readers.runs import Run

DATA = make_ranking(6, 5, 3, noise=0.2)
SETS = [CandidateSet(["apple pie", "apple pie", "sea ship sail"])] * 4
KINDS = ("bytes", "members", "description", "header")
STATES = ("checkpoint", "weights", "bandit")
FOREIGN = ("lightgbm", "lightgbm pandas", "xgboost", "sklearn", "histogram")


def models():
    good = Run.from_arrays([1, 1, 1], ["a", "b", "c"], [3.0, 2.0, 1.0], tag="good")
    bad = Run.from_arrays([1, 1, 1], ["a", "b", "c"], [1.0, 2.0, 9.0], tag="bad")
    pool = candidates([good, bad], Qrels.from_arrays([1, 1], ["a", "b"], [1, 0]))
    yield "fusion", next(fusion_path(pool, [1.0])), lambda m: m.predict(pool)
    diverse = structsvm.SVMDiv(C=10, k=2).fit(SETS, [[[1, 0], [1, 0], [0, 1]]] * 4)
    yield "diverse", diverse, lambda m: m.decision_function(SETS)
    for model in (
        structsvm.SVMMap(scale="zscore"), structsvm.SVMNDCG(scale="query-minmax"), structsvm.AccuracySVM(),
        structsvm.StructuralRankerCV(Cs=[0.1, 1.0], cv=2), structsvm.LambdaRank(hidden=(2,), max_epochs=2),
        structsvm.PairwiseSGD(n_steps=9), structsvm.CoRegularizedSGD(n_steps=9), structsvm.OrdinalSVM(),
        structsvm.PairwiseSVM(), structsvm.TreeRanker(n_trees=2, n_leaves=3, min_rows=2, n_bins=4, random_state=0),
    ):  # fmt: skip
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
    """Every bandit, new and in use."""
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
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, raw in parts:
            archive.writestr(name, raw)
    return out.getvalue()


def spoil_model(rng, kind, content):
    if kind == "bytes":
        return mutate_bytes(plain(rng), content)
    parts = members(content)
    names = sorted(parts)
    name, other = (names[int(i)] for i in rng.integers(0, len(names), 2))
    if kind == "members":
        action = int(rng.integers(6))
        if action == 0:
            parts[name], parts[other] = parts[other], parts[name]
        elif action == 1:
            del parts[name]
        elif action == 2:
            parts[name] = mutate_bytes(plain(rng), parts[name])
        elif action == 3:
            parts["unused.npy"] = rng.bytes(100)
        elif action == 4:
            parts[name] = parts[name] + bytes(1 << 22)
        else:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return packed([*parts.items(), (name, parts[other])])
    elif kind == "header":
        parts[name] = npy(rng, np.load(io.BytesIO(parts[name])))
    else:
        described = json.loads(np.load(io.BytesIO(parts["description.npy"])).tobytes())
        arrays = tuple({"array": one.removesuffix(".npy")} for one in names)
        more = *arrays, {"float": "nan"}, {"float": "0x1p9999"}, {"class": "Fit", "fields": {}}, {"list": [1]}
        text = json.dumps(spoil_json(plain(rng), described, more)).encode()
        if rng.random() < 0.05:
            text = text.replace(b"null", nested(int(rng.integers(10, 100_000))), 1)
        out = io.BytesIO()
        np.save(out, np.frombuffer(text, dtype=np.uint8))
        parts["description.npy"] = out.getvalue()
        if rng.random() < 0.3:  # numbers that are none
            array = np.load(io.BytesIO(parts[name]))
            if array.dtype == np.float64 and array.size:
                array.flat[int(rng.integers(array.size))] = np.nan
                out = io.BytesIO()
                np.save(out, array)
                parts[name] = out.getvalue()
    return packed(parts.items())


def run_case(context, seed, case):
    folder, contents, uses, states = context
    rng = np.random.default_rng([seed, case])
    path = folder / "case.npz"
    drawn = rng.random()
    if drawn < 0.1:
        return run_foreign(rng, str(rng.choice(FOREIGN, p=(0.3, 0.2, 0.24, 0.24, 0.02))))
    if drawn < 0.2:
        return run_rows(rng)
    if drawn < 0.4:
        return run_state(rng, folder, states)
    name = sorted(contents)[int(rng.integers(len(contents)))]
    kind = KINDS[int(rng.integers(len(KINDS)))]
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


def run_state(rng, folder, states):
    kind = STATES[int(rng.integers(len(STATES)))]
    path = folder / f"case.{kind}"
    if kind == "bandit":
        text = states[int(rng.integers(len(states)))]
        if rng.random() < 0.2:
            text = mutate_bytes(plain(rng), text.encode()).decode("utf-8", "replace")
        else:
            text = json.dumps(spoil_json(plain(rng), json.loads(text), ("rucb", "Rucb", "SAVAGE")))
        try:
            bandit = bandits.from_json(text)
        except ValueError as error:
            check_refusal(error)
            return f"{kind} refused"
        for _ in range(3):
            play(bandit, rng)
        return f"{kind} works"
    if kind == "weights":
        weights = tuple(rng.normal(size=len(FEATURES)).tolist())
        ClickWeights(weights, "inverse_z_test", 9, 4.0, np.inf).save(path)
        record, drawn = path.read_bytes(), rng.random()
        if drawn < 0.3:
            path.write_bytes(mutate_bytes(plain(rng), record))
        elif drawn < 0.98:
            path.write_text(json.dumps(spoil_json(plain(rng), json.loads(record))))
        else:
            path.write_bytes(nested(100_000))
    else:
        path.unlink(missing_ok=True)
        checkpoint = Checkpoint(path, json.dumps({"n": 2}))
        checkpoint.read(2, 3, 4)
        checkpoint.add(1, np.ones(3), np.ones(3, np.int64), np.ones((4, 4), np.int64))
        path.write_bytes(spoil_model(rng, str(rng.choice(["bytes", "members", "header"])), path.read_bytes()))
    try:
        if kind == "weights":
            read = ClickWeights.read(path)
            assert np.isfinite(read.weights).all()
            assert read.needed > 0
            assert read.needed_by_clicks > 0
        else:
            checkpoint.read(2, 3, 4)
            assert checkpoint.regret.shape == checkpoint.winners.shape == (2, 3)
            assert np.isfinite(checkpoint.regret).all()
            checkpoint.add(0, np.ones(3), np.ones(3, np.int64), np.ones((4, 4), np.int64))
    except (ValueError, OSError) as error:
        check_refusal(error, path)
        return f"{kind} refused"
    return f"{kind} works"


def trained(rng, kind, X, y):
    """A small forest of another library, whether it has to be refused, and its own leaves of rows."""
    categorical, seed = bool(rng.integers(2)), int(rng.integers(1000))
    if kind.startswith("lightgbm"):
        import lightgbm

        zero, use = (bool(v) for v in rng.random(2) < 0.3)
        model = lightgbm.LGBMRegressor(
            n_estimators=3, num_leaves=int(rng.integers(2, 9)), min_child_samples=2, zero_as_missing=zero,
            use_missing=not use, verbosity=-1, n_jobs=1, random_state=seed,
        )  # fmt: skip
        if kind == "lightgbm":
            model.fit(X, y, categorical_feature=[3] if categorical else "auto")
            return model, zero, lambda rows: model.predict(rows, pred_leaf=True)
        import pandas as pd

        positions = bool(rng.integers(2))
        names = list(range(5)) if positions else ["e", "a", "b", "d", "c"]

        def frame(rows):
            codes = np.where(np.isfinite(rows[:, 3]), rows[:, 3], -1).astype(int).clip(-1, 4)
            return pd.DataFrame(rows[:, :3]).assign(c=pd.Categorical.from_codes(codes, categories=names))

        model.fit(frame(X).rename(columns=str), y)
        found = lambda rows: model.predict(frame(rows).rename(columns=str), pred_leaf=True)  # noqa: E731
        return model, zero or not positions, found
    if kind == "xgboost":
        import xgboost

        missing = float(rng.choice([np.nan, np.nan, 0.0, -999.0]))
        model = xgboost.XGBRegressor(
            n_estimators=3, max_depth=3, missing=missing, n_jobs=1, random_state=seed
        )
        model.fit(X, y)
        return model, not np.isnan(missing), lambda rows: model.apply(rows)
    from sklearn import ensemble

    if kind == "histogram":
        model = ensemble.HistGradientBoostingRegressor(
            max_iter=2,
            max_leaf_nodes=4,
            min_samples_leaf=2,
            categorical_features=[3] if categorical else None,
        ).fit(X, y)
        return model, categorical, None
    X = np.nan_to_num(X)
    options = {"n_estimators": 3, "random_state": seed}
    if rng.random() < 0.5:
        model = ensemble.BaggingRegressor(max_features=float(rng.choice([0.3, 0.5, 1.0])), **options).fit(
            X, y
        )
    else:
        model = ensemble.RandomForestRegressor(max_depth=3, **options).fit(X, y)
        return model, False, lambda rows: model.apply(np.nan_to_num(rows))
    return model, False, lambda rows: np.column_stack([
        one.tree_.apply(np.nan_to_num(rows)[:, own].astype(np.float32))
        for one, own in zip(model.estimators_, model.estimators_features_, strict=True)
    ])  # fmt: skip


def run_foreign(rng, kind):
    """Train a few trees, and compare leaves on the rows, near them, with missing values, and with new categories."""
    X = np.round(rng.normal(size=(60, 4)) * 3, 1)
    X[:, 3] = rng.integers(0, 5, 60)
    y = X[:, 0] + np.isin(X[:, 3], [0, 3]) + rng.normal(size=60)
    X[rng.random(X.shape) < rng.choice([0.0, 0.1])] = np.nan
    if kind == "xgboost" or kind == "lightgbm":
        X[rng.random(X.shape) < 0.2] = 0
    model, refused, leaves = trained(rng, kind, X, y)
    try:
        forest = forest_of(model)
    except ValueError as error:
        check_refusal(error)
        if not refused:
            raise AssertionError(f"{kind}: {error}") from None
        return f"{kind} refused"
    rows = X.copy()
    rows[:30, :3] += rng.normal(size=(30, 3)) * rng.choice([1e-7, 1.0])
    rows[rng.random(rows.shape) < 0.1] = np.nan
    rows[:5, 3] = rng.choice([4, 5, 7, 0])
    if kind == "sklearn":
        rows = np.nan_to_num(rows)
    if kind == "histogram":
        nodes = [one.nodes for row in model._predictors for one in row]
        scores = np.full(rows.shape[0], model._baseline_prediction.item())
        forest.add_scores(
            rows, np.concatenate([n["value"][n["is_leaf"].astype(bool)] for n in nodes]), scores
        )
        np.testing.assert_allclose(scores, model.predict(rows), rtol=0, atol=1e-9)
        return f"{kind} works"
    for mine, theirs in zip(forest.codes(rows).T, leaves(rows).T, strict=True):
        pairs = set(zip(mine.tolist(), theirs.tolist(), strict=True))
        assert len(pairs) == len(set(mine.tolist())) == len(set(theirs.tolist())), f"{kind}: other leaves"
    return f"{kind} works"


def run_rows(rng):
    """Rows, labels or query ids that hold nothing at some place, or what is no category."""
    X, y, qid = DATA.X.copy(), DATA.y.copy(), DATA.qid.copy()
    tree = bool(rng.integers(2))
    options = {"n_trees": 1, "n_leaves": 3, "min_rows": 2, "n_bins": 0, "random_state": 0}
    at = int(rng.integers(len(y)))
    spoil = int(rng.integers(7))
    if spoil == 0:  # a mask over anything
        which, mask = int(rng.integers(3)), np.zeros(len(y), dtype=bool)
        mask[at] = rng.random() < 0.8
        X, y, qid = (
            np.ma.MaskedArray(v, np.broadcast_to(mask[:, None], v.shape) if v.ndim == 2 else mask)
            if k == which
            else v
            for k, v in enumerate((X, y, qid))
        )
        sound = not mask.any()
    elif spoil == 1:
        X[at, 0] = rng.choice([np.nan, np.inf, 1e101])
        sound = tree and np.isnan(X[at, 0])
    elif spoil == 2:
        y[at] = rng.choice([np.nan, np.inf])
        sound = False
    elif spoil == 3:
        qid = qid.astype(float)
        qid[at] = rng.choice([np.nan, 0.5, np.inf])
        sound = False
    elif spoil == 4:
        tree, X[:, 0] = True, rng.integers(0, 5, len(y))
        X[at, 0] = rng.choice([-1, 0.5, 1e12, 2**31, np.nan, 3])
        options["categorical_features"] = [0]
        sound = np.isnan(X[at, 0]) or X[at, 0] == 3
    else:
        import pandas as pd

        columns = [["a", "b", "a"], ["a", "b", "c"], [1, 2, 3]][int(rng.integers(3))]
        X, tree = pd.DataFrame(X, columns=columns), False
        signs = {columns[-1]: 1, columns[1]: 0}
        options = {"monotone_constraints": pd.Series(signs) if spoil == 5 else signs}
        sound = columns[-1] == "c"
    if not tree and spoil < 5:
        options = {}
    model = (structsvm.TreeRanker if tree else structsvm.SVMMap)(**options)
    try:
        model.fit(X, y, qid=qid)
    except ValueError as error:
        check_refusal(error)
        if sound:
            raise AssertionError(f"rows {spoil}: {error}") from None
        return "rows refused"
    assert sound, f"rows {spoil}: taken"
    if spoil >= 5:
        assert model.coef_[2] >= 0
    return "rows work"


if __name__ == "__main__":
    main_of_child(__file__, prepare, run_case, __doc__)
