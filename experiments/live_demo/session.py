"""The session behind the demo's pages: experiments, simulated visitors, and training from the logged clicks."""

import asyncio
import contextlib
import json
import logging
import uuid
from typing import Any

import numpy as np
from world import EUCLIDEAN, LEARNED, TWINS, ClickTraining, World

from structsvm.common.checks import BadInput
from structsvm.live.contract.bodies import Assign, Show, Taken
from structsvm.live.contract.calls import Refused
from structsvm.live.experiment.service import Service

STAGES = {"pair": "digits", "twins": "twins", "contenders": "contenders"}
"""The experiment of each stage: two rankers, a ranker against itself, or all contenders."""

LENGTH = 10
VISITS_PER_S = 25.0
WINDOW_S = 20
"""Window for the clicks on a list, in seconds. A list counts when its window is over, so the report lags by it."""

_log = logging.getLogger(__name__)


class Session:
    """The world, simulated visitors and experiments of one demo; ``world`` is None while it is being built."""

    def __init__(
        self,
        service: Service,
        random_state: int = 0,
        *,
        window_s: float = WINDOW_S,
        visits_per_s: float = VISITS_PER_S,
    ) -> None:
        self.service, self.window_s, self.visits_per_s = service, window_s, visits_per_s
        self.random_state = random_state
        self.world: World | None = None
        self.problem: str | None = None
        self.stage, self.visitors, self.visits = "pair", False, 0
        self.trainings: list[ClickTraining] = []
        self._rng = np.random.default_rng(random_state)
        self._tasks: list[asyncio.Task[None]] = []
        self._training = asyncio.Lock()

    async def start(self) -> None:
        """Begin to build the world in the background; pages respond immediately."""
        self._tasks = [asyncio.create_task(self._prepare())]

    async def stop(self) -> None:
        """Stop the background threads."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task

    async def _prepare(self) -> None:
        try:
            world = await asyncio.to_thread(World.make, self.random_state)
            await asyncio.to_thread(world.learn_from_labels)
            await self._create("digits", [EUCLIDEAN, LEARNED])
            await self._create("twins", list(TWINS))
        except Exception as error:
            _log.exception("the demo cannot start")
            self.problem = str(error) or type(error).__name__
            return
        self.world = world
        self._tasks.append(asyncio.create_task(self._search()))

    async def _create(self, key: str, rankers: list[str], **more: Any) -> None:
        config = {
            "kind": "interleaving",
            "rankers": rankers,
            "production": rankers[0],
            "method": "team_draft",
            "length": LENGTH,
            "share": 1.0,
            "window_s": self.window_s,
            "log_query": True,
            **more,
        }
        await self.service.registry.put(key, config)
        await self.service.registry.set_state(key, "running", reason="demo")

    def _made_world(self) -> World:
        if self.world is None:
            raise Refused("not_ready", "the demo is being prepared", 1)
        return self.world

    @property
    def ready(self) -> bool:
        """Return whether lists can be shown."""
        return self.world is not None

    @property
    def experiment(self) -> str:
        """Return the experiment of the current stage."""
        return STAGES[self.stage]

    def stages(self) -> list[str]:
        """Return the stages that can be chosen: contenders once there is one."""
        return [stage for stage in STAGES if stage != "contenders" or self.trainings]

    async def page(self, rng: np.random.Generator | None = None, stage: str | None = None) -> dict[str, Any]:
        """Return a list for a random image: ``{"query", "documents", "token"}``."""
        world = self._made_world()
        rng = np.random.default_rng() if rng is None else rng
        key = STAGES[self.stage if stage is None else stage]
        query = int(rng.choice(world.queries))
        request = uuid.UUID(bytes=rng.bytes(16)).hex
        assigned = await self.service.assign(key, Assign(request))
        rankers = dict.fromkeys([*assigned.rankers, TWINS[0] if key == "twins" else EUCLIDEAN])
        rankings = {ranker: world.ranking(ranker, query, rng) for ranker in rankers}
        call = Show(request, rankings, LENGTH, query=f"d{query}", assignment=assigned.assignment)
        shown = await self.service.show(key, call)
        return {"query": query, "documents": shown.documents, "token": shown.token}

    async def click(self, token: str, places: list[int]) -> Taken:
        """Send clicks on positions, counted from 1."""
        return await self.service.clicks([{"token": token, "place": k, "action": "click"} for k in places])

    async def visit(self, rng: np.random.Generator | None = None, stage: str | None = None) -> None:
        """Make one simulated visit: a search, and clicks mostly on images of the same digit."""
        rng = self._rng if rng is None else rng
        page = await self.page(rng, stage)
        places = self._made_world().clicks(page["query"], page["documents"], rng)
        self.visits += 1
        if places and page["token"] is not None:
            await self.click(page["token"], places)

    async def _search(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            # on a slow machine visits are skipped instead of made in a burst
            due = max(due + 1 / self.visits_per_s, loop.time())
            await asyncio.sleep(due - loop.time())
            if not self.visitors:
                continue
            try:
                await self.visit()
            except Refused as error:
                _log.warning("a visit was refused: %s", error)
                await asyncio.sleep(1.0)

    async def train(self) -> ClickTraining:
        """Train a ranker from the closed impressions of the first experiment, and let it compete."""
        world = self._made_world()
        async with self._training:
            text = await asyncio.to_thread(b"".join, self.service.export("digits"))
            records = [json.loads(line) for line in text.splitlines()]
            if not any(record.get("clicks") for record in records):
                wait = f"no clicks are closed yet: click, wait {self.window_s:g} s, and try again"
                raise Refused("no_clicks", wait)
            name = f"clicks-{len(self.trainings) + 1}"
            try:
                found = await asyncio.to_thread(world.learn_from_clicks, name, records)
            except BadInput as error:
                raise Refused("no_clicks", str(error)) from None
            self.trainings.append(found)
            names = [EUCLIDEAN, LEARNED, *(one.name for one in self.trainings)]
            await self._create("contenders", names, kind="bandit")
            self.stage = "contenders"
            return found
