"""Fusion and diverse selection as stages of PyTerrier: installed, with a stub of its class, and without it."""

import sys
from importlib.util import module_from_spec, spec_from_file_location
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from structsvm import CandidateSet
from structsvm.estimators import fusion_path
from structsvm.estimators.baselines import MMR
from structsvm.export import pyterrier
from structsvm.readers import Qrels, Run, candidates

Transformer = type("Transformer", (), {"__call__": lambda stage, inp: stage.transform(inp)})


@pytest.fixture(params=["PyTerrier itself", "with its class", "without"])
def module(request, monkeypatch):
    base = Transformer
    if request.param == "PyTerrier itself":
        base = pytest.importorskip("pyterrier", reason="PyTerrier is not installed").Transformer
    else:
        # None as a module has ``import`` raise ImportError
        stub = SimpleNamespace(Transformer=base)
        monkeypatch.setitem(sys.modules, "pyterrier", None if request.param == "without" else stub)
    loaded = module_from_spec(spec := spec_from_file_location("stages", pyterrier.__file__))
    spec.loader.exec_module(loaded)
    for stage in (loaded.Fusion, loaded.Diversify):
        assert issubclass(stage, base) == (request.param != "without")
    return loaded


def test_stages_do_as_the_models_by_themselves(module):
    rng, texts = np.random.default_rng(0), {f"d{i}": f"w{i % 3} x{i}" for i in range(8)}
    topics = pd.DataFrame({"qid": ["2", "1"], "query": ["red", "blue"]})

    def retriever(scores):
        rows = [
            (q, d, s) for q, own in zip("12", scores, strict=True) for d, s in zip(texts, own, strict=True)
        ]
        return lambda inp: inp.merge(pd.DataFrame(rows, columns=["qid", "docno", "score"]))

    sources = {name: retriever(rng.random((2, 8))) for name in ("bm25", "dense")}
    pool = candidates(
        [Run.from_frame(one(topics), tag=name) for name, one in sources.items()],
        Qrels.from_dict({q: {d: int(rng.random() < 0.4) for d in texts} for q in "12"}),
    )
    (model,) = fusion_path(pool, [1.0])
    fused, expected = module.Fusion(sources, model)(topics), model.rank(pool).to_frame()
    fused["text"] = fused["docno"].map(texts)
    chosen = module.Diversify(MMR(3, 0.3))(fused.sample(frac=1, random_state=0))
    for q, query in zip(topics["qid"], topics["query"], strict=True):
        own, rows = fused[fused["qid"] == q], expected[expected["topic"] == q]
        assert own["docno"].tolist() == rows["docid"].tolist()
        assert (own["rank"].tolist(), set(own["query"])) == (list(range(8)), {query})
        scores = own[["score"]].to_numpy()
        [best] = MMR(3, 0.3).predict([CandidateSet(own["text"].tolist(), features=scores)])
        kept = chosen[chosen["qid"] == q]
        assert kept["docno"].tolist() == own["docno"].iloc[best].tolist()
        assert (kept["score"].tolist(), kept["rank"].tolist()) == ([3.0, 2.0, 1.0], [0, 1, 2])
    if hasattr(module.Transformer, "__rshift__"):  # the operators of PyTerrier itself
        texts_of = sys.modules["pyterrier"].apply.text(lambda row: texts[row["docno"]])
        pipeline = module.Fusion(sources, model) % 5 >> texts_of >> module.Diversify(MMR(3, 0.3))
        top = fused[fused["rank"] < 5]
        assert pipeline(topics)["docno"].tolist() == module.Diversify(MMR(3, 0.3))(top)["docno"].tolist()
    assert list(module.Fusion(sources, model)(topics.head(0))) == ["qid", "query", "docno", "score", "rank"]
    assert list(module.Diversify(MMR(3))(fused.head(0))) == list(fused)
    several = fused.assign(features=[np.array([a, b]) for a, b in rng.random((16, 2))])
    by_second = module.Diversify(MMR(1, 1.0, score=1), features="features")(several)
    assert by_second["docno"].tolist() == [
        several.loc[max(several.index[several["qid"] == q], key=lambda i: several["features"][i][1]), "docno"]
        for q in by_second["qid"]
    ]
