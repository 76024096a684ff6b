"""Which C a fold takes by ``selection="max"`` and ``"one_se"``, and what the model is then worth on test queries.

On MQ2008's five folds, a path over C is trained on the training part, C is chosen on the validation part, and MAP is
measured on the test part. If the measure hardly depends on C, the choice of ``"max"`` depends on rounding and on the
accuracy of the optimisation. So each fold is trained to several tolerances, and with its queries in several orders
(``order``), which changes the last digits of every sum, like another processor.
"""

import numpy as np
from _common import Experiment, mq2008

from structsvm import SVMMap
from structsvm.estimators.choosing_C import SELECTIONS, select_C
from structsvm.estimators.structural import model_path
from structsvm.metrics import evaluate

PARTS = ("S1", "S2", "S3", "S4", "S5")


def average_precisions(model, data):
    return evaluate("map", data.y, model.predict(data.X), qid=data.qid, convention="letor4_script").per_query


def chosen(run: Experiment, fold: int, tol: float, order: int, Cs) -> dict:
    """Return C and test MAP of each selection as plain numbers, which :meth:`Experiment.once` can cache."""
    turned = [PARTS[(fold + k) % 5] for k in range(5)]
    train, valid, test = (mq2008(run.data, parts) for parts in (turned[:3], turned[3:4], turned[4:]))
    if order:
        train = train.select(np.random.default_rng([run.seed, order]).permutation(train.n_queries))
    on_valid, on_test = [], []
    for model in model_path(SVMMap(tol=tol), train.X, train.y, Cs, qid=train.qid):
        on_valid.append(average_precisions(model, valid))
        on_test.append(float(average_precisions(model, test).mean()))
    values = np.array(on_valid).T
    answer = {}
    for selection in SELECTIONS:
        C = select_C(np.array(Cs), values, selection=selection)
        answer[selection] = [C, on_test[Cs.index(C)]]
    return answer


def main() -> None:
    run = Experiment("choice_of_C", __doc__, needs=["letor4_mq2008"])
    Cs = [float(f"{C:.6g}") for C in np.logspace(-2, 4, 13 if run.quick else 25)]
    settings = [(tol, 0) for tol in (3e-3, 1e-3, 3e-4, 1e-4)]
    settings += [(1e-3, order) for order in range(1, 3 if run.quick else 6)]
    found = {}
    for tol, order in settings:
        for fold in range(5):
            found[tol, order, fold] = chosen(run, fold, tol, order, Cs)
            print(f"  tol {tol:g}, order {order}, fold {fold + 1}", flush=True)
    run.section("Test MAP, and the C of each fold")
    run.say(
        f"{len(Cs)} values of C from {Cs[0]:g} to {Cs[-1]:g}; order 0 is that of the files, the others are shuffled."
    )
    rows = []
    for selection in SELECTIONS:
        for tol, order in settings:
            cells = [found[tol, order, fold][selection] for fold in range(5)]
            picked = " ".join(f"{np.log10(C):+.2f}" for C, _ in cells)
            rows.append(
                [selection, f"{tol:g}", order, f"{np.mean([value for _, value in cells]):.4f}", picked]
            )
    run.table("chosen", ["selection", "tol", "order", "test MAP", "log10 C of folds 1-5"], rows)
    run.section("How far the choice moves")
    rows = []
    for selection in SELECTIONS:
        for what, some in (
            ("tolerances", [s for s in settings if s[1] == 0]),
            ("orders of the queries", [s for s in settings if s[0] == 1e-3]),
        ):
            logs = np.array(
                [
                    [np.log10(found[tol, order, fold][selection][0]) for fold in range(5)]
                    for tol, order in some
                ]
            )
            means = [
                np.mean([found[tol, order, fold][selection][1] for fold in range(5)]) for tol, order in some
            ]
            moved = np.ptp(logs, axis=0)
            rows.append(
                [
                    selection,
                    what,
                    f"{moved.max():.2f}",
                    int((moved == 0).sum()),
                    f"{min(means):.4f}-{max(means):.4f}",
                ]
            )
    columns = ["selection", "over", "a fold's log10 C moves by up to", "folds (of 5) that stay", "test MAP"]
    run.table("moved", columns, rows)
    run.save()


if __name__ == "__main__":
    main()
