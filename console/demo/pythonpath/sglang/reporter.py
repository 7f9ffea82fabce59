"""The log of a serving server: Prefill and Decode batch lines, access lines, incidents."""

from __future__ import annotations

import random

from demohost.load import CACHED_TOKENS, PROMPT_TOKENS

from sglang.engine import Engine
from sglang.incidents import Incident, incidents_between
from sglang.log import ServerLog
from sglang.memory import SWA_SHARE, MemoryPlan
from sglang.server_args import ServerArgs

_IDLE_GAUGE_S = 30.0
_SWA_TOKENS_EACH = 512


class Reporter:
    """Writes what the engine did since the last time."""

    def __init__(
        self, args: ServerArgs, plan: MemoryPlan, engine: Engine, log: ServerLog, now: float
    ) -> None:
        self.gen_tok_s = 0.0
        """Of the last Decode line; 0 when that is long ago."""
        self._args, self._plan, self._engine, self._log = args, plan, engine, log
        self._random = random.Random(args.port + 1)
        self._now = self._decode_at = self._prefill_at = now
        self._decoded = self._iterations = self._prefilled = 0.0
        self._batch_goal = 4096
        self._finished = 0

    def report(self, now: float) -> None:
        """Write the lines that are due."""
        if self._args.role != "decode":
            self._report_prefill(now)
        if self._args.role != "prefill":
            self._report_decode(now)
        self._report_access()
        if self._engine.load.running:
            for incident in incidents_between(self._now, now):
                self._report_incident(incident)
        self._now = now

    def _report_prefill(self, now: float) -> None:
        computed = self._engine.metrics.realtime_tokens.value(("mode", "prefill_compute"))
        fresh = int(computed - self._prefilled)
        if fresh < self._batch_goal and not (fresh and self._engine.real):
            return
        rate = fresh / max(0.05, now - self._prefill_at)
        self._log.line(self._prefill_line(fresh, rate), rank=0)
        self._prefilled, self._prefill_at = computed, now
        self._batch_goal = self._random.randint(2400, int(self._args.resolved["chunked_prefill_size"]))

    def _prefill_line(self, fresh: int, rate: float) -> str:
        engine, new = self._engine, PROMPT_TOKENS - CACHED_TOKENS
        sequences = max(1, round(fresh / new))
        waiting = self._random.randint(0, 1 + round(3 * engine.load.swell)) if engine.load.running else 0
        pd = ""
        if self._args.role == "prefill":
            pd = f"#bootstrap-req: {waiting // 2}, #inflight-req: {min(2, waiting)}, #optimistic-req: 0, "
        running = engine.running if self._args.role == "single" else 0
        return (
            f"Prefill batch, #new-seq: {sequences}, #new-token: {fresh}, "
            f"#cached-token: {sequences * CACHED_TOKENS if engine.load.running else 0}, "
            f"full token usage: {engine.usage:.2f}, swa token usage: {self._swa_usage():.2f}, "
            f"#running-req: {running}, #queue-req: {waiting}, #pending-token: {waiting * new}, {pd}"
            f"cuda graph: False, input throughput (token/s): {rate:.2f}"
        )

    def _report_decode(self, now: float) -> None:
        engine = self._engine
        if engine.iterations - self._iterations < self._args.resolved["decode_log_interval"]:
            if now - self._decode_at > _IDLE_GAUGE_S:
                self.gen_tok_s = 0.0
            return
        decoded = engine.metrics.realtime_tokens.value(("mode", "decode"))
        self.gen_tok_s = (decoded - self._decoded) / (now - self._decode_at)
        self._log.line(self._decode_line(), rank=0)
        self._decoded, self._decode_at, self._iterations = decoded, now, engine.iterations

    def _decode_line(self) -> str:
        args, engine = self._args, self._engine
        speculative = pd = ""
        if args.speculates:
            length = args.accept_length + self._random.uniform(-0.12, 0.12)
            rate = (length - 1) / (args.draft_tokens - 1)
            speculative = f"accept len: {length:.2f}, accept rate: {rate:.2f}, "
        if args.role == "decode":
            transferring = self._random.randint(0, 1) if engine.load.running else 0
            pd = (
                f"pre-allocated usage: 0.00, #prealloc-req: {engine.queued}, "
                f"#transfer-req: {transferring}, #retracted-req: 0, "
            )
        return (
            f"Decode batch, #running-req: {engine.running}, #full token: {engine.used_tokens}, "
            f"full token usage: {engine.usage:.2f}, #swa token: {engine.running * _SWA_TOKENS_EACH}, "
            f"swa token usage: {self._swa_usage():.2f}, {speculative}{pd}"
            f"cuda graph: {bool(args.graph_sizes)}, gen throughput (token/s): {self.gen_tok_s:.2f}, "
            f"#queue-req: {0 if args.role == 'decode' else engine.queued}"
        )

    def _swa_usage(self) -> float:
        return min(1.0, self._engine.running * _SWA_TOKENS_EACH / (self._plan.tokens * SWA_SHARE))

    def _report_access(self) -> None:
        for _ in range(self._engine.finished - self._finished):
            self._access("200 OK")
        self._finished = self._engine.finished

    def _access(self, status: str) -> None:
        port = self._random.randint(32768, 60999)
        self._log.uvicorn("INFO", f'127.0.0.1:{port} - "POST /v1/completions HTTP/1.1" {status}')

    def _report_incident(self, incident: Incident) -> None:
        if incident.kind == "transfer failed" and self._args.role != "single":
            self._engine.metrics.transfer_failed.add(1)
            self._log.line(self._transfer_failure(incident), rank=0)
        elif incident.kind == "too long":
            self._log.line(f"[http_server] Error: {too_long(1048576, 1051002, 4096)}")
            self._access("400 Bad Request")
        elif incident.kind == "client left":
            self._log.line(
                "[http_server] Client disconnected: Request is disconnected from the client side. "
                f"Abort request rid='{incident.rid}'"
            )
            self._engine.metrics.aborted.add(1)
        elif incident.kind == "old endpoint":
            self._log.line(deprecated("/get_server_info", "/server_info"))

    def _transfer_failure(self, incident: Incident) -> str:
        room = incident.number
        if self._args.role == "prefill":
            return (
                f"Prefill transfer failed for request rank=0 req.rid='{incident.rid}' "
                f"req.bootstrap_room={room} with exception KVTransferError(bootstrap_room={room}): "
                "Aborted by decode-side abort notification."
            )
        return (
            f"Decode transfer failed for request rank=0 decode_req.req.rid='{incident.rid}' "
            f"decode_req.req.bootstrap_room={room} with exception KVTransferError(bootstrap_room={room}): "
            f"Request {room} timed out after 300.1s in KVPoll.WaitingForInput"
        )


def too_long(context_length: int, prompt_tokens: int, max_tokens: int) -> str:
    """Why a request does not fit."""
    return (
        f"Requested token count exceeds the model's maximum context length of {context_length} tokens. "
        f"You requested a total of {prompt_tokens + max_tokens} tokens: {prompt_tokens} tokens from the "
        f"input messages and {max_tokens} tokens for the completion. Please reduce the number of tokens in "
        "the input messages or the completion to fit within the limit."
    )


def deprecated(old: str, new: str) -> str:
    """What is said when an endpoint's old name is used."""
    return (
        f"Endpoint '{old}' is deprecated and will be removed in a future version. Please use '{new}' instead."
    )
