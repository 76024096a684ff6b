"""Speed of reading UBI files and of click models: megabytes per second, and seconds of 10^7 impressions.

The UBI file is synthetic: lists of 10 impressions and about one click, with the fields that collectors log. It is read
with the parser of pyarrow and with that of Python, and for comparison with ``json.loads`` of each line only, and with
pyarrow's parser only. Then 10^7 impressions in arrays are counted, and the position-based model is fitted by 50 rounds
of EM. Last, a ranker is trained on 10^4 and on 10^6 clicks on the same 20,000 candidates; the time should not depend on
the number of clicks. All figures are CPU seconds of one process; pyarrow parses with several threads.

    python experiments/benchmarks/clicks.py [--quick] [--folder /tmp]
"""

import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np

from structsvm.clicks import ClickCells, ClickSVM, PositionBasedModel, Propensities, read_ubi
from structsvm.readers import make_ranking


def write(path: Path, n_events: int, seed: int = 0) -> None:
    """Write about ``n_events`` events on lists of ten, and their queries."""
    rng = np.random.default_rng(seed)
    hour = 1733788800
    with path.open("w", encoding="utf-8") as file:
        events = number = 0
        while events < n_events:
            text = int(rng.zipf(1.3)) % 20_000
            documents = (text * 7 + rng.permutation(30)[:10]).tolist()
            query_id = f"{number:08x}-4ea7-4b0e-a9fd-{number * 7919 % 16**12:012x}"
            seconds = hour + number // 20

            def stamp(at: float) -> str:
                return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)) + ".378Z"

            common = f'"application":"shop","query_id":"{query_id}","client_id":"c{number % 9000}"'
            lines = [
                f'{{{common},"user_query":"no {text}","query_attributes":{{}},"timestamp":"{stamp(seconds)}"}}\n'
            ]
            clicked = np.flatnonzero(rng.random(10) < 0.3 / np.arange(1, 11)).tolist()
            for action, ranks in (("impression", range(10)), ("click", clicked)):
                for rank in ranks:
                    lines.append(
                        f'{{{common},"action_name":"{action}","message_type":"INFO","timestamp":"{stamp(seconds + 2)}",'
                        f'"event_attributes":{{"object":{{"object_id":"B{documents[rank]:09d}","object_id_field":"asin"}},'
                        f'"position":{{"ordinal":{rank + 1}}}}}}}\n'
                    )
            file.writelines(lines)
            events += 10 + len(clicked)
            number += 1


def cpu(function) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def training(n_clicks: int, repeats: int = 5) -> tuple[float, int]:
    """Return the median CPU seconds of a fit to about this many clicks, and its passes over the data."""
    data = make_ranking(1000, 20, 50, grades=2, noise=0.5, random_state=0)
    rng = np.random.default_rng(1)
    docid = np.tile(np.arange(20), 1000)
    # two rankers, each used half the time for a query; position k is examined with probability 1 / k
    orders = np.argsort(-data.X[:, :2].T.reshape(2, 1000, 20), axis=2)
    chance = np.where(data.y.reshape(1000, 20) > 0, 0.9, 0.1)
    chance = np.take_along_axis(chance[None], orders, axis=2) / np.arange(1, 21)
    shows = rng.multinomial(round(n_clicks / chance.sum(axis=2).mean()), np.full(2000, 1 / 2000)).reshape(
        2, 1000
    )
    clicks = rng.binomial(np.repeat(shows, 20).reshape(2, 1000, 20), chance)
    row = orders + 20 * np.arange(1000)[:, None]
    key = (row * 20 + np.arange(20)).ravel()
    cell, number = np.unique(key, return_inverse=True)
    counts = [np.bincount(number, v.ravel()).astype(np.int64) for v in (np.repeat(shows, 20), clicks)]
    keep = counts[0] > 0
    cells = ClickCells(
        data.query_ids,
        data.offsets,
        docid,
        cell[keep] // 20,
        cell[keep] % 20 + 1,
        counts[0][keep],
        counts[1][keep],
    )
    theta = Propensities.given(1 / np.arange(1, 21))
    fits = []
    for _ in range(repeats + 1):  # the first one compiles
        start = time.process_time()
        model = ClickSVM(C=0.1, propensities=theta).fit(data.X, cells, qid=data.qid, docid=docid)
        fits.append(time.process_time() - start)
    return float(np.median(fits[1:])), model.fit_.n_passes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the size")
    parser.add_argument(
        "--folder", type=Path, help="where the file is written; a temporary folder by default"
    )
    arguments = parser.parse_args()
    scale = 10 if arguments.quick else 1
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        path = Path(folder) / "ubi.ndjson"
        write(path, 10**6 // scale)
        megabytes = path.stat().st_size / 1e6

        def lines_alone() -> None:
            with path.open("rb") as file:
                for line in file:
                    json.loads(line)

        kernels = Path(folder) / "small.ndjson"
        write(kernels, 1000)
        read_ubi(kernels)  # compile
        print(
            f"UBI file of {10**6 // scale:,} events, {megabytes:.0f} MB        CPU s    MB per s     elapsed MB per s"
        )
        for name, function in (
            ("json.loads of each line alone", lines_alone),
            ("read_ubi", lambda: read_ubi(path)),
        ):
            start = time.perf_counter()
            seconds = cpu(function)
            elapsed = time.perf_counter() - start
            print(f"{name:44s} {seconds:8.2f} {megabytes / seconds:10.0f} {megabytes / elapsed:14.0f}")

    rng = np.random.default_rng(0)
    n = 10**7 // scale
    query = rng.integers(1000, size=n)
    position = np.tile(np.arange(10), n // 10)
    document = query * 20 + (position + rng.integers(3, size=n)) % 20
    clicked = rng.random(n) < 0.3 / (position + 1)
    small = slice(0, 1000)
    arrays = (query, document, position, clicked)
    PositionBasedModel(n_rounds=2).fit(ClickCells.from_arrays(*(a[small] for a in arrays), first_position=0))
    cells = []
    counting = cpu(lambda: cells.append(ClickCells.from_arrays(*arrays, first_position=0)))
    fitting = cpu(lambda: PositionBasedModel(n_rounds=50).fit(cells[0]))
    print(
        f"{n:,} impressions counted: {counting:.2f} CPU s; 50 rounds of EM: {fitting:.2f} CPU s ({cells[0]})"
    )
    few, many = training(10**4), training(10**6)
    print(
        f"training on 10^4 clicks: {few[0]:.3f} CPU s, {few[1]} passes; on 10^6: {many[0]:.3f} CPU s, "
        f"{many[1]} passes; ratio {many[0] / few[0]:.2f}"
    )


if __name__ == "__main__":
    main()
