"""Five grades made of clicks: `ndcg@10` on all grades against the same loss on grades cut at 1, 2 or 3.

Cascade users click in 20 sessions per training query, on lists of 10 documents in the order of the best feature plus
noise. Documents without a click have grade 0; the others have grades 1 to 4 by the quarter of their click rate.
*chosen* takes the cut that, with its C, has the best held-out NDCG@10 of the grades made of clicks, by five folds. All
columns are NDCG@10 of the true grades on test queries, at the C that held-out grades made of clicks choose for the cut.
"""

import warnings

import numpy as np
from _common import Experiment
from top_losses import real

from structsvm import StructuralRanker
from structsvm.estimators import model_path
from structsvm.metrics import evaluate
from structsvm.online.users import CascadeUser
from structsvm.queries import QueryData
from structsvm.readers import make_ranking

N_TRAIN = {"MQ2008": 200, "LightGBM's": 120, "NP2004": 25, "synthetic": 100}
CUTS, CS, SESSIONS, FOLDS = (None, 1, 2, 3), np.logspace(-1, 3, 5).tolist(), 20, 5


def made_of_clicks(data: QueryData, user: CascadeUser, rng: np.random.Generator) -> np.ndarray:
    """Return grades from 0 to 4: the quarters of the click rates of clicked documents."""
    varied = [x if x.std() > 0 else rng.normal(size=data.n_rows) for x in data.X.T]
    best = int(np.argmax([abs(np.corrcoef(x, data.y)[0, 1]) for x in varied]))
    rates = np.zeros(data.n_rows)
    for a, b in zip(data.offsets[:-1], data.offsets[1:], strict=True):
        x, grades = data.X[a:b, best], np.maximum(data.y[a:b], 0).astype(int)
        x = (x - x.mean()) / (x.std() + 1e-9)
        seen, clicked = np.zeros((2, b - a))
        for _ in range(SESSIONS):
            shown = np.argsort(-(x + rng.gumbel(size=b - a)), kind="stable")[:10]
            seen[shown] += 1
            clicked[shown] += user.click(grades[shown], rng)
        rates[a:b] = clicked / np.maximum(seen, 1)
    quarters = np.quantile(rates[rates > 0], [0.25, 0.5, 0.75])
    return np.where(rates > 0, 1.0 + np.digitize(rates, quarters), 0.0)


def ndcg(model: StructuralRanker, data: QueryData) -> np.ndarray:
    scores = model.predict(data.X, qid=data.qid)
    return evaluate("ndcg@10", np.maximum(data.y, 0), scores, qid=data.qid, ties="average").per_query


def values(train: QueryData, test: QueryData) -> np.ndarray:
    """Return NDCG@10 on the test queries for each cut, and for the chosen cut."""
    fold = np.arange(train.n_queries) % FOLDS
    held, tested = np.full((len(CUTS), len(CS), train.n_queries), np.nan), np.zeros((len(CUTS), len(CS)))

    def path(data: QueryData, cut: int | None) -> list[StructuralRanker]:
        labels = data.y if cut is None else (data.y >= cut).astype(float)
        return list(model_path(StructuralRanker("ndcg@10"), data.X, labels, CS, qid=data.qid))

    for i, cut in enumerate(CUTS):
        for k in range(FOLDS):
            rest, part = train.select(fold != k), train.select(fold == k)
            held[i][:, fold == k] = [ndcg(model, part) for model in path(rest, cut)]
        tested[i] = [ndcg(model, test).mean() for model in path(train, cut)]
    means = np.nanmean(held, axis=2)
    each = tested[np.arange(len(CUTS)), means.argmax(axis=1)]
    return np.append(each, tested.ravel()[means.argmax()])


def main() -> None:
    run = Experiment("click_grades", __doc__, needs=["letor4_mq2008", "lightgbm_rank", "letor3_np2004_fold1"])
    warnings.simplefilter("ignore")
    sets = {name: data for name, data, _ in real(run) if name in N_TRAIN}
    sets["synthetic"] = make_ranking(400, 20, 10, grades=5, noise=1.0, random_state=1)
    rows = []
    for name, data in sets.items():
        grades = {2: 2, 3: 3}.get(int(data.y.max()) + 1, 5)
        for kind in ("navigational", "informational"):
            draws = []
            for draw in range(run.runs(1, 8)):
                rng = np.random.default_rng([run.seed, draw])
                order = rng.permutation(data.n_queries)
                train, test = (
                    data.select(np.sort(part))
                    for part in (order[: N_TRAIN[name]], order[N_TRAIN[name] :][:250])
                )
                y = made_of_clicks(train, CascadeUser.named(kind, grades), rng)
                train = QueryData(train.X, y, train.offsets, train.query_ids)
                draws.append(
                    run.once(lambda train=train, test=test: {"values": values(train, test)})["values"]
                )
            table = np.array(draws)
            gain = table[:, -1] - table[:, 0]
            rows.append(
                [
                    f"{name}, {kind}",
                    *(f"{v:.3f}" for v in table.mean(axis=0)),
                    f"{gain.mean():+.3f}",
                    f"{gain.min():+.3f} to {gain.max():+.3f}",
                ]
            )
            print(f"  {name}, {kind}: {run.cpu():.0f} CPU seconds", flush=True)
    run.section("NDCG@10 of the true grades")
    columns = ["data, users", "all grades", "cut 1", "cut 2", "cut 3", "chosen", "chosen - all", "draws"]
    run.table("values", columns, rows)
    run.save()


if __name__ == "__main__":
    main()
