#!/usr/bin/env bash
# Run one real server in the foreground, on loopback: serve.sh DIR single|prefill|decode|router [more flags]
# Each port is a variable, see below. Two servers without --nccl-port that start in the same second may draw the
# same one, and one of them dies.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dir=${1:?usage: serve.sh DIR ROLE} role=${2:?usage: serve.sh DIR ROLE}
shift 2

: "${SINGLE_PORT:=30000}" "${SINGLE_NCCL_PORT:=31000}"
: "${PREFILL_PORT:=30001}" "${PREFILL_NCCL_PORT:=31001}" "${BOOTSTRAP_PORT:=8998}"
: "${DECODE_PORT:=30002}" "${DECODE_NCCL_PORT:=31002}"
: "${ROUTER_PORT:=30000}" "${ROUTER_METRICS_PORT:=29000}"

export PYTHONPATH=$here/shims SGLANG_USE_CPU_ENGINE=1 NIXL_HOST_MEMORY=1 UCX_TLS=tcp,self,sm
# With more threads than cores are left, torch takes 20 times as long for a token.
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-1}

server() {
  exec "$dir/venv/bin/python" -m sglang.launch_server --model-path "$dir/model" --load-format dummy --device cpu \
    --attention-backend torch_native --sampling-backend pytorch --grammar-backend none --disable-overlap-schedule \
    --mem-fraction-static 0.05 --max-total-tokens 8192 --enable-metrics --host 127.0.0.1 "$@"
}

case $role in
  single)
    server --port "$SINGLE_PORT" --nccl-port "$SINGLE_NCCL_PORT" "$@"
    ;;
  prefill)
    server --port "$PREFILL_PORT" --nccl-port "$PREFILL_NCCL_PORT" --disaggregation-mode prefill \
      --disaggregation-transfer-backend nixl --disaggregation-bootstrap-port "$BOOTSTRAP_PORT" "$@"
    ;;
  decode)
    server --port "$DECODE_PORT" --nccl-port "$DECODE_NCCL_PORT" --disaggregation-mode decode \
      --disaggregation-transfer-backend nixl "$@"
    ;;
  router)
    exec "$dir/venv/bin/python" -m sglang_router.launch_router --pd-disaggregation \
      --prefill "http://127.0.0.1:$PREFILL_PORT" "$BOOTSTRAP_PORT" --decode "http://127.0.0.1:$DECODE_PORT" \
      --policy random --host 127.0.0.1 --port "$ROUTER_PORT" --prometheus-port "$ROUTER_METRICS_PORT" "$@"
    ;;
  *)
    echo "serve.sh: no role '$role': single, prefill, decode or router" >&2
    exit 2
    ;;
esac
