"""Model files: all models are restored, other files are refused, and failures keep the old file."""

import json
import zipfile
from datetime import UTC, datetime

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.exceptions import NotFittedError

import structsvm
from structsvm import (
    SVMNDCG,
    CandidateSet,
    QueryScaler,
    StructuralRanker,
    StructuralRankerCV,
    SVMMap,
    SVMRoc,
    load,
)
from structsvm.export import model_card, model_file as model_files
from structsvm.export.model_file import save
from structsvm.oracles import get_oracle
from structsvm.readers import make_ranking
from tests.refusing import refused, rejected
from tests.trainers.problems import LOSS_NAMES

DATA = make_ranking(12, 8, 3, noise=0.2)


def fitted(model, qid=DATA.qid):
    return model.fit(DATA.X, DATA.y, qid=qid)


@pytest.mark.parametrize(
    "model",
    [
        StructuralRanker(),
        SVMMap(C=0.1, tol=1e-5),
        SVMRoc(positive=True),
        SVMNDCG(k=None),
        StructuralRanker(get_oracle("ndcg@3"), n_jobs=2),
        *(StructuralRanker(get_oracle(loss)) for loss in LOSS_NAMES),
        *(
            StructuralRanker(scale=scale)
            for scale in ("minmax", "zscore", "query-minmax", "query-zscore", "query-percentile")
        ),
        StructuralRankerCV(Cs=[0.1, 1.0], cv=3),
        StructuralRankerCV(Cs=(0.1, 1.0), cv=[(np.arange(6), np.arange(6, 12))], scoring="ndcg@5"),
    ],
    ids=repr,
)
@pytest.mark.parametrize("ids", ["numbers", "names"])
def test_round_trip(model, ids, tmp_path):
    qid = DATA.qid if ids == "numbers" else np.array([f"q{q}" for q in DATA.qid])
    fitted(model, qid).save(tmp_path / "model.npz")
    back = load(tmp_path / "model.npz")
    assert type(back) is type(model)
    assert repr(back) == repr(model)
    np.testing.assert_array_equal(back.predict(DATA.X, qid=qid), model.predict(DATA.X, qid=qid))
    assert back.score(DATA.X, DATA.y, qid=qid) == model.score(DATA.X, DATA.y, qid=qid)
    for name in ("primal", "dual", "gap", "C", "converged", "n_passes", "seconds", "solver", "history"):
        assert getattr(back.fit_, name) == getattr(model.fit_, name)
    rejected("expected qid", back.score, DATA.X, DATA.y)
    if isinstance(model, StructuralRankerCV):
        np.testing.assert_array_equal(back.scores_, model.scores_)
        assert back.C_ == model.C_
    back.save(tmp_path / "again.npz")
    again = load(str(tmp_path / "again.npz"))
    np.testing.assert_array_equal(again.coef_, model.coef_)
    fitted(again)  # a loaded model is an estimator like any other


def test_a_scaler_can_be_saved(tmp_path):
    scaler = QueryScaler("zscore", within="data").fit(DATA.X)
    save(scaler, tmp_path / "scaler")
    np.testing.assert_array_equal(load(tmp_path / "scaler").transform(DATA.X), scaler.transform(DATA.X))


def test_names_of_features_come_back(tmp_path):
    frame = pd.DataFrame(DATA.X, columns=["bm25", "länge", "x y"]).assign(qid=DATA.qid)
    SVMMap().fit(frame, DATA.y).save(tmp_path / "m")
    back = load(tmp_path / "m")
    assert back.feature_names_in_.dtype == object
    assert list(back.feature_names_in_) == ["bm25", "länge", "x y"]
    back.predict(frame)
    rejected("feature names", back.predict, frame.rename(columns={"bm25": "tf"}))


def test_a_model_card_has_the_data_and_the_estimate(tmp_path):
    CV = StructuralRankerCV(Cs=[0.1, 1.0], cv=3)
    frame = pd.DataFrame(DATA.X, columns=["a", "b", "c"])
    digests = []
    for X, y in ((frame, DATA.y), (frame, DATA.y), (frame, DATA.y[::-1]), (frame + 1e-9, DATA.y)):
        before = datetime.now(UTC).replace(microsecond=0)
        CV.fit(X, y, qid=DATA.qid).save(tmp_path / "m")
        back = load(tmp_path / "m")
        card = model_card(back)
        assert before <= datetime.fromisoformat(card["trained"].partition(",")[0]) <= datetime.now(UTC)
        assert card["data"].startswith("12 queries, 96 rows, labels 0 to ")
        digests.append(card["data"].split()[-1])
        np.testing.assert_array_equal(back.training_data_["low"], np.min(X, axis=0))
        np.testing.assert_array_equal(back.training_data_["high"], np.max(X, axis=0))
        assert (card["measure"], card["estimate"]) == ("map", repr(back.estimate()))
        CV.save(tmp_path / "again")  # the same model gives the same bytes
        assert (tmp_path / "again").read_bytes() == (tmp_path / "m").read_bytes()
    assert digests[0] == digests[1]
    assert len({*digests}) == 3
    assert {len(one) for one in digests} == {16}
    for name in ("held_out_", "training_data_"):  # as in files of earlier versions
        vars(back).pop(name)
    refused("that did not keep values of held-out queries; train again", back.estimate)
    card = model_card(back)
    assert card["trained"].startswith("unknown")
    assert card["estimate"].startswith("none: estimate: the model file")


def test_numbers_of_numpy_become_plain(tmp_path):
    fitted(SVMMap(C=np.float32(0.3), n_jobs=np.int64(2), positive=np.bool_(True))).save(tmp_path / "m")
    params = load(tmp_path / "m").get_params()
    assert (params["C"], params["n_jobs"], params["positive"]) == (float(np.float32(0.3)), 2, True)
    assert {type(params[name]) for name in ("C", "n_jobs", "positive")} == {float, int, bool}


def test_callback_and_routing_are_left_out(tmp_path):
    with sklearn.config_context(enable_metadata_routing=True):
        model = fitted(SVMMap(callback=lambda progress: None).set_fit_request(sample_weight=True))
    model.save(tmp_path / "m")
    assert load(tmp_path / "m").callback is None
    assert callable(model.callback)


def test_what_cannot_be_described_is_refused(tmp_path):
    class Own:
        def bind(self, y, offsets):
            return get_oracle("map").bind(y, offsets)

    with pytest.raises(TypeError, match=r"model\.loss: expected a number.*got <.*Own object"):
        fitted(StructuralRanker(Own())).save(tmp_path / "m")
    with pytest.raises(NotFittedError):
        SVMMap().save(tmp_path / "m")
    with pytest.raises(ValueError, match=r"compressed already; expected a name such as 'm\.npz'"):
        fitted(SVMMap()).save(tmp_path / "m.npz.gz")
    with pytest.raises(TypeError):
        save(object(), tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


# -- what is not a model ------------------------------------------------------------------------------


def rewritten(source, target, change, *, signed=False):
    """Return a model file with a changed description or arrays; ``signed`` updates the digests."""
    with np.load(source) as archive:
        arrays = dict(archive)
    description = json.loads(bytes(arrays["description"]))
    change(description, arrays)
    if signed:
        description["digests"] = {name: model_files._digest(arrays[name]) for name in description["digests"]}
    arrays["description"] = np.frombuffer(json.dumps(description).encode(), dtype=np.uint8)
    if signed:
        arrays["digest"] = np.array(model_files._digest(arrays["description"]))
    with target.open("wb") as file:
        np.savez(file, **arrays)
    return target


@pytest.fixture
def model_file(tmp_path):
    fitted(SVMMap()).save(tmp_path / "model.npz")
    return tmp_path / "model.npz"


@pytest.mark.parametrize(
    ("version", "remedy"),
    [(1, "train and save again"), (3, r"install a newer version of structsvm: pip install \. in")],
)
def test_another_format_names_the_remedy(model_file, tmp_path, version, remedy):
    rejected(
        f"model format {version}, .* reads 2; {remedy}",
        load,
        rewritten(model_file, tmp_path / "other", lambda d, _: d.update(format_version=version)),
    )


def test_a_missing_file_is_an_os_error(tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing"):
        load(tmp_path / "nothing")
    with pytest.raises(IsADirectoryError):
        load(tmp_path)


# -- what arrays declare --------------------------------------------------------------------------------------


def test_a_constant_column_has_an_infinite_scale_in_a_file_too(tmp_path):
    X = np.column_stack((DATA.X, np.ones(len(DATA.X))))
    model = SVMMap(scale="zscore").fit(X, DATA.y, qid=DATA.qid)
    assert model.scaler_.scale_[-1] == np.inf
    model.save(tmp_path / "model.npz")
    back = load(tmp_path / "model.npz")
    np.testing.assert_array_equal(back.predict(X, qid=DATA.qid), model.predict(X, qid=DATA.qid))


def with_array(name, array):
    return lambda description, arrays: arrays.update({f"model.{name}": array})


@pytest.mark.parametrize(
    ("model", "change"),
    [
        ("tree", with_array("leaves_.forest_.nodes", np.zeros((2, 1), np.int64))),
        ("tree", with_array("leaves_.forest_.feature", np.full(4, 9))),
        ("tree", with_array("leaves_.starts_", np.arange(6))),
        ("tree", with_array("leaves_.thresholds_.0", np.array([3.0, 1.0]))),
        ("tree", with_array("coef_", np.ones(3))),
        ("descent", with_array("views_.0", np.array([0, 1, 99]))),
        ("descent", with_array("fit_.direction", np.ones(2))),
        ("diverse", with_array("benefits_", np.ones((1, 1)))),
        ("linear", with_array("coef_", np.ones(1))),
    ],
)
def test_a_crafted_file_does_not_lead_compiled_code_out_of_bounds(model, change, tmp_path):
    """A file with valid digests loads; invalid indices and shapes are refused before compiled code uses them."""
    if model == "tree":
        made = fitted(structsvm.TreeRanker(n_trees=2, n_leaves=3, min_rows=2, n_bins=4, random_state=0))
    elif model == "descent":
        made = fitted(structsvm.PairwiseSGD(n_steps=9))
    elif model == "linear":
        made = fitted(SVMMap())
    else:
        sets = [CandidateSet(["apple pie", "apple pie", "sea ship sail"])] * 2
        made = structsvm.SVMDiv(k=2).fit(sets, [[[1, 0], [1, 0], [0, 1]]] * 2)
    made.save(tmp_path / "model.npz")
    bad = load(rewritten(tmp_path / "model.npz", tmp_path / "bad", change, signed=True))
    use = {
        "tree": lambda: bad.predict(DATA.X, qid=DATA.qid),
        "descent": lambda: bad.partial_fit(DATA.X, DATA.y, qid=DATA.qid, n_steps=5),
        "diverse": lambda: bad.predict(sets),
        "linear": lambda: bad.predict(DATA.X, qid=DATA.qid),
    }
    rejected("expected", use[model])


def test_an_interrupt_while_saving_raises_keyboard_interrupt(tmp_path, monkeypatch):
    entries, opened = [], zipfile.ZipFile.open

    def interrupted(archive, *arguments, **options):
        entries.append(opened(archive, *arguments, **options))
        raise KeyboardInterrupt

    model = SVMMap().fit([[0.0], [1.0]], [0, 1], qid=[1, 1])
    monkeypatch.setattr(zipfile.ZipFile, "open", interrupted)
    with pytest.raises(KeyboardInterrupt):
        model.save(tmp_path / "model.npz")
    entries.pop().close()
    assert list(tmp_path.iterdir()) == []
