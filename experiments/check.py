"""Recompute the results and compare every figure, to the digit, with the committed results.

    python experiments/check.py                       # all scripts, each by the command of its page
    python experiments/check.py --quick               # those of less than 30 CPU seconds
    python experiments/check.py letor_folds trees     # these
    python experiments/check.py --write letor_folds   # put the new results in place of those committed
    python experiments/check.py --smoke               # run the quick form of each script, with one run per simulation

The committed results are replaced only with ``--write``. Values that depend on the machine are not compared: keys and
columns whose name has the word "seconds", "CPU" or "commit", and the line of a page that states both. Plots are not
compared either, because their bytes depend on the version of matplotlib; the same command computes the figures that
they draw.
"""

import argparse
import difflib
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

import results_index
from _common import DATA, ROOT, WITHOUT_DATA

sys.path.append(str(ROOT / "docs"))
import quoted

QUICK = 30.0
"""Maximum CPU seconds of a script that ``--quick`` checks."""
SMOKE = ("--quick", "--runs", "1")
STATES = ("same", "differs", "runs", "fails", "no data")
COMPUTED = STATES[:3]
RESULTS = results_index.HERE / "results"
SHOWN = 12
"""Number of printed differences per script; ``differences.txt`` in its folder under ``--work`` has all."""
NOTHING = "nothing"
OF_THE_MACHINE = re.compile(r"\b(cpu|seconds|commit)\b", re.IGNORECASE)
STATED = re.compile(r"\d+ seconds of processor time, at commit \w+\+?\.")


class Script(NamedTuple):
    """An experiment with committed results: the arguments of the command on its page, and its cost."""

    name: str
    arguments: tuple[str, ...]
    cpu: float


class Outcome(NamedTuple):
    """Outcome of a script, one of ``STATES``; details, and its CPU seconds."""

    script: Script
    state: str
    details: list[str]
    cpu: float


def scripts(results: Path) -> list[Script]:
    """Return the experiments that have a page, sorted by name."""
    found = []
    for page in sorted(results.glob("*/*.md")):
        name = page.stem
        command = re.search(rf"^`python experiments/{name}\.py(.*)`$", page.read_text(), flags=re.M)
        if command and name == page.parent.name:
            cpu = json.loads(page.with_suffix(".json").read_text()).get("cpu_seconds") or 0.0
            found.append(Script(name, tuple(shlex.split(command[1])), cpu))
    return found


def values(record: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Yield every value of a JSON document with its path, except values that depend on the machine."""
    if isinstance(record, dict):
        for key, value in record.items():
            if not OF_THE_MACHINE.search(key.replace("_", " ")):
                yield from values(value, f"{place}.{key}" if place else key)
    elif isinstance(record, list):
        for i, value in enumerate(record):
            first = next(iter(value.values()), None) if isinstance(value, dict) else None
            label = f"{i} {first}" if isinstance(first, str) else str(i)
            yield from values(value, f"{place}[{label}]")
    else:
        yield place, record


def lines(page: str) -> list[str]:
    """Return the lines of a page, with everything that depends on the machine replaced by a star."""
    out: list[str] = []
    hidden: set[int] = set()
    for line in page.splitlines():
        if line.startswith("| "):
            cells = [cell.strip() for cell in line.split("|")[1:-1]]
            if not out or not out[-1].startswith("|"):
                hidden = {i for i, cell in enumerate(cells) if OF_THE_MACHINE.search(cell)}
            # column widths depend on the values, and the rule below the column names on the widths
            kept = (
                "*" if i in hidden else "-" if set(cell) == {"-"} else cell for i, cell in enumerate(cells)
            )
            line = f"| {' | '.join(kept)} |"
        out.append(STATED.sub("*", line))
    return out


def differences(committed: Path, computed: Path) -> list[str]:
    """Return one line for every figure and every line of a page that differs from the committed results."""
    found = []
    for path in sorted({p.name for folder in (committed, computed) for p in folder.glob("*.json")}):
        if not (committed / path).exists() or not (computed / path).exists():
            found.append(f"{path}: {'new' if (computed / path).exists() else 'not written any more'}")
            continue
        before, now = (dict(values(json.loads((f / path).read_text()))) for f in (committed, computed))
        for place in before | now:
            a, b = before.get(place, NOTHING), now.get(place, NOTHING)
            if repr(a) != repr(b):  # 1 and true are equal
                found.append(f"{path} {place}: {a!r} -> {b!r}{by(a, b)}")
    page = f"{computed.name}.md"
    old, new = (lines(p.read_text()) if (p := f / page).exists() else [] for f in (committed, computed))
    for _, i, end, k, last in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if old[i:end] != new[k:last]:
            pairs = zip_longest(old[i:end], new[k:last], fillvalue=NOTHING)
            found += [f"{page}:{n}: {a!r} -> {b!r}" for n, (a, b) in enumerate(pairs, k + 1)]
    return found


def by(before: Any, now: Any) -> str:
    """Return the formatted difference of two numbers, which may be text in tables."""
    try:
        return f" ({float(now) - float(before):+.3g})"
    except (TypeError, ValueError):
        return ""


def compute(script: Script, folder: Path, data: Path, *, compared: bool = True) -> Outcome:
    """Run a script with results in ``folder``, unless they exist, and compare them with the committed results."""
    done = folder / "done"
    if not done.exists():
        folder.mkdir(parents=True, exist_ok=True)
        path = ROOT / "experiments" / f"{script.name}.py"
        command = [sys.executable, str(path), *script.arguments, "--data", str(data), "--out", str(folder)]
        with (folder / "log.txt").open("w") as log:
            status = subprocess.run(
                command,
                cwd=ROOT,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={"OMP_NUM_THREADS": "1", **os.environ},
            ).returncode
        said = (folder / "log.txt").read_text().strip().splitlines() or [""]
        if status == WITHOUT_DATA:
            return Outcome(script, "no data", [line for line in said if "data/README.md" in line], 0.0)
        if status:
            return Outcome(script, "fails", [f"exit status {status}: {said[-1]}"], 0.0)
        done.touch()
    record = json.loads((folder / f"{script.name}.json").read_text())
    if "missing" in record:
        return Outcome(script, "no data", [f"without {', '.join(record['missing'])}"], record["cpu_seconds"])
    if not compared:
        return Outcome(script, "runs", [], record["cpu_seconds"])
    found = differences(RESULTS / script.name, folder)
    (folder / "differences.txt").write_text("".join(f"{line}\n" for line in found))
    return Outcome(script, "differs" if found else "same", found, record["cpu_seconds"])


def write(name: str, computed: Path, results: Path) -> None:
    """Replace the committed results of a script with the new ones."""
    (results / name).mkdir(exist_ok=True)
    for path in computed.iterdir():
        if path.suffix in {".json", ".md", ".png"}:
            shutil.copyfile(path, results / name / path.name)


def state_of_code() -> str:
    """Return a name for the code version: results of other versions in the same working folder are not reused."""
    digest = hashlib.sha256()
    for folder in ("structsvm", "experiments"):
        for path in sorted((ROOT / folder).glob("**/*.py")):
            digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:12]


def chosen(options: argparse.Namespace) -> list[Script]:
    """Return the scripts selected on the command line, the longest first."""
    known = {script.name: script for script in scripts(RESULTS)}
    for name in options.names:
        if name not in known:
            if not (ROOT / "experiments" / f"{name}.py").exists():
                raise SystemExit(f"expected scripts of experiments/, such as {', '.join(known)}; got {name}")
            known[name] = Script(name, ("--seed", "0"), 0.0)  # a script without a page
    found = [known[name] for name in options.names or known]
    if options.quick:
        found = [script for script in found if script.cpu < QUICK]
    if options.smoke:
        found = [script._replace(arguments=SMOKE) for script in found]
    return sorted(found, key=lambda script: -script.cpu)


def report(outcome: Outcome) -> None:
    script, state, details, cpu = outcome
    before = "" if state == "runs" else f"{script.cpu:.0f} -> "
    times = f"{before}{cpu:.0f} CPU seconds" if state in COMPUTED else ""
    count = f"{len(details)} differences" if state == "differs" else ""
    print(f"{script.name:28} {state:8} {count:16} {times}", flush=True)
    for line in details[:SHOWN]:
        print(f"    {textwrap.shorten(line, 300)}", flush=True)
    if len(details) > SHOWN:
        print(f"    and {len(details) - SHOWN} more", flush=True)


def check(options: argparse.Namespace, work: Path) -> int:
    """Compute, compare and report each script; return the exit status."""
    started, outcomes = time.perf_counter(), []
    with ThreadPoolExecutor(options.jobs) as pool:
        running = [
            pool.submit(compute, script, work / script.name, options.data, compared=not options.smoke)
            for script in chosen(options)
        ]
        try:
            for one in as_completed(running):
                outcomes.append(one.result())
                report(outcomes[-1])
                if options.write and outcomes[-1].state in COMPUTED:
                    name = outcomes[-1].script.name
                    write(name, work / name, RESULTS)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
    faults = 0
    if options.write:
        try:
            results_index.PAGE.write_text(results_index.build())
        except (KeyError, ValueError) as error:
            print(f"{results_index.PAGE.name} is not written: {error.args[0]}")
            faults = 1
    stale = list(quoted.stale())
    for line in stale:
        print(f"{line}; renew the figures by python docs/quoted.py --write")
    counts = {state: sum(outcome.state == state for outcome in outcomes) for state in STATES}
    cpu = sum(outcome.cpu for outcome in outcomes)
    said = ", ".join(f"{n} {state}" for state, n in counts.items() if n)
    print(f"{said}; {time.perf_counter() - started:.0f} seconds, {cpu:.0f} CPU seconds of computation")
    faults += counts["fails"] + len(stale)
    faults += 0 if options.write else counts["differs"]
    faults += 0 if options.skip_missing else counts["no data"]
    return int(faults > 0)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="SCRIPT", help="names of scripts [all]")
    parser.add_argument(
        "--quick", action="store_true", help=f"only scripts of less than {QUICK:.0f} CPU seconds"
    )
    parser.add_argument(
        "--write", action="store_true", help="replace the committed results, and write RESULTS.md anew"
    )
    parser.add_argument("--smoke", action="store_true", help="run the quick forms, compare nothing")
    parser.add_argument("--jobs", type=int, default=1, help="processes, one for each script")
    parser.add_argument("--data", type=Path, default=DATA, help="folder of the data sets")
    parser.add_argument(
        "--skip-missing", action="store_true", help="do not count scripts with missing data as failures"
    )
    parser.add_argument(
        "--work",
        type=Path,
        help="folder of finished results, from which an interrupted command resumes",
    )
    options = parser.parse_args()
    if options.smoke and options.write:
        parser.error("--smoke computes no results that --write could take")
    if options.work is not None:
        return check(options, options.work.resolve() / f"{state_of_code()}{'-smoke' * options.smoke}")
    with tempfile.TemporaryDirectory(prefix="structsvm-results-") as work:
        return check(options, Path(work))


if __name__ == "__main__":
    sys.exit(main())
