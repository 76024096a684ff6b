"""Mutation testing: small faults are put into the package, one at a time, and the tests must notice.

``python experiments/mutation.py structsvm/qp structsvm/oracles --n 100 --work /var/tmp/mutants``

Mutants are sampled with ``--seed`` from the given files. Each mutant runs in a copy of the tree against the tests that
cover its file (``TESTS``, the closest tests first, the doctests of the file last), and the outcome is appended to
``results/mutation/mutants.jsonl``, so that an interrupted command resumes. ``--again`` repeats the survivors in that
file, after tests were written for them; ``--table`` only prints the recorded outcomes. Survivors that no test can
distinguish from the original are listed by hand, with the reason, in ``mutation_equivalent.toml``.
"""

from __future__ import annotations

import argparse
import ast
import copy
import importlib
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
import tomllib
import traceback
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
RESULTS = Path(__file__).parent / "results" / "mutation"
EQUIVALENT = Path(__file__).with_name("mutation_equivalent.toml")
COPIED = (
    "structsvm",
    "tests",
    "experiments",
    "data",
    "docs",
    "conftest.py",
    "pyproject.toml",
    "README.md",
    "Makefile",
)

TESTS: dict[str, tuple[str, ...]] = {
    "structsvm/qp/active_set.py": ("tests/qp",),
    "structsvm/qp/": ("tests/qp", "tests/trainers/test_every_trainer.py"),
    "structsvm/oracles/adapter.py": ("tests/oracles/test_adapter.py",),
    "structsvm/oracles/average_precision.py": (
        "tests/oracles/test_average_precision.py",
        "tests/oracles/test_every_oracle.py",
        "tests/oracles/test_sorting.py",
        "tests/trainers/test_every_trainer.py",
    ),
    "structsvm/oracles/coverage.py": ("tests/oracles/test_coverage.py", "tests/estimators/test_diversity.py"),
    "structsvm/oracles/selection.py": (
        "tests/oracles/test_coverage.py",
        "tests/estimators/test_diversity.py",
        "tests/estimators/test_diverse_ranker.py",
    ),
    **dict.fromkeys(
        ("structsvm/estimators/diverse_ranker.py", "structsvm/features/greedy_steps.py"),
        ("tests/estimators/test_diverse_ranker.py", "tests/estimators/test_baselines.py"),
    ),
    **dict.fromkeys(
        ("structsvm/estimators/hybrid.py", "structsvm/features/hybrid.py", "structsvm/export/hybrid.py"),
        ("tests/estimators/test_hybrid.py", "tests/cli/test_hybrid_and_explain.py"),
    ),
    **dict.fromkeys(
        ("structsvm/estimators/fusion.py", "structsvm/features/fusion.py"),
        ("tests/features/test_fusion.py", "tests/cli/test_fuse.py"),
    ),
    "structsvm/export/": ("tests/export", "tests/estimators/test_hybrid.py"),
    **dict.fromkeys(
        ("structsvm/metrics/estimates.py", "structsvm/metrics/intervals.py"),
        ("tests/estimators/test_estimate.py", "tests/metrics/test_significance.py"),
    ),
    "structsvm/metrics/": ("tests/metrics",),
    "structsvm/online/arena/reading.py": (
        "tests/online/arena/test_reading.py",
        "tests/readers/test_bad_lines.py",
    ),
    "structsvm/online/arena/": ("tests/online/arena",),
    "structsvm/online/bandits/best_arm.py": (
        "tests/online/arena/test_arena.py",
        "tests/online/bandits/test_policies.py",
    ),
    "structsvm/common/tables/": (
        "tests/readers/test_tables.py",
        "tests/readers/test_roles_of_columns.py",
        "tests/clicks/test_readers_of_clicks.py",
    ),
    "structsvm/clicks/tables.py": (
        "tests/clicks/test_readers_of_clicks.py",
        "tests/readers/test_roles_of_columns.py",
        "tests/cli/test_clicks_command.py",
    ),
    **dict.fromkeys(
        ("structsvm/readers/tables.py", "structsvm/readers/column_names.py"),
        (
            "tests/readers/test_tables.py",
            "tests/readers/test_roles_of_columns.py",
            "tests/cli/test_tables_and_runs.py",
        ),
    ),
    "structsvm/oracles/ordinal.py": (
        "tests/oracles/test_ordinal.py",
        "tests/oracles/test_every_oracle.py",
        "tests/trainers/test_ordinal.py",
        "tests/estimators/test_ordinal.py",
    ),
    "structsvm/oracles/pairs.py": (
        "tests/oracles/test_pairs.py",
        "tests/oracles/test_every_oracle.py",
        "tests/oracles/test_sorting.py",
        "tests/trainers/test_every_trainer.py",
    ),
    "structsvm/oracles/log_rank.py": (
        "tests/oracles/test_log_rank.py",
        "tests/oracles/test_every_oracle.py",
        "tests/trainers/test_newton.py",
    ),
    "structsvm/oracles/squared_pairs.py": (
        "tests/oracles/test_squared_pairs.py",
        "tests/oracles/test_every_oracle.py",
        "tests/trainers/test_newton.py",
    ),
    "structsvm/oracles/": ("tests/estimators/test_structural.py", "tests/trainers/test_every_trainer.py"),
    "structsvm/trainers/plane_cache.py": (
        "tests/trainers/test_plane_cache.py",
        "tests/trainers/test_every_trainer.py",
    ),
    **dict.fromkeys(
        (
            "structsvm/trainers/frank_wolfe.py",
            "structsvm/trainers/path.py",
            "structsvm/trainers/block_dual.py",
        ),
        (
            "tests/trainers/test_certificates.py",
            "tests/trainers/test_every_trainer.py",
            "tests/trainers/test_newton_on_planes.py",
        ),
    ),
    **dict.fromkeys(
        ("structsvm/trainers/forces.py", "structsvm/trainers/lambdarank.py"),
        ("tests/trainers/test_lambdarank.py", "tests/estimators/test_lambdarank.py"),
    ),
    "structsvm/oracles/weighted.py": (
        "tests/oracles/test_weighted_pairs.py",
        "tests/clicks/test_losses_of_clicks.py",
    ),
    **dict.fromkeys(
        ("structsvm/trainers/newton_on_planes.py", "structsvm/trainers/segment_search.py"),
        ("tests/trainers/test_newton_on_planes.py", "tests/trainers/test_every_trainer.py"),
    ),
    "structsvm/trainers/n_slack.py": ("tests/trainers/test_n_slack.py", "tests/trainers/test_certificate.py"),
    "structsvm/trainers/newton.py": ("tests/trainers/test_newton.py", "tests/estimators/test_pairwise.py"),
    "structsvm/trainers/ordinal.py": (
        "tests/trainers/test_ordinal.py",
        "tests/estimators/test_ordinal.py",
    ),
    **dict.fromkeys(
        ("structsvm/trainers/pair_index.py", "structsvm/trainers/pairwise_descent.py"),
        ("tests/trainers/test_pairwise_descent.py", "tests/estimators/test_pairwise_sgd.py"),
    ),
    "structsvm/trainers/rows.py": ("tests/trainers/test_rows.py", "tests/trainers/test_every_trainer.py"),
    "structsvm/trainers/certificate.py": (
        "tests/trainers/test_certificate.py",
        "tests/trainers/test_every_trainer.py",
    ),
    "structsvm/trainers/": (
        "tests/trainers/test_every_trainer.py",
        "tests/trainers/test_certificate.py",
        "tests/trainers/test_newton.py",
        "tests/trainers/test_n_slack.py",
        "tests/estimators/test_structural.py",
    ),
    "structsvm/online/clicklog.py": (
        "tests/online/test_clicklog.py",
        "tests/readers/test_bad_lines.py",
        "tests/online/statistics/test_duels.py",
        "tests/online/statistics/test_analysis.py",
    ),
    "structsvm/online/evidence/always_valid.py": (
        "tests/online/evidence/test_always_valid.py",
        "tests/online/statistics/test_analysis.py",
    ),
    "structsvm/online/statistics/analysis.py": (
        "tests/online/statistics/test_analysis.py",
        "tests/online/statistics/test_clusters.py",
    ),
    "structsvm/online/statistics/credited_log.py": (
        "tests/online/statistics/test_credited_log.py",
        "tests/online/statistics/test_analysis.py",
        "tests/online/statistics/test_clusters.py",
    ),
    "structsvm/online/interleaving/crediting.py": (
        "tests/online/statistics/test_credited_log.py",
        "tests/online/statistics/test_running.py",
        "tests/online/statistics/test_analysis.py",
    ),
    "structsvm/online/statistics/click_weights.py": (
        "tests/online/statistics/test_click_weights.py",
        "tests/online/statistics/test_statistics.py",
    ),
    "structsvm/online/statistics/": (
        "tests/online/statistics/test_statistics.py",
        "tests/online/statistics/test_analysis.py",
        "tests/online/evidence/test_always_valid.py",
        "tests/online/statistics/test_click_weights.py",
        "tests/online/test_clicklog.py",
    ),
    "structsvm/readers/candidate_sets.py": ("tests/readers/test_candidate_sets.py",),
    "structsvm/readers/run_features.py": ("tests/readers/test_run_features.py",),
    **{
        f"structsvm/readers/{file}.py": ("tests/readers/test_store.py", "tests/common/test_files.py")
        for file in ("store", "store_place")
    },
    "structsvm/readers/conversion.py": ("tests/readers/test_store.py",),
    "structsvm/readers/synthetic.py": ("tests/readers/test_synthetic.py",),
    **{f"structsvm/readers/{file}.py": ("tests/readers/test_trec.py",) for file in ("trec", "runs", "qrels")},
    "structsvm/readers/": ("tests/readers/test_letor.py", "tests/readers/test_store.py"),
    "structsvm/online/bandits/": ("tests/online/bandits",),
}
"""Map from a file or folder to the tests that cover it; the longest matching name applies."""

_COMPARISONS = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
_ARITHMETIC = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
}

# pytest warns that it cannot rewrite assertions of libraries that were imported before it started
_NO_TESTS = 5  # exit code of pytest for a file without doctests
_QUIET = ("-W", "ignore::pytest.PytestAssertRewriteWarning")


Key = tuple[str, str, str, str, int]


@dataclass(frozen=True)
class Mutant:
    """A fault: these bytes of the file are replaced.

    Attributes
    ----------
    path : str
        Path of the file, relative to the root of the project.
    line : int
    operator : str
        Kind of the fault.
    start, end : int
        Byte offsets of the replaced part of the file.
    new : str
        The replacement.
    before, after : str
        The changed lines, before and after, without indentation.
    nth : int
        Number of earlier mutants of the file with the same kind and lines.
    """

    path: str
    line: int
    operator: str
    start: int
    end: int
    new: str
    before: str
    after: str
    nth: int = 0

    @property
    def key(self) -> Key:
        """Return an identifier of the mutant that does not change if lines are added elsewhere in the file."""
        return self.path, self.operator, self.before, self.after, self.nth


def mutants_of(path: str, source: bytes) -> list[Mutant]:
    """Return all mutants of a file, in text order."""
    starts = [0]
    for text in source.split(b"\n"):
        starts.append(starts[-1] + len(text) + 1)
    found = []
    for node, operator, new in _faults(ast.parse(source)):
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[operator, index]
        before, after = _changed_line(source, start, end, new)
        if before != after:
            found.append(Mutant(path, node.lineno, operator, start, end, new, before, after))
    # different operators can produce the same fault
    found = sorted(
        {(m.start, m.end, m.new): m for m in found}.values(), key=lambda m: (m.start, m.end, m.new)
    )
    seen: Counter[Key] = Counter()
    numbered = []
    for mutant in found:
        numbered.append(replace(mutant, nth=seen[mutant.key]))
        seen[mutant.key] += 1
    return numbered


def _changed_line(source: bytes, start: int, end: int, new: str) -> tuple[str, str]:
    first = source.rfind(b"\n", 0, start) + 1
    last = source.find(b"\n", end)
    old = source[first : last if last >= 0 else None].decode()
    mutated = source[first:start].decode() + new + source[end : last if last >= 0 else None].decode()
    return " ".join(old.split()), " ".join(mutated.split())


def _faults(tree: ast.Module) -> Iterator[tuple[ast.expr | ast.stmt, str, str]]:
    """Yield (node to replace, kind of fault, replacement)."""
    for node in _code(tree):
        if isinstance(node, ast.Compare):
            for k, operator in enumerate(node.ops):
                if type(operator) in _COMPARISONS:
                    other = copy.deepcopy(node)
                    other.ops[k] = _COMPARISONS[type(operator)]()
                    yield node, "comparison", f"({ast.unparse(other)})"
        elif isinstance(node, (ast.BinOp, ast.AugAssign)) and type(node.op) in _ARITHMETIC:
            changed = copy.deepcopy(node)
            changed.op = _ARITHMETIC[type(node.op)]()
            text = ast.unparse(changed)
            yield node, "arithmetic", f"({text})" if isinstance(node, ast.BinOp) else text
        elif isinstance(node, ast.Constant) and isinstance(node.value, (bool, int, float)):
            value = node.value
            if isinstance(value, bool):
                yield node, "constant", repr(not value)
            elif isinstance(value, int):
                yield node, "constant", repr(value + 1)
                if value > 0:
                    yield node, "constant", repr(value - 1)
            elif value == value and value not in (float("inf"), float("-inf")):
                yield node, "constant", repr(2.0 * value if value else 1.0)
        elif isinstance(node, ast.BoolOp):
            either = copy.deepcopy(node)
            either.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
            yield node, "boolean", f"({ast.unparse(either)})"
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, (ast.Not, ast.USub)):
            yield (
                node,
                "boolean" if isinstance(node.op, ast.Not) else "sign",
                f"({ast.unparse(node.operand)})",
            )
        elif isinstance(node, ast.Call):
            yield from _faults_of_call(node)
        elif (
            (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call))
            or (
                isinstance(node, ast.Assign)
                and all(isinstance(t, (ast.Subscript, ast.Attribute)) for t in node.targets)
            )
            or isinstance(node, (ast.Break, ast.Continue, ast.Raise))
        ):
            yield node, "deletion", "pass"
        if isinstance(node, ast.AugAssign):
            yield node, "deletion", "pass"
        if isinstance(node, (ast.If, ast.While, ast.IfExp)) and not isinstance(node.test, ast.Constant):
            yield node.test, "boolean", f"(not ({ast.unparse(node.test)}))"


def _faults_of_call(node: ast.Call) -> Iterator[tuple[ast.expr, str, str]]:
    name = node.func.id if isinstance(node.func, ast.Name) else ""
    plain = not any(isinstance(argument, ast.Starred) for argument in node.args)
    if name in ("range", "prange") and plain:
        ends = ast.unparse(node.args[min(1, len(node.args) - 1)])
        for text in (f"({ends}) - 1", f"({ends}) + 1"):
            other = copy.deepcopy(node)
            other.args[min(1, len(node.args) - 1)] = ast.parse(text, mode="eval").body
            yield node, "range", ast.unparse(other)
        other = copy.deepcopy(node)
        first = ast.unparse(node.args[0]) if len(node.args) > 1 else "0"
        other.args = [
            ast.parse(f"({first}) + 1", mode="eval").body,
            *other.args[-1 if len(node.args) == 1 else 1 :],
        ]
        yield node, "range", ast.unparse(other)
    elif (
        len(node.args) > 1 and plain and name not in ("isinstance", "getattr", "hasattr", "zip", "max", "min")
    ):
        for k in range(len(node.args) - 1):
            if ast.dump(node.args[k]) != ast.dump(node.args[k + 1]):
                other = copy.deepcopy(node)
                other.args[k], other.args[k + 1] = other.args[k + 1], other.args[k]
                yield node, "arguments", ast.unparse(other)


def _code(node: ast.AST) -> Iterator[ast.AST]:
    """Yield nodes that are executed: no annotations, decorators, docstrings, texts, error messages or exported
    names."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params", "format_spec"):
            continue
        for child in value if isinstance(value, list) else [value]:
            if not isinstance(child, ast.AST) or isinstance(
                child, (ast.JoinedStr, ast.Import, ast.ImportFrom)
            ):
                continue
            if isinstance(child, ast.Assign) and any(
                isinstance(t, ast.Name) and t.id == "__all__" for t in child.targets
            ):
                continue
            if (
                isinstance(child, ast.If)
                and isinstance(child.test, ast.Name)
                and child.test.id == "TYPE_CHECKING"
            ):
                continue
            yield child
            if not isinstance(child, ast.Raise):
                yield from _code(child)


def draw(paths: Sequence[str], n: int, seed: int) -> list[Mutant]:
    """Return ``n`` mutants: sample a kind of fault, then a fault of this kind, so that rare kinds are represented."""
    rng = random.Random(seed)
    kinds: dict[str, list[Mutant]] = defaultdict(list)
    for path in paths:
        for mutant in mutants_of(path, (ROOT / path).read_bytes()):
            kinds[mutant.operator].append(mutant)
    chosen: list[Mutant] = []
    while len(chosen) < n and kinds:
        kind = rng.choice(sorted(kinds))
        chosen.append(kinds[kind].pop(rng.randrange(len(kinds[kind]))))
        if not kinds[kind]:
            del kinds[kind]
    return chosen


def tests_of(path: str) -> tuple[str, ...]:
    """Return the tests of a file, the closest first, and its doctests."""
    known = [name for name in TESTS if path.startswith(name)]
    if not known:
        raise SystemExit(f"{path}: expected a file with tests in TESTS; name them there")
    return (*TESTS[max(known, key=len)], path)


class Tree:
    """A copy of the project, with its own compiled code, in which mutants run."""

    def __init__(self, folder: Path) -> None:
        self.root, self.compiled, self.scratch = folder / "tree", folder / "compiled", folder / "scratch"
        for name in COPIED:
            source = ROOT / name
            if source.is_dir():
                ignored = shutil.ignore_patterns("__pycache__", "*.nbi", "*.nbc", "results")
                shutil.rmtree(self.root / name, ignore_errors=True)
                # keep the modification times, by which compiled code is identified
                shutil.copytree(source, self.root / name, ignore=ignored)
            elif source.exists():
                self.root.mkdir(parents=True, exist_ok=True)
                shutil.copy2(source, self.root / name)
        self.compiled.mkdir(exist_ok=True)
        self.needs: dict[str, float] = {}
        self.second = 10**9

    def run(self, tests: Sequence[str], compiled: Path, cpu: float) -> tuple[int | None, str, float]:
        """Return pytest's exit code (None if out of time), the end of its output, and the processor time used.

        pytest runs in a copy of this process, which has imported the libraries already (:func:`preload`).
        """
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        with tempfile.TemporaryFile() as output:
            child = os.fork()
            if child == 0:
                self._become_pytest(tests, compiled, int(cpu) + 1, output.fileno())
            # a fault can cause an endless wait that uses no processor time
            latest = time.monotonic() + 60 + 20 * cpu
            code: int | None = None
            while True:
                ended, status = os.waitpid(child, os.WNOHANG)
                if ended:
                    code = os.waitstatus_to_exitcode(status)
                    break
                if time.monotonic() > latest:
                    os.killpg(child, signal.SIGKILL)
                    os.waitpid(child, 0)
                    break
                time.sleep(0.02)
            output.seek(0)
            words = output.read().decode("utf-8", "replace")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        if code is not None and code < 0 and -code in (signal.SIGXCPU, signal.SIGKILL):
            code = None
        return code, words, used

    def _become_pytest(self, tests: Sequence[str], compiled: Path, cpu: int, output: int) -> NoReturn:
        code = 70
        try:
            os.setsid()
            resource.setrlimit(resource.RLIMIT_CPU, (cpu, cpu + 5))
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.chdir(self.root)
            os.environ.update(
                PYTHONPATH=str(self.root),
                NUMBA_CACHE_DIR=str(compiled),
                STRUCTSVM_DATA=os.environ.get("STRUCTSVM_DATA", str(ROOT.parent / "shared" / "data")),
            )
            own = {ROOT, ROOT / "experiments"}  # a virtual environment may be in the project, too
            sys.path[:] = [str(self.root), *(p for p in sys.path if Path(p or ".").resolve() not in own)]
            import numba
            import pytest

            numba.config.reload_config()
            code = int(pytest.main(["-x", "-p", "no:cacheprovider", "--tb=no", *_QUIET, *tests]))
        except BaseException:
            traceback.print_exc()
        finally:
            with suppress(Exception):
                sys.stdout.flush()
                sys.stderr.flush()
            os._exit(code)

    def time_needed(self, tests: str) -> float:
        """Return the processor time of the tests without a fault, which must pass; compiled code is cached."""
        if tests not in self.needs:
            code, words, used = self.run([tests], self.compiled, 3000.0)
            if code not in (0, _NO_TESTS):
                raise SystemExit(f"{tests}: expected tests that pass, got\n{words[-2000:]}")
            self.needs[tests] = used
        return self.needs[tests]

    def try_mutant(self, mutant: Mutant) -> tuple[str, str, float]:
        """Return (killed, survived or timeout; the test that failed; processor time).

        The closest tests run first; the other tests and the doctests of the file run only if these pass.
        """
        path = self.root / mutant.path
        source, times = path.read_bytes(), path.stat()
        stages = [(tests, 20 + 4 * self.time_needed(tests)) for tests in tests_of(mutant.path)]
        shutil.rmtree(self.scratch, ignore_errors=True)
        # files of compiled code are replaced, never modified, so links suffice
        shutil.copytree(self.compiled, self.scratch, copy_function=os.link)
        total = 0.0
        try:
            path.write_bytes(source[: mutant.start] + mutant.new.encode() + source[mutant.end :])
            # byte code is identified by the time, in seconds, and size of its source: each mutant gets a distinct
            # second
            self.second += 1
            os.utime(path, (self.second, self.second))
            for tests, limit in stages:
                code, words, used = self.run([tests], self.scratch, limit)
                total += used
                if code is None:
                    return "timeout", "", total
                if code not in (0, _NO_TESTS):
                    noticed = [line for line in words.splitlines() if line.startswith(("FAILED", "ERROR"))]
                    return "killed", (noticed or words.splitlines()[-1:] or [""])[0][:200], total
        finally:
            path.write_bytes(source)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        return "survived", "", total


def preload() -> None:
    """Import the libraries that the tests import, once for all mutants."""
    for name in (
        "hypothesis",
        "numba",
        "numba.core.caching",
        "numpy.testing",
        "pandas",
        "pytest",
        "scipy.optimize",
        "scipy.sparse",
        "scipy.stats",
        "sklearn.base",
        "sklearn.model_selection",
        "sklearn.pipeline",
        "sklearn.utils.estimator_checks",
    ):
        with suppress(ImportError):
            importlib.import_module(name)


def read_results(path: Path) -> dict[Key, dict[str, object]]:
    """Return the last record of each mutant."""
    records: dict[Key, dict[str, object]] = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            record = json.loads(line)
            key: Key = (record["path"], record["operator"], record["before"], record["after"], record["nth"])
            records[key] = record
    return records


def read_equivalent() -> dict[tuple[str, str, str], str]:
    """Map (file, line, line with the fault) to "equivalent" or "performance", as judged by hand."""
    if not EQUIVALENT.exists():
        return {}
    listed = tomllib.loads(EQUIVALENT.read_text(encoding="utf-8")).get("mutant", [])
    return {(item["path"], item["before"], item["after"]): item["kind"] for item in listed}


def table(records: Sequence[dict[str, object]]) -> str:
    """Return a table of counts by folder, and the survivors."""
    judged = read_equivalent()
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    alive = []
    for record in records:
        fate = str(record["fate"])
        if fate == "survived":
            fate = judged.get((str(record["path"]), str(record["before"]), str(record["after"])), fate)
        folder = str(Path(str(record["path"])).parent)
        counts[folder][fate] += 1
        counts["all"][fate] += 1
        if fate == "survived":
            alive.append(f"{record['path']}:{record['line']}  {record['before']}  ->  {record['after']}")
    columns = ("killed", "timeout", "equivalent", "performance", "survived")
    rows = [["folder", "mutants", *columns]]
    for folder in sorted(counts, key=lambda name: (name == "all", name)):
        rows.append(
            [folder, *(str(n) for n in (counts[folder].total(), *(counts[folder][c] for c in columns)))]
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [" | ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)) for row in rows]
    lines.insert(1, " | ".join("-" * w for w in widths))
    return "\n".join([*(f"| {line} |" for line in lines), "", *(f"survived: {line}" for line in alive)])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])  # type: ignore[union-attr]
    parser.add_argument("places", nargs="*", help="files or folders of the package")
    parser.add_argument("--n", type=int, default=100, help="mutants to draw")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--results", type=Path, default=RESULTS / "mutants.jsonl")
    parser.add_argument(
        "--work", type=Path, help="folder for the copy; kept, so that a resumed run compiles nothing"
    )
    parser.add_argument("--again", action="store_true", help="repeat the recorded survivors of the files")
    parser.add_argument("--table", action="store_true", help="print the recorded outcomes, run nothing")
    options = parser.parse_args()
    known = read_results(options.results)
    if not options.table:
        files = []
        for place in map(Path, options.places):
            inside = [place] if place.suffix == ".py" else sorted(place.rglob("*.py"))
            files += [path.resolve().relative_to(ROOT).as_posix() for path in inside]
        if not files:
            parser.error("expected files or folders of the package, got none with Python files")
        if options.again:
            judged = read_equivalent()
            alive = {
                key
                for key, record in known.items()
                if record["fate"] == "survived" and (key[0], key[2], key[3]) not in judged
            }
            todo = [
                m for path in files for m in mutants_of(path, (ROOT / path).read_bytes()) if m.key in alive
            ]
        else:
            todo = [m for m in draw(files, options.n, options.seed) if m.key not in known]
        with tempfile.TemporaryDirectory() as folder:
            run(todo, options.work or Path(folder), options.results)
        known = read_results(options.results)
    print(table(list(known.values())))


def run(todo: Sequence[Mutant], work: Path, results: Path) -> None:
    work.mkdir(parents=True, exist_ok=True)
    results.parent.mkdir(parents=True, exist_ok=True)
    preload()
    tree = Tree(work)
    needs: dict[str, float] = {}
    for path in sorted({mutant.path for mutant in todo}):
        needs[path] = tree.time_needed(tests_of(path)[0])
        print(f"{path}: the closest tests need {needs[path]:.0f} s", flush=True)
    for done, mutant in enumerate(sorted(todo, key=lambda m: (needs[m.path], m.path, m.line)), 1):
        started = time.time()
        fate, noticed, used = tree.try_mutant(mutant)
        record = {**asdict(mutant), "fate": fate, "noticed": noticed, "cpu_seconds": round(used, 1)}
        with results.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record, ensure_ascii=False) + "\n")
        print(
            f"{done}/{len(todo)} {fate:8} {time.time() - started:4.0f} s  {mutant.path}:{mutant.line}  "
            f"{mutant.before}  ->  {mutant.after}",
            flush=True,
        )


if __name__ == "__main__":
    main()
