"""What the search proxy of the live service adds to a search, and what a bad challenger costs: nothing but the budget.

A stand-in engine in a separate process answers production after 5 ms, and the challenger in one of several ways:
equally fast, slowly (400 ms), never, with an error, or with an invalid answer. Searches are sequential, and the service
is called without a socket. The targets are an added median of at most 5 ms, a 99th percentile of at most the budget of
100 ms plus 10 ms, no errors, and the requested length in every answer. After five failures the circuit breaker opens,
and the challenger costs no time; "without breaker", it is reset for each search.

    python experiments/benchmarks/live_proxy.py [--searches N]
"""

import argparse
import asyncio
import json
import multiprocessing
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx
import numpy as np

WAYS = ("ok", "slow", "hanging", "error", "junk")
SIZE = 10


def engine(pipe: Any) -> None:
    """Serve until the process is ended; report the port."""

    def answer(path: str, sent: Any) -> bytes:
        ids = [f"d{k:04d}" for k in range(1000)]
        if path != "/production":
            ids = ids[::-1]
        source = {"title": "a lamp " * 20}
        hits = [
            {"_index": "shop", "_id": name, "_score": 1.0, "_source": source}
            for name in ids[sent["from"] : sent["from"] + sent["size"]]
        ]
        total = {"value": 1000, "relation": "eq"}
        return json.dumps({"timed_out": False, "hits": {"total": total, "hits": hits}}).encode()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                path = head.split(" ")[1]
                length = int(head.split("content-length: ")[1].split("\r\n")[0])
                sent = json.loads(await reader.readexactly(length))
                way = path.removeprefix("/")
                await asyncio.sleep({"slow": 0.4, "hanging": 60.0}.get(way, 0.005))
                body = b'{"hits": ' if way == "junk" else answer(path, sent)
                status = "500 No" if way == "error" else "200 OK"
                head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
                writer.write(head.encode() + body)
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def run() -> None:
        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        pipe.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


def percentiles(seconds: list[float]) -> tuple[float, float]:
    """Return the median and the 99th percentile, in milliseconds."""
    middle, most = np.percentile(seconds, [50, 99])
    return round(1000 * float(middle), 1), round(1000 * float(most), 1)


async def measure(port: int, folder: Path, searches: int) -> list[dict[str, Any]]:
    """Search directly, and through the proxy with each kind of challenger."""
    from structsvm.live.contract.settings import Settings
    from structsvm.live.store.opening import prepare
    from structsvm.live.web.app import create_app

    root = f"http://127.0.0.1:{port}"
    engines = {name: {"kind": "opensearch", "url": f"{root}/{name}"} for name in ("production", *WAYS)}
    settings = Settings(f"sqlite:///{folder / 'live.db'}", keyless=True, engines=engines)
    prepare(settings.store)
    app = create_app(settings)
    found = []
    body = {"query": {"match": {"title": "lamp"}}, "from": 0, "size": SIZE}
    direct = httpx.AsyncClient(base_url=root, trust_env=False)
    through = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://127.0.0.1")
    async with direct, through, app.router.lifespan_context(app):
        proxy = next(one.__self__ for one in app.state.service.at_stop)  # type: ignore[attr-defined]

        async def row(name: str, client: httpx.AsyncClient, path: str, guarded: bool = True) -> None:
            times, short, errors, served = [], 0, 0, 0
            cpu = time.process_time()
            for k in range(searches):
                if not guarded:
                    proxy.breakers.clear()
                began = time.perf_counter()
                answer = await client.post(path, json=body, headers={"X-Structsvm-Search": f"{name} {k}"})
                times.append(time.perf_counter() - began)
                errors += answer.status_code != 200
                short += len(answer.json()["hits"]["hits"]) != SIZE
                served += answer.headers.get("x-structsvm-serve") == "interleaved"
            cpu = time.process_time() - cpu
            middle, most = percentiles(times)
            found.append(
                {
                    "challenger": name,
                    "median_ms": middle,
                    "p99_ms": most,
                    "errors": errors,
                    "short": short,
                    "cpu_ms": round(1000 * cpu / searches, 2),
                    "interleaved": served / searches,
                }
            )

        await row("none: the engine itself", direct, "/production")
        for way in WAYS:
            config = {
                "rankers": ["old", "new"],
                "production": "old",
                "guardrails": {"control": False},
                "engines": {"old": {"engine": "production"}, "new": {"engine": way}},
            }
            await through.put(f"/v1/experiments/{way}", json=config)
            await through.post(f"/v1/experiments/{way}/state", json={"to": "running"})
            await row(way, through, f"/v1/search/{way}")
        for way in ("slow", "hanging"):
            await row(f"{way}, without breaker", through, f"/v1/search/{way}", guarded=False)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--searches", type=int, default=300)
    searches = parser.parse_args().searches
    mine, other = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=engine, args=(other,), daemon=True)
    process.start()
    try:
        with tempfile.TemporaryDirectory() as folder:
            found = asyncio.run(measure(mine.recv(), Path(folder), searches))
    finally:
        process.terminate()
        process.join()
    print(f"{'challenger':<26}{'median':>8}{'p99':>8}{'CPU':>8}  ms   errors  short  interleaved")
    for row in found:
        print(
            f"{row['challenger']:<26}{row['median_ms']:>8}{row['p99_ms']:>8}{row['cpu_ms']:>8}{row['errors']:>11}{row['short']:>7}"
            f"{row['interleaved']:>12.0%}"
        )
    print(json.dumps({"searches": searches, "rows": found}))


if __name__ == "__main__":
    main()
