"""An A/B being carried out, and written into the journal as one action beside its switches."""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing

import msgspec

from console.domain.bench.ab import ABEvent, ABResult, Experiment, in_short
from console.domain.journal_entry import ActionState, JournalEntry
from console.services.journal import Journal


class RecordedAB:
    """See Experiment."""

    def __init__(self, experiment: Experiment, journal: Journal, host: str, by: str) -> None:
        self._experiment = experiment
        self._journal = journal
        self._entry = JournalEntry(id=secrets.token_hex(6), host=host, verb="ab", by=by, begun_at=time.time())
        self._aborted = False

    def abort(self) -> str:
        """See Experiment."""
        self._aborted = True
        return self._experiment.abort()

    async def events(self) -> AsyncGenerator[ABEvent, None]:
        """See Experiment."""
        await self._journal.note(self._entry)
        try:
            async with aclosing(self._experiment.events()) as events:
                async for event in events:
                    if isinstance(event, ABResult):
                        await self._end(self._state(event), in_short(event))
                    yield event
        except Exception as error:
            await self._end("failed", f"broke off: {error}")
            raise

    def _state(self, result: ABResult) -> ActionState:
        if self._aborted:
            return "aborted"
        return "done" if result.answered else "failed"

    async def _end(self, state: ActionState, sentence: str) -> None:
        now = time.time()
        await self._journal.note(
            msgspec.structs.replace(
                self._entry,
                ended_at=now,
                seconds=now - self._entry.begun_at,
                state=state,
                sentence=sentence,
            )
        )
