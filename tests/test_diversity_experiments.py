"""The extensions among the experiments on diversity: a structured model by exhaustive search, ROUGE by hand."""

import importlib.util
import itertools
from pathlib import Path

import numpy as np
import pytest

from structsvm.candidates import CandidateSet
from structsvm.oracles.adapter import StructuredProblem
from structsvm.trainers.one_slack import one_slack

FOLDER = Path(__file__).parents[1] / "experiments"
SCRIPTS = ("diversity_ambient", "diversity_extensions", "diversity_synthetic", "diversity_trec_aspects")


def load(name, monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    spec = importlib.util.spec_from_file_location(f"experiment_{name}", FOLDER / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_load(name, monkeypatch):
    module = load(name, monkeypatch)
    assert "thesis" in module.__doc__
    assert callable(module.main)


def test_pairwise_distances(monkeypatch):
    module = load("diversity_extensions", monkeypatch)
    rng = np.random.default_rng(0)
    reached = []
    xs, ys = [], []
    for _ in range(30):
        words = rng.integers(0, 6, size=(7, 4))
        x = module.candidates(CandidateSet([" ".join(f"w{j}" for j in row) for row in words]))
        labels = np.eye(6)[words].max(axis=1) > 0
        target = module.Choice(np.array([0, 1]), labels)
        xs.append(x)
        ys.append(target)
        model = module.Distances(2)
        w = rng.random(8)
        weights = labels.sum(axis=0) / labels.sum()

        def value(y, model=model, x=x, w=w):
            return w @ model.joint_feature(x, module.Choice(np.array(y)))

        def violation(y, value=value, weights=weights, labels=labels):
            return value(y) - weights @ labels[list(y)].any(axis=0)

        reached.append(value(model.argmax(w, x).rows) / max(map(value, itertools.combinations(range(7), 2))))
        # the second document is the best one beside the first
        rows = model.loss_augmented_argmax(w, x, target).rows
        best = max(violation((rows[0], d)) for d in range(7) if d != rows[0])
        assert violation(rows) == pytest.approx(best)
        assert model.loss(target, target) == 0
    assert max(reached) == pytest.approx(1)
    assert min(reached) > 0.5  # greedy is half as good for distances that are metrics, and these nearly are
    fit = one_slack(StructuredProblem(module.Distances(2), xs, ys), 1.0, tol=0.01)
    assert fit.converged
    assert not fit.certified


def test_rouge_by_hand(monkeypatch):
    module = load("diversity_extensions", monkeypatch)
    reference = "Red rose, red sea. Garden of roses"  # red twice; "of" is a stop word
    assert module.rouge_1(["red red red"], reference) == pytest.approx(2 / 6)
    assert module.rouge_1(["red sea", "garden red"], reference) == pytest.approx(4 / 6)
    assert module.rouge_1([], reference) == 0
    labels = module.occurrences(CandidateSet(["red sea", "blue rose", "sky"]), reference)
    assert labels.sum(axis=1).tolist() == [3, 1, 0]  # red twice and sea; garden and roses nobody has
