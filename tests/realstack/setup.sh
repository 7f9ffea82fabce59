#!/usr/bin/env bash
# Build a real SGLang deployment that serves on a CPU: server, NIXL, router, a tiny model. No weights, no GPU.
# usage: setup.sh DIR     needs python3.11 and 4 GB of disk; 1 to 3 minutes, a second when DIR is up to date
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
dir=${1:?usage: setup.sh DIR}
python=$dir/venv/bin/python

mkdir -p "$dir"
exec 9>"$dir/lock"
flock 9

inputs=$(cd "$here" && find setup.sh make_model.py requirements*.txt shims -type f ! -name '*.pyc' -print0 |
  LC_ALL=C sort -z | xargs -0 sha256sum | sha256sum)
if [[ -f $dir/stamp && $(<"$dir/stamp") == "$inputs" ]]; then
  echo "up to date: $dir"
  exit 0
fi

install() { "$python" -m pip --disable-pip-version-check install --quiet "$@"; }

[[ -x $python ]] || python3.11 -m venv "$dir/venv"
install torch==2.13.0
install -r "$here/requirements.txt"
install --no-deps -r "$here/requirements-nodeps.txt"
"$python" "$here/make_model.py" "$dir/model"
# The CPU profiles find them there.
cp -r "$here/shims" "$dir/"
PYTHONPATH=$here/shims SGLANG_USE_CPU_ENGINE=1 "$python" -c 'import sglang.srt.entrypoints.http_server'

echo "$inputs" >"$dir/stamp"
echo "built: $dir"
