#!/usr/bin/env bash
# The Python package with the JupyterLab extension in it: `scripts/build-wheel.sh [--venv DIR] [--out DIR]` leaves a wheel and a source
# archive in dist/. Needs node and a package registry, or a warm cache of yarn's (YARN_GLOBAL_FOLDER) and pip's.
#
# The build tools go into a virtual environment of their own, by default target/wheel-venv, which is kept for the next time. One that
# was made by somebody else is used as it is.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=$PWD/target/wheel-venv
out=$PWD/dist
python=${PYTHON:-python3}
requirements=python/infinijup/build-requirements.txt
built=python/infinijup/infinijup/labextension

say() { printf 'build-wheel: %s\n' "$1" >&2; }
fail() {
    say "$1"
    exit 1
}

while [ $# -gt 0 ]; do
    case $1 in
        --venv) venv=$(realpath -m "${2:?--venv needs a directory}") && shift 2 ;;
        --out) out=$(realpath -m "${2:?--out needs a directory}") && shift 2 ;;
        -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}" && exit 0 ;;
        *) fail "unknown argument \`$1\`; usage: build-wheel.sh [--venv DIR] [--out DIR]" ;;
    esac
done

command -v node >/dev/null || fail "needs node 20 or newer"

stamp=$({ cat "$requirements" && "$python" --version && printf '%s\n' "$venv"; } | sha256sum | cut -d' ' -f1)
if [ -d "$venv" ] && [ ! -f "$venv/.build-tools" ]; then
    [ -x "$venv/bin/jlpm" ] || fail "$venv has no jlpm: it needs what $requirements lists"
elif [ "$(cat "$venv/.build-tools" 2>/dev/null)" != "$stamp" ]; then
    rm -rf "$venv"
    "$python" -m venv "$venv"
    "$venv/bin/python" -m pip install --quiet --no-input --disable-pip-version-check --retries 5 --requirement "$requirements"
    printf '%s\n' "$stamp" >"$venv/.build-tools"
fi
export PATH=$venv/bin:$PATH

# A wheel holds what git has, built for production, and nothing that an earlier build left.
rm -rf "$built"
(cd labextension && jlpm install --immutable && jlpm build:prod)
[ -f "$built/package.json" ] || fail "the JupyterLab extension was not built to $built"

SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || echo 1577836800)
export SOURCE_DATE_EPOCH
mkdir -p "$out"
rm -f "$out"/infinijup-*.whl "$out"/infinijup-*.tar.gz
python -m build --no-isolation --outdir "$out" python/infinijup
for file in "$out"/infinijup-*; do
    say "$file"
done
