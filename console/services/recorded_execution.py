"""A plan being carried out, and written into the journal as it goes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from console.domain.plan import Plan
from console.domain.plan_progress import PlanEvent, PlanResult, StepEvent
from console.services.execution import PlanExecution
from console.services.journal import Journal

Begin = Callable[[str | None], PlanExecution]
"""Makes the execution, given the name of the profile that it may go back to."""


class RecordedExecution:
    """See Execution."""

    def __init__(self, begin: Begin, plan: Plan, journal: Journal, host: str, by: str) -> None:
        self._begin = begin
        self._plan = plan
        self._journal = journal
        self._host = host
        self._by = by
        self._execution: PlanExecution | None = None
        self._aborted = False
        self.under_way = False
        """From the first event to the last."""

    @property
    def title(self) -> str:
        """The plan's."""
        return self._plan.title

    def abort(self) -> str:
        """See Execution."""
        self._aborted = True
        return "nothing was changed" if self._execution is None else self._execution.abort()

    async def events(self) -> AsyncGenerator[PlanEvent, None]:
        """See Execution."""
        self.under_way = True
        try:
            async with aclosing(self._recorded()) as events:
                async for event in events:
                    yield event
        finally:
            self.under_way = False

    async def _recorded(self) -> AsyncGenerator[PlanEvent, None]:
        plan, journal = self._plan, self._journal
        name = plan.profile.name if plan.profile else None
        before = await journal.last_verified(self._host, name)
        self._execution = self._begin(None if before is None else before.name)
        if self._aborted:
            self._execution.abort()
        commands = [command for step in plan.steps for command in step.commands]
        action = await journal.begin(self._host, plan, self._by, commands)
        result: PlanResult | None = None
        try:
            async with aclosing(self._execution.events()) as events:
                async for event in events:
                    if isinstance(event, StepEvent):
                        await journal.step(action, event)
                    else:
                        result = event
                        await journal.end(action, event)
                    yield event
        except Exception as error:
            # A plan that broke off is told of as well: the next console has to know.
            broken = PlanResult(state="failed", sentence=f"broke off: {error}")
            await asyncio.shield(journal.end(action, broken))
            raise
        assert result is not None
