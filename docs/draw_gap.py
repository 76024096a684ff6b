"""Draw ``_static/gap.svg``, the figure of the README: ``python docs/draw_gap.py``."""

from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from structsvm import SVMNDCG, PairwiseSVM, SVMMap, plots
from structsvm.readers import make_ranking


def main() -> None:
    data = make_ranking(2000, 100, 50, noise=0.5, random_state=0)
    rankers = {
        "SVMMap": SVMMap(C=10),
        "SVMNDCG": SVMNDCG(C=10),
        "PairwiseSVM": PairwiseSVM("squared_hinge", C=10),
    }
    fits = {
        name: ranker.set_params(tol=1e-6).fit(data.X, data.y, qid=data.qid)
        for name, ranker in rankers.items()
    }
    figure = Figure(figsize=(7.2, 3.0), layout="constrained")
    axes = plots.gap(fits, ax=figure.subplots())
    axes.set_title(
        "200,000 rows, 50 features: how far the objective is from the optimum, at most", fontsize=10
    )
    with mpl.rc_context({"svg.hashsalt": "structsvm"}):  # the same bytes each time
        figure.savefig(Path(__file__).parent / "_static" / "gap.svg", metadata={"Date": None})


if __name__ == "__main__":
    main()
