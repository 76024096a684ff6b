"""``structsvm bandit``: simulate how much it costs to find the best ranker by duels."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
import typer

from structsvm import online
from structsvm.cli import paths
from structsvm.cli.files import Table, by_name, load_ranker
from structsvm.cli.groups import Group
from structsvm.cli.options import AsJson, Jobs, Report, Seed, default_bandits
from structsvm.cli.terminal import INTERRUPTED, bar, emit, group, note, table_lines
from structsvm.common.array_files import Archive, Damaged
from structsvm.common.checks import BadInput, check_choice, check_whole, counted
from structsvm.common.files import plain_float, read_lines, shorten
from structsvm.common.machine import count_threads
from structsvm.common.tables.ids import NUMBER

if TYPE_CHECKING:
    from structsvm.online.simulation.play import Simulation


Players = dict[str, tuple[str, dict[str, Any]]]
"""Name and options of each bandit, by label."""


@dataclass(frozen=True)
class Letor(Group):
    """Options of a simulation on LETOR data: the rankers, the simulated users, and the regret of a ranker."""

    gap: Annotated[str, "LETOR: regret of an arm by its duels (pairs) or by mean NDCG@10 (ndcg)."] = "pairs"
    model: Annotated[
        list[Path] | None, "LETOR: a saved model as ranker instead of features; repeat for more."
    ] = None
    clicks: Annotated[str, "LETOR: simulated user: {users}."] = "navigational"
    interleaving: Annotated[str, "LETOR: probabilistic or team_draft."] = "probabilistic"
    samples: Annotated[int, "LETOR: number of interleavings per pair of rankers."] = 10_000
    live: Annotated[bool, "LETOR: interleave lists for every comparison (slow)."] = False

    @property
    def models(self) -> list[Path]:
        """The saved models; empty if features are the rankers."""
        return self.model or []

    def check(self) -> None:
        """Validate the options that do not depend on data."""
        check_choice("gap", self.gap, ("pairs", "ndcg"))
        check_choice("interleaving", self.interleaving, ("probabilistic", "team_draft"))
        check_whole("samples", self.samples)


def simulate(
    world: Annotated[
        Path,
        "A preference matrix (.npy, .npz, text), or LETOR data (text, a table, a store) whose "
        "features are the rankers.",
    ],
    algorithms: Annotated[
        str | None,
        "Names separated by commas: {bandits}; options as in rucb:alpha=0.6. (default: {compiled_bandits})",
    ] = None,
    horizon: Annotated[float, "Number of comparisons per run."] = 1e5,
    runs: Annotated[int, "Number of runs per algorithm."] = 10,
    regret: Annotated[str, "Regret of a duel: average, sum or minimum (weak) of its arms' gaps."] = "average",
    seed: Annotated[Seed, "Seed of all random numbers; the same seed gives the same result."] = 0,
    jobs: Jobs = 1,
    report: Report = None,
    as_json: AsJson = False,
    checkpoint: Annotated[Path | None, "Folder for finished runs; the same command resumes from it."] = None,
    *,
    letor: Letor,
    table: Table,
) -> None:
    """Simulate dueling bandits on a set of rankers, and compare their regret.

    On LETOR data the probabilities of winning are estimated first, by interleaving each pair of features; the outcomes
    of duels are then drawn from these probabilities, unless --live is given. Progress is shown on stderr.
    """
    from structsvm.online.simulation.runs import REGRETS

    paths.check_outputs({"--report": report}, list(map(paths.check_input, (world, *letor.models))))
    if checkpoint is not None:
        paths.check_kept(checkpoint)
    n_steps = check_whole("horizon", horizon, floats=True)
    check_whole("runs", runs)
    check_choice("regret", regret, REGRETS)
    players = _players(default_bandits() if algorithms is None else algorithms, regret, n_steps)

    names: list[str] | None = None
    if _is_letor(world):
        simulated, matrix, names, facts = _letor_world(world, letor, seed=seed, jobs=jobs, table=table)
    elif letor.live or letor.models:
        raise BadInput(
            "--live" if letor.live else "--model",
            "requires LETOR data",
            "a matrix has no rankings to interleave",
        )
    else:
        simulated = _matrix_world(world)
        matrix = simulated.preferences
        facts = [("best arm", str(int(simulated.winners[0])))]
    facts += _assumptions(matrix)
    if checkpoint is not None:
        checkpoint.mkdir(exist_ok=True)
    settings = {"horizon": n_steps, "n_runs": runs, "seed": seed, "regret": regret, "n_jobs": jobs}
    try:
        results = _play(players, simulated, settings, checkpoint)
    except KeyboardInterrupt:
        if checkpoint is None:
            raise
        note(f"interrupted; the same command with --checkpoint {checkpoint} continues from here")
        raise typer.Exit(INTERRUPTED) from None

    from structsvm.online.simulation.page import headline, leaders, results_table, simulation_page

    if report is not None:
        paths.write_text(
            report,
            simulation_page(
                results, regret=regret, world=world.name, gaps=simulated.gaps, facts=facts, names=names
            ),
        )
    record = {
        "world": world,
        "n_arms": simulated.n_arms,
        "best": simulated.winners,
        **{name: value for name, value in settings.items() if name != "n_jobs"},
        "least": leaders(results),
        "algorithms": {name: run.to_dict() for name, run in results.items()},
    }
    columns, rows, _ = results_table(results)
    emit([*table_lines(columns, rows), headline(results)], record, as_json, report)


app = group("Simulate dueling bandits, which find the best ranker while they serve users.", simulate)


def _players(text: str, regret: str, horizon: int) -> Players:
    """Return the name and options of each bandit by label; raise for misspellings before any work starts."""
    from structsvm.online.bandits import make

    players: Players = {}
    for label in filter(None, (part.strip() for part in text.split(","))):
        name, *settings = label.split(":")
        options: dict[str, Any] = {}
        for setting in settings:
            key, _, value = setting.partition("=")
            try:
                options[key] = int(value) if value.lstrip("+-").isdigit() else float(value)
            except ValueError:
                raise BadInput(
                    f"--algorithms {label}", f"expected options as in name:alpha=0.6, got {setting!r}"
                ) from None
        try:
            made = make(name, 4, horizon, **options)
        except ValueError as error:
            raise BadInput(f"--algorithms {label}", f"{error}") from error
        if regret == "sum" and getattr(made, "compares_sets", False):
            raise BadInput(
                "--regret sum",
                f"requires algorithms that compare pairs, but {name} compares sets",
                "use average or weak, or leave it out",
            )
        if label in players:
            raise BadInput("--algorithms", f"expected each name once, got {label!r} twice")
        players[label] = name, options
    if not players:
        raise BadInput("--algorithms", "expected at least one name, got none")
    return players


def _matrix_world(path: Path) -> Any:
    from structsvm.online.simulation.worlds import NoWinner

    matrix = _read_matrix(path)
    try:
        return online.PreferenceMatrix(matrix)
    except NoWinner as error:
        raise BadInput(
            path,
            "expected a Condorcet winner (an arm that beats every other), got none: there is nothing to measure "
            "regret against",
        ) from error
    except ValueError as error:
        raise BadInput(path, f"{error}") from error


def _letor_world(
    path: Path, letor: Letor, *, seed: int, jobs: int, table: Table
) -> tuple[Any, Any, list[str], list[tuple[str, str]]]:
    """Return the world, its estimated matrix, the names of the arms, and the facts to report."""
    from structsvm.online.simulation.letor_world import ndcg_table
    from structsvm.online.simulation.worlds import NoWinner

    letor.check()
    method: Any = letor.interleaving
    rows, rankers, names = _rankers(path, letor.models, table)
    ranked = online.rank_queries(rows, rankers, random_state=seed)
    quality = ndcg_table(ranked).mean(axis=1)
    note(f"estimating {len(names) * (len(names) - 1) // 2} pairs by {letor.samples} interleavings each")
    try:
        with bar("{task.description}", "{task.percentage:3.0f}%") as shown:
            task = shown.add_task("estimating", total=1.0)
            alive = online.InterleavedRankers(
                ranked,
                letor.clicks,
                method=method,
                n_samples=letor.samples,
                random_state=seed,
                n_jobs=count_threads(jobs),
                utilities=quality if letor.gap == "ndcg" else None,
                callback=lambda share: shown.update(task, completed=share),
            )
    except NoWinner as error:
        raise BadInput(
            path,
            f"expected a ranker that beats every other, got none among {len(names)} after {letor.samples} "
            "interleavings per pair",
            "use --gap ndcg, or try more --samples",
        ) from error
    leader = int(alive.winners[0])
    flips = "live" if letor.live else "coin flips"
    facts = [
        ("data", counted(query=rows.n_queries, document=rows.n_rows, feature=rows.n_features)),
        ("comparisons", f"{method} interleaving, {letor.clicks} user, {flips}"),
        ("best arm", f"{names[leader]}, NDCG@10 {quality[leader]:.4f} (largest {quality.max():.4f})"),
    ]
    return alive if letor.live else alive.proxy(), alive.matrix, names, facts


def _rankers(path: Path, models: list[Path], table: Table) -> tuple[Any, list[Any], list[str]]:
    """Return the data, the rankers (the models, or a ranker for each feature that is not constant) and their names."""
    if models:
        loaded = list(map(load_ranker, models))
        widths = {str(model): ranker.n_features_in_ for model, ranker in zip(models, loaded, strict=True)}
        if len(set(widths.values())) > 1:
            found = ", ".join(f"{name} with {n}" for name, n in widths.items())
            raise BadInput("--model", f"expected models trained on the same features, got {found}")
        rows = table.read(path, n_features=loaded[0].n_features_in_)
        rows = by_name(rows, getattr(loaded[0], "feature_names_in_", None), path)
        return rows, loaded, [model.stem for model in models]
    from structsvm.online.simulation.letor_world import informative_features

    rows = table.read(path)
    features = informative_features(rows).tolist()
    if not features:
        raise BadInput(path, "expected features that vary within a query, got only constant ones")
    if rows.feature_names is not None:
        return rows, features, [rows.feature_names[k] for k in features]
    return rows, features, [f"feature {k + 1}" for k in features]


def _assumptions(matrix: Any) -> list[tuple[str, str]]:
    known = online.assumption_report(matrix)
    gap, strong, triangle = known.smallest_gap, known.strong_transitivity, known.triangle_inequality
    facts = {
        "arms": str(known.n_arms),
        "Condorcet winner": "no" if known.condorcet is None else "yes",
        "smallest margin of the winner": None if gap is None else f"{gap:.4g}",
        "total order": "no" if known.total_order is None else "yes",
        "arms tied with another arm": f"{100 * known.uninformative:.0f}% (mergeRUCB: at most a third)",
        "triples, strongly transitive": None if strong is None else f"{100 * strong:.0f}%",
        "triples, triangle inequality": None if triangle is None else f"{100 * triangle:.0f}%",
    }
    return [(name, text) for name, text in facts.items() if text is not None]


def _is_letor(path: Path) -> bool:
    """Return whether a path is a store, a table or LETOR text.

    A ``.csv`` file is a table if its first line holds column names, otherwise a matrix.
    """
    source = paths.source_at(path)
    if source.kind in ("store", "folder"):
        return True
    if source.kind in ("csv", "parquet"):
        from structsvm.readers.categories import columns_of

        return not all(map(NUMBER.fullmatch, columns_of(source)))
    from structsvm.readers.describing import first_line, kind_of

    return path.suffix not in (".npy", ".npz") and kind_of(first_line(path)) == "letor"


def _read_matrix(path: Path) -> Any:
    if path.suffix in (".npy", ".npz"):
        try:
            if path.suffix == ".npz":
                with Archive(path) as archive:
                    if len(archive.names) != 1:
                        raise Damaged(f"the arrays {', '.join(sorted(archive.names)) or 'none'}")
                    return archive.array(*archive.names)
            # a memory map cannot be larger than its file, whatever shape the header states
            return np.array(np.lib.format.open_memmap(path, mode="r"))
        except ValueError as error:
            raise BadInput(
                path, f"expected one array saved by numpy.save or numpy.savez, got another file ({error})"
            ) from None
    table = []
    for number, line in read_lines(path):
        cells = line.split("#")[0].replace(",", " ").split()
        if not cells:
            continue
        try:
            table.append(list(map(plain_float, cells)))
        except ValueError:
            raise BadInput(
                f"{path}:{number}", f"expected the numbers of a row of the matrix, got {shorten(line)}"
            ) from None
        if len(table[-1]) != len(table[0]):
            raise BadInput(
                f"{path}:{number}", f"expected {len(table[0])} numbers as in the first row, got {len(cells)}"
            )
    return np.array(table)


def _play(
    players: Players, simulated: Any, settings: Any, checkpoint: Path | None
) -> dict[str, "Simulation"]:
    results = {}
    with bar("{task.description}", "{task.percentage:3.0f}%") as shown:
        for label, (name, options) in players.items():
            task = shown.add_task(label, total=settings["n_runs"])

            def tell(progress: Any, task: Any = task) -> None:
                # only the uncompiled bandits report progress within a run
                part = progress.step / settings["horizon"] if progress.step < settings["horizon"] else 0.0
                shown.update(task, completed=progress.n_done + part)

            path = None if checkpoint is None else checkpoint / f"{label.replace(':', '_')}.npz"
            results[label] = online.simulate(
                name, simulated, options=options, checkpoint=path, callback=tell, **settings
            )
            if shown.disable:
                note(f"{label}: {settings['n_runs']} runs of {settings['horizon']} comparisons done")
    return results
