"""Keep a random sample of the mutants in a session of cosmic-ray, and mark the others as skipped.

``python experiments/mutation/sample.py session.sqlite --n 100 --seed 0``
"""

import argparse
import random
import sqlite3
from contextlib import closing


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("session", help="file that 'cosmic-ray init' wrote")
    parser.add_argument("--n", type=int, default=100, help="number of mutants to keep (default: 100)")
    parser.add_argument("--seed", type=int, default=0, help="seed of the sample (default: 0)")
    options = parser.parse_args()
    place = "module_path, start_pos_row, start_pos_col, operator_name, occurrence"  # ids of jobs are random
    with closing(sqlite3.connect(options.session)) as session, session:
        pending = "SELECT job_id FROM mutation_specs WHERE job_id NOT IN (SELECT job_id FROM work_results)"
        jobs = session.execute(f"{pending} ORDER BY {place}").fetchall()
        random.Random(options.seed).shuffle(jobs)
        skip = "INSERT INTO work_results (job_id, worker_outcome, output) VALUES (?, 'SKIPPED', 'not in the sample')"
        session.executemany(skip, jobs[options.n :])


if __name__ == "__main__":
    main()
