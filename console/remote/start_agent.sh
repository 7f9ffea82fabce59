# Fed to /bin/sh on the host; finds a Python and becomes it. @NAMES@ are replaced by quoted values.
# Nothing but POSIX sh and the usual tools: this runs before anything about the host is known.

usable() {
  "$1" -S -c 'import sys; sys.exit(sys.version_info < (3, 8))' </dev/null >/dev/null 2>&1
}

# The Python of one's own SGLang server has pynvml and httpx. Never that of another user's server: it would
# run their code as us.
of_servers() {
  pattern='sglang[.]launch_server|sglang_router[.]launch_route[r]|bin/sglan[g]'
  for file in $(grep -lsE "$pattern" /proc/[0-9]*/cmdline); do
    process=${file%/cmdline}
    [ -O "$process" ] || continue
    venv=$(tr '\000' '\n' <"$process/environ" | sed -n 's/^VIRTUAL_ENV=//p' | head -n 1)
    first=$(tr '\000' '\n' <"$file" | head -n 1)
    for python in "$first" "${venv:+$venv/bin/python}" "$(readlink "$process/exe")"; do
      case $python in /*/python*) echo "$python" ;; esac
    done
  done 2>/dev/null
}

# A version shim is a shell script named python3 that costs most of a second: real ones first.
of_path() {
  echo "$PATH:/usr/local/bin:/usr/bin:/bin:/opt/conda/bin" | tr ':' '\n' | while read -r folder; do
    for python in "$folder/python3" "$folder/python"; do
      [ -x "$python" ] || continue
      kind=real
      [ "$(head -c 2 "$python" | tr -d '\000')" = '#!' ] && kind=shim
      [ "$kind" = "$1" ] && echo "$python"
    done
  done 2>/dev/null
}

find_python() {
  { of_servers; of_path real; of_path shim; } | while read -r python; do
    usable "$python" && echo "$python" && break
  done
}

say() {
  printf '\n%s %s\n' @MARK@ "$1"
}

# One function, so that sh has read the whole script before Python takes over stdin.
main() {
  # What is launched later gets the login's own again.
  DSV4_LOGIN_LC_ALL=${LC_ALL-}
  LC_ALL=C
  export LC_ALL DSV4_LOGIN_LC_ALL
  python=@PYTHON@
  if [ -z "$python" ]; then
    python=$(find_python)
    [ -n "$python" ] || { say none; exit 3; }
  elif ! usable "$python"; then
    say unusable
    exit 3
  fi
  exec "$python" -S -c @BOOTSTRAP@
}
main
