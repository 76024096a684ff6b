"""Options, data, and results as JSON, Markdown and a plot, for all experiments."""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from structsvm.common.files import replacing

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT.parent / "shared" / "data"
MATRICES = "preference_matrices"
VERDICTS = ("agrees", "agrees in part", "differs", "other data", "cannot be run")
VERDICTS_HEADING = "## Verdicts"
WITHOUT_DATA = 3
"""Exit status of a script whose data sets are missing."""


class Experiment:
    """Command-line options, and a results page that grows section by section.

    Each section is printed when it is ready; :meth:`save` writes ``<name>.json``, ``<name>.md``, the plots, and
    ``figures.json`` with the verdicts passed to :meth:`verdict`. Slow computations go through :meth:`simulate` and
    :meth:`once`: after an interruption the same command resumes there.

    ``needs`` names the data folders that the script, or each named part, requires: if a folder is missing, a line names
    it and where to obtain it, and the exit status is ``WITHOUT_DATA``. If a folder in ``uses`` is missing, the script
    prints the same line and computes the rest, and ``record`` lists the folder under "missing".
    """

    def __init__(
        self,
        name: str,
        description: str,
        parts: Sequence[str] = (),
        *,
        needs: Sequence[str] | dict[str, Sequence[str]] = (),
        uses: Sequence[str] = (),
        judge: Callable[[Experiment], None] | None = None,
    ) -> None:
        parser = argparse.ArgumentParser(description=description.strip().splitlines()[0])
        parser.add_argument("--data", type=Path, default=DATA, help="folder of the data sets")
        parser.add_argument("--seed", type=int, default=0)
        parser.add_argument("--quick", action="store_true", help="smaller sizes, under two minutes")
        parser.add_argument(
            "--full",
            nargs="*",
            default=[],
            choices=parts,
            metavar="PART",
            help=f"as long as the papers [so without --quick]; with --quick only these: {', '.join(parts)}",
        )
        parser.add_argument(
            "--only",
            nargs="+",
            default=list(parts),
            choices=parts,
            metavar="PART",
            help="compute these parts and keep them for the page, without writing it",
        )
        parser.add_argument(
            "--keep", action="store_true", help="keep computed pieces, so that the next page only draws them"
        )
        if judge is not None:
            parser.add_argument(
                "--judge",
                action="store_true",
                help="write the verdicts of the existing results, compute nothing",
            )
        parser.add_argument("--runs", type=int, help="maximum runs of a simulation [as in the paper]")
        parser.add_argument("--jobs", type=int, default=1, help="threads (results do not depend on them)")
        parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / name)
        self.name, self.all_parts, self.judge = name, parts, judge
        self.options = parser.parse_args()
        self.data, self.seed, self.quick = self.options.data, self.options.seed, self.options.quick
        self.jobs = self.options.jobs
        judges = judge is not None and self.options.judge
        if isinstance(needs, dict):
            needs = [folder for part in self.options.only for folder in needs.get(part, ())]
        self.require(*(() if judges else needs))
        missing = [] if judges else self._missing(uses)
        self.started, self.started_cpu = time.perf_counter(), time.process_time()
        self.text = [
            f"# {description.strip().splitlines()[0]}",
            f"`python experiments/{name}.py {' '.join(self._chosen())}`",
        ]
        self.title = "all"
        self.n_pieces: Counter[str] = Counter()  # by part, which may be begun, left and resumed
        self.kept_cpu = 0.0  # seconds of the pieces that an earlier command computed
        self.told_cpu = self.cpu()
        self.verdicts: dict[str, dict[str, Any]] = {}
        self.record: dict[str, Any] = {
            "name": name,
            "quick": self.quick,
            "full": self.options.full,
            "seed": self.seed,
            "runs": self.options.runs,
            "commit": commit(),
            "parts": {},
        }
        if missing:
            self.record["missing"] = missing
        self.figures: list[tuple[str, Any]] = []

    def _chosen(self) -> list[str]:
        """Return the options that change results."""
        full = [f"--full {' '.join(self.options.full)}"] if self.quick and self.options.full else []
        runs = [] if self.options.runs is None else [f"--runs {self.options.runs}"]
        return ["--quick"] * self.quick + full + runs + [f"--seed {self.seed}"]

    def _missing(self, folders: Sequence[str]) -> list[str]:
        """Return the folders missing from the data, and print on standard error where to obtain them."""
        missing = [folder for folder in folders if not (self.data / folder).is_dir()]
        for folder in missing:
            print(
                f"{self.name}: {folder} is not in {self.data}: {source(folder)}; see data/README.md",
                file=sys.stderr,
            )
        return missing

    def require(self, *folders: str) -> None:
        """End the script if data folders are missing, with one line for each."""
        if self._missing(folders):
            sys.exit(WITHOUT_DATA)

    def other_folds(self, *instead_of: str) -> Any:
        """Return the folds of the LETOR data that ``--data`` names instead of the folders of a script."""
        from structsvm.cli.studies.folds import find_folds

        try:
            return find_folds(self.data, random_state=self.seed)
        except (FileNotFoundError, ValueError):
            self.require(*instead_of)
            raise

    def part(self, name: str) -> bool:
        """Begin the named part, quick or full according to the options; return whether it is to be computed."""
        self.quick = self.options.quick and name not in self.options.full
        self._close_part()
        self.title = name
        return name in self.options.only

    def _close_part(self) -> None:
        """Record the options and the cost of the current part."""
        if self.title != "all" or not self.all_parts:
            before = self.record["parts"].get(self.title, {"cpu seconds": 0.0})  # a part may be resumed
            self.record["parts"][self.title] = {
                "quick": self.options.quick and self.title not in self.options.full,
                "cpu seconds": round(before["cpu seconds"] + self.cpu() - self.told_cpu, 1),
            }
        self.told_cpu = self.cpu()

    def runs(self, quick: int, full: int) -> int:
        """Return the number of runs, given the numbers for the quick and the full form."""
        n = quick if self.quick else full
        return n if self.options.runs is None else min(n, self.options.runs)

    def cpu(self) -> float:
        """Return the processor seconds so far, including those of cached pieces."""
        return time.process_time() - self.started_cpu + self.kept_cpu

    @property
    def pieces(self) -> Path:
        """Return the folder with the finished pieces of the current part."""
        runs = "" if self.options.runs is None else f"-runs{self.options.runs}"
        form = f"{'quick' if self.quick else 'full'}{runs}-seed{self.seed}"
        return self.options.out / "parts" / f"{self.title}-{form}"

    def _piece(self) -> Path:
        self.pieces.mkdir(parents=True, exist_ok=True)
        self.n_pieces[self.title] += 1
        return self.pieces / f"{self.n_pieces[self.title]}.npz"

    @contextmanager
    def _counted(self, piece: Path) -> Iterator[None]:
        """Add up the processor time of a piece over all commands that computed parts of it."""
        file = piece.with_suffix(".cpu")
        before = float(file.read_text()) if file.exists() else 0.0
        self.kept_cpu += before
        start = time.process_time()
        try:
            yield
        finally:
            file.write_text(f"{before + time.process_time() - start:.3f}")

    def simulate(self, bandit: str, world: Any, *, seed: int | None = None, **options: Any) -> Any:
        """Call ``structsvm.online.simulate`` with the seed of the experiment; finished runs are cached."""
        from structsvm.online import simulate

        piece = self._piece()
        options = {"n_jobs": self.jobs, "checkpoint": piece, **options}
        with self._counted(piece):
            return simulate(bandit, world, seed=self.seed if seed is None else seed, **options)

    def once(self, compute: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return arrays by name, computed now or cached by an interrupted command."""
        path = self._piece()
        with self._counted(path):
            if not path.exists():
                with replacing(path) as file:
                    np.savez(file, **compute())
        with np.load(path) as kept:
            return dict(kept)

    def verdict(
        self, figures: str, *, paper: str, part: str | None = None, ours: str, length: tuple[str, str], verdict: str,
        reason: str, brief: str | None = None,
    ) -> None:  # fmt: skip
        """Add a row to the index for a table or figure, or for several that go together ("Figure 3, Figure 5").

        Parameters
        ----------
        figures : str
            As named in ``papers.toml``.
        paper : str
            Key of the paper in that file.
        part : str, optional
            The part that computed it; by default the current part.
        ours, reason : str
            The measured result compared with the paper's; and the reason for a difference, or the extent of the
            agreement.
        length : (str, str)
            Length of our runs and of the paper's runs.
        verdict : {"agrees", "agrees in part", "differs", "other data", "cannot be run"}
            "other data": the paper's data are not public, and the substitute cannot decide whether the result holds.
        brief : str, optional
            Text for the index, at most 40 words; by default ``ours`` and ``reason`` if they are short, otherwise the
            first sentences of ``reason``. The page has ``ours`` and ``reason`` in full.
        """
        if verdict not in VERDICTS:
            raise ValueError(f"verdict: expected one of {', '.join(VERDICTS)}, got {verdict!r}")
        row = {
            "part": self.title if part is None else part,
            "ours": ours,
            "our length": length[0],
            "paper length": length[1],
            "verdict": verdict,
            "reason": reason,
        } | ({} if brief is None else {"brief": brief})
        for figure in figures.split(", "):
            self.verdicts[f"{paper}: {figure}"] = row
        print(f"{figures}: {verdict}. {ours} {reason}", flush=True)

    def judged_again(self) -> bool:
        """With ``--judge``, write the verdicts of the existing results; return whether nothing else remains to be done.

        The function ``judge`` of the experiment reads ``record`` and calls :meth:`verdict`. Scripts without this
        function have no ``--judge``.
        """
        if self.judge is None or not self.options.judge:
            return False
        page = self.options.out / f"{self.name}.md"
        self.record = json.loads(page.with_suffix(".json").read_text())
        self.judge(self)
        text = page.read_text().partition(VERDICTS_HEADING)[0].rstrip()
        with replacing(page) as file:
            file.write(f"{text}\n\n{self._verdicts_text()}\n".encode())
        self._save_verdicts(text.split("\n\n")[1])
        return True

    def _verdicts_text(self) -> str:
        """Return the last section of the page: every verdict in full, once if several figures share it."""
        names: dict[int, list[str]] = {}
        rows = {id(row): row for row in self.verdicts.values()}
        for figure, row in self.verdicts.items():
            names.setdefault(id(row), []).append(figure.partition(": ")[2])
        said = (
            f"**{', '.join(names[key])}**: {row['verdict']}. {row['ours']} {row['reason']}"
            for key, row in rows.items()
        )
        return "\n\n".join((VERDICTS_HEADING, *said))

    def _save_verdicts(self, command: str) -> None:
        total = round(self.record.get("cpu_seconds") or 0.0, 1)
        parts, full = self.record.get("parts", {}), self.record.get("full") or ()
        for row in self.verdicts.values():
            of = parts.get(row["part"], {})
            row["quick form"] = of.get("quick", self.record["quick"] and row["part"] not in full)
            row["cpu seconds"] = of.get("cpu seconds", total)
        index = {"command": command.strip("`"), "cpu seconds": total, "figures": self.verdicts}
        with replacing(self.options.out / "figures.json") as file:
            file.write((json.dumps(index, indent=1) + "\n").encode())

    def say(self, text: str) -> None:
        """Add a paragraph to the page."""
        print(text, flush=True)
        self.text.append(text)

    def section(self, title: str) -> None:
        seconds = time.perf_counter() - self.started
        print(f"\n## {title}  [{seconds:.0f} s]", flush=True)
        self.text.append(f"## {title}")

    def table(self, key: str, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Add a table, also as records in the JSON file under ``key``."""
        cells = [[_cell(value) for value in row] for row in rows]
        widths = [max(len(c), *(len(row[i]) for row in cells)) for i, c in enumerate(columns)]
        lines = [" | ".join(c.ljust(w) for c, w in zip(columns, widths, strict=True))]
        lines.append(" | ".join("-" * w for w in widths))
        lines += [" | ".join(c.rjust(w) for c, w in zip(row, widths, strict=True)) for row in cells]
        block = "\n".join(f"| {line} |" for line in lines)
        print(block, flush=True)
        self.text.append(block)
        self.record[key] = [dict(zip(columns, map(_plain, row), strict=True)) for row in rows]

    def plot(self, title: str, draw: Callable[[Any], None]) -> None:
        """Add a panel to the plot; ``draw`` is called with the axes."""
        self.figures.append((title, draw))

    def save(self) -> None:
        folder = self.options.out
        if self.options.only != list(self.all_parts):
            print(f"no page: only {', '.join(self.options.only)} computed; kept in {folder / 'parts'}")
            return
        folder.mkdir(parents=True, exist_ok=True)
        seconds = time.perf_counter() - self.started
        self._close_part()
        self.record["cpu_seconds"] = round(self.cpu(), 1)
        made = (
            f"{self.record['cpu_seconds']:.0f} seconds of processor time, at commit {self.record['commit']}."
        )
        self.text.insert(2, made)
        if self.figures and self._draw(folder / f"{self.name}.png"):
            self.text.append(f"![Plots]({self.name}.png)")
        if self.verdicts:
            self.text.append(self._verdicts_text())
        record = json.dumps(self.record, indent=1, allow_nan=False) + "\n"
        for ending, text in ((".md", "\n\n".join(self.text) + "\n"), (".json", record)):
            with replacing(folder / f"{self.name}{ending}") as file:
                file.write(text.encode())
        if self.verdicts:
            self._save_verdicts(self.text[1])
        if not self.options.keep:
            shutil.rmtree(folder / "parts", ignore_errors=True)
        print(f"\n{seconds:.0f} s; results in {folder}", flush=True)

    def _draw(self, path: Path) -> bool:
        try:
            import matplotlib
        except ImportError:
            print("no plots: pip install matplotlib", file=sys.stderr)
            return False
        matplotlib.use("Agg")
        from matplotlib import pyplot

        columns = min(3, len(self.figures))
        rows = -(-len(self.figures) // columns)
        figure, axes = pyplot.subplots(
            rows, columns, figsize=(4.2 * columns, 3.2 * rows), squeeze=False, layout="constrained"
        )
        for ax in axes.flat[len(self.figures) :]:
            ax.axis("off")
        for ax, (title, draw) in zip(axes.flat, self.figures, strict=False):
            draw(ax)
            ax.set_title(title, fontsize=9)
            ax.tick_params(labelsize=7)
            n_labels = len(ax.get_legend_handles_labels()[0])
            if n_labels:
                beside = {"loc": "center left", "bbox_to_anchor": (1, 0.5)} if n_labels > 10 else {}
                ax.legend(fontsize=6, **beside)
        from io import BytesIO

        from PIL import Image

        drawn = BytesIO()
        figure.savefig(drawn, dpi=72, format="png")
        # a few colours suffice for lines, and the file is smaller
        with replacing(path) as file:
            Image.open(drawn).convert("RGB").quantize(160).save(file, format="PNG", optimize=True)
        pyplot.close(figure)
        return True


def commit() -> str:
    """Return the commit of the code, with a "+" if the package or the scripts differ from it; "unknown" without git."""
    git = ["git", "-C", str(ROOT)]
    code = ["structsvm", "experiments/*.py"]
    try:
        name, changed = (
            subprocess.run([*git, *command], capture_output=True, text=True, check=True).stdout.strip()
            for command in (["rev-parse", "--short=8", "HEAD"], ["status", "--porcelain", "--", *code])
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return name + "+" * bool(changed)


def source(folder: str) -> str:
    """Return what a data folder contains and where to obtain it, according to ``data/README.md``."""
    for line in (ROOT / "data" / "README.md").read_text(encoding="utf-8").splitlines():
        if line.startswith(f"| `{folder}` |"):
            return re.sub("`", "", ", from ".join(cell.strip() for cell in line.split("|")[2:4]))
    raise KeyError(f"{folder}: expected a row in the table of data/README.md")


def curves(runs: dict[str, Any], *, log_y: bool = True, log_x: bool = True) -> Callable[[Any], None]:
    """Return a function that draws mean cumulative regret and the range of the runs for each named ``Simulation``."""

    def draw(ax: Any) -> None:
        for name, run in runs.items():
            late = run.times >= (run.times[-1] / 1e5 if log_x else 0)
            (line,) = ax.plot(run.times[late], run.mean()[late], label=name, lw=1)
            values = run.regret[:, late]
            ax.fill_between(
                run.times[late],
                np.maximum(values.min(axis=0), values.max() / 1e5 if log_y else 0),
                values.max(axis=0),
                color=line.get_color(),
                alpha=0.2,
                lw=0,
            )
        ax.set_xscale("log" if log_x else "linear")
        ax.set_yscale("log" if log_y else "linear")
        ax.set_xlabel("comparisons", fontsize=7)
        ax.set_ylabel("cumulative regret", fontsize=7)

    return draw


def matrix(data: Path, name: str) -> Any:
    """Return a preference matrix from the data folder."""
    path = data / MATRICES / name
    if name.endswith(".npz"):
        with np.load(path) as file:
            return file["PMat"]
    return np.load(path) if name.endswith(".npy") else np.loadtxt(path.with_name(f"{name}.gz"))


def mq2008(data: Path, parts: Sequence[str] = ("S1", "S2", "S3")) -> Any:
    """Return the named parts of MQ2008 as one QueryData; S1 to S3 are the training set of fold 1."""
    return together([data / "letor4_mq2008" / f"{part}.txt.gz" for part in parts])


def together(files: Sequence[Path]) -> Any:
    """Return LETOR files with disjoint queries as one QueryData."""
    from structsvm.queries import QueryData
    from structsvm.readers import read_letor

    read = [read_letor(file) for file in files]
    sizes = [np.diff(piece.offsets) for piece in read]
    queries = np.concatenate([piece.query_ids.astype(str) for piece in read])
    return QueryData.from_arrays(
        np.vstack([piece.X for piece in read]),
        np.concatenate([piece.y for piece in read]),
        np.repeat(queries, np.concatenate(sizes)),
    )


def mean_error(values: Any) -> tuple[float, float]:
    """Return the mean and its standard error."""
    array = np.asarray(values, dtype=np.float64)
    return float(array.mean()), float(array.std(ddof=1) / np.sqrt(len(array))) if len(array) > 1 else float(
        "nan"
    )


def _plain(value: Any) -> Any:
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float):
        return None if not np.isfinite(value) else float(f"{value:.6g}")
    return value


def _cell(value: Any) -> str:
    value = _plain(value)
    if value is None:
        return "–"
    if isinstance(value, float):
        return f"{value:.3f}" if abs(value) < 10 else f"{value:.0f}"
    return str(value)


def feature_matrix(run: Experiment, name: str, clicks: str, n_samples: int) -> Any:
    """Return estimated preferences between the feature rankers of "MQ2008" or "NP2004" (the proxy approach)."""
    from structsvm.online import rank_queries
    from structsvm.online.interleaving.compiled.comparisons import preference_matrix
    from structsvm.online.users import CascadeUser
    from structsvm.readers import read_letor

    if name == "MQ2008":
        data = mq2008(run.data)
    else:
        data = read_letor(run.data / "letor3_np2004_fold1" / "vali.txt.gz")
    ranked = rank_queries(data, random_state=run.seed)
    user = CascadeUser.named(clicks, int(ranked.grades.max()) + 1)
    return preference_matrix(ranked, user, n_samples, random_state=run.seed, n_jobs=run.jobs)


def alphabetical(n: int, first: int = 0) -> Any:
    """Return the arms 0 to n - 1, numbered from ``first``, in alphabetical order of the numbers (RCS, section 5)."""
    return np.array(sorted(range(n), key=lambda i: str(i + first)))


def first_with_winner(P: Any, k: int, order: Any) -> Any:
    """Return preferences of the first k arms of the order, replacing arms by later ones until one beats all others."""
    from structsvm.online.simulation.worlds import condorcet_winner

    for start in range(len(order) - k + 1):
        chosen = order[start : start + k]
        if condorcet_winner(P[np.ix_(chosen, chosen)]) is not None:
            return P[np.ix_(chosen, chosen)]
    raise ValueError(f"no {k} neighbours with a Condorcet winner")
