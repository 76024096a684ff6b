"""SVMs for MAP and NDCG@10 against LightGBM on the five folds of MQ2008, each chosen by MAP on the validation part.

    python experiments/benchmarks/peers_mq2008.py ../shared/data/letor4_mq2008

All methods use one thread. CPU seconds are the sum over all fits of the search, with compiled code from the cache. The
script needs the ``bench`` extra.
"""

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

from structsvm import QueryData, StructuralRanker
from structsvm.estimators.structural import model_path
from structsvm.metrics import compare, evaluate
from structsvm.readers import read_letor

MEASURES = ("map", "ndcg@10")


def dense(data: QueryData) -> Any:
    return data.X.toarray() if hasattr(data.X, "toarray") else np.asarray(data.X)


def svms(loss: str, train: list[QueryData], validation: QueryData) -> list[Any]:
    X, y = np.vstack([dense(part) for part in train]), np.concatenate([part.y for part in train])
    qid = np.concatenate([part.qid for part in train])
    return list(model_path(StructuralRanker(loss), X, y, np.logspace(-2, 4, 7).tolist(), qid=qid))


def boosters(train: list[QueryData], validation: QueryData) -> list[Any]:
    import lightgbm

    X, y = np.vstack([dense(part) for part in train]), np.concatenate([part.y for part in train])
    group = np.concatenate([np.diff(part.offsets) for part in train])
    models = []
    for leaves in (7, 31):
        for rate in (0.05, 0.1):
            model = lightgbm.LGBMRanker(
                n_estimators=300,
                num_leaves=leaves,
                learning_rate=rate,
                min_child_samples=50,
                n_jobs=1,
                verbose=-1,
                random_state=0,
                label_gain=[0, 1, 3, 7],
            )
            model.fit(
                X,
                y.astype(int),
                group=group,
                eval_set=[(dense(validation), validation.y.astype(int))],
                eval_group=[np.diff(validation.offsets)],
                eval_metric="map",
                callbacks=[lightgbm.early_stopping(30, verbose=False)],
            )
            models.append(model)
    return models


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    if not (folder / "S1.txt.gz").exists():
        parser.error(
            f"{folder}: expected S1.txt.gz to S5.txt.gz of MQ2008; data/README.md says where it is obtained"
        )
    parts = [read_letor(folder / f"S{i}.txt.gz", n_features=46) for i in range(1, 6)]
    makers = {
        "SVM for MAP": lambda train, validation: svms("map", train, validation),
        "SVM for NDCG@10": lambda train, validation: svms("ndcg@10", train, validation),
        "LightGBM": boosters,
    }
    seconds = dict.fromkeys(makers, 0.0)
    values: dict[tuple[str, str], list[Any]] = {(name, m): [] for name in makers for m in MEASURES}
    for fold in range(5):
        train = [parts[(fold + i) % 5] for i in range(3)]
        validation, test = parts[(fold + 3) % 5], parts[(fold + 4) % 5]
        for name, make in makers.items():
            start = time.process_time()
            models = make(train, validation)
            seconds[name] += time.process_time() - start
            means = [
                evaluate("map", validation.y, m.predict(dense(validation)), qid=validation.qid).mean
                for m in models
            ]
            scores = models[int(np.argmax(means))].predict(dense(test))
            for measure in MEASURES:
                values[name, measure].append(evaluate(measure, test.y, scores, qid=test.qid).per_query)
    print(f"{'':16s} {'MAP':>7s} {'NDCG@10':>8s} {'CPU s':>6s}   p against LightGBM")
    for name in makers:
        found = [np.concatenate(values[name, measure]) for measure in MEASURES]
        peers = [np.concatenate(values["LightGBM", measure]) for measure in MEASURES]
        p = [compare(a, b).p_value for a, b in zip(found, peers, strict=True)]
        print(
            f"{name:16s} {found[0].mean():7.4f} {found[1].mean():8.4f} {seconds[name]:6.1f}   {p[0]:.3f} {p[1]:.3f}"
        )


if __name__ == "__main__":
    main()
