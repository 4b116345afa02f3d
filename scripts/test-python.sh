#!/usr/bin/env bash
# The Python of the end-to-end tests and benchmarks: `scripts/test-python.sh [--prefix DIR]` makes a virtual environment with
# the exact packages of tests/sessions/requirements.txt, by default /opt/infinijup/test-venv.
# `--requirements FILE --imports MODULES` makes another one; `scripts/gpu-python.sh` does.
#
# Kernels run as throw-away users, so every user must be able to execute it. That rules out an interpreter that lives in
# root's home, as pyenv's does: Debian's own /usr/bin/python3 is used.
#
# Does nothing if the environment was made from the same requirements and still runs.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

prefix=/opt/infinijup/test-venv
python=/usr/bin/python3
requirements=tests/sessions/requirements.txt
uv=0.13.8
imports='ipykernel, jupyter_client, numpy, pandas, pytest, pytest_timeout'

say() { printf 'test-python: %s\n' "$1" >&2; }
fail() {
    say "$1"
    exit 1
}

while [ $# -gt 0 ]; do
    case $1 in
        --prefix) prefix=${2:?--prefix needs a directory} && shift 2 ;;
        --prefix=*) prefix=${1#*=} && shift ;;
        --requirements) requirements=${2:?--requirements needs a file} && shift 2 ;;
        --imports) imports+=", ${2:?--imports needs names of modules}" && shift 2 ;;
        -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}" && exit 0 ;;
        *) fail "unknown argument \`$1\`; usage: test-python.sh [--prefix DIR] [--requirements FILE] [--imports MODULES]" ;;
    esac
done

# With those of the file that it builds on.
packages() {
    cat "$requirements"
    sed -n 's/^--requirement //p' "$requirements" | (cd "$(dirname "$requirements")" && xargs --no-run-if-empty cat)
}

# What the environment was made from: the packages, the interpreter and the place (scripts in it name their own path).
stamp=$({ packages && "$python" --version && printf '%s\n' "$prefix"; } | sha256sum | cut -d' ' -f1)

# As somebody who owns nothing but an empty home, in which some packages make directories: 65534 is nobody.
runs_for_everybody() {
    local as_nobody=() home status=0
    [ "$(id -u)" -ne 0 ] || as_nobody=(setpriv --reuid 65534 --regid 65534 --clear-groups)
    home=$(mktemp -d) && chmod 777 "$home"
    (cd / && HOME=$home "${as_nobody[@]}" "$prefix/bin/python" -c "import $imports") || status=$?
    rm -rf "$home"
    return "$status"
}

if [ "$(cat "$prefix/.made-from" 2>/dev/null)" = "$stamp" ] && runs_for_everybody; then
    say "$prefix is there already"
    exit 0
fi

[ -x "$python" ] || fail "needs Debian's $python (package python3)"
"$python" -c 'import ensurepip, venv' 2>/dev/null || fail "$python cannot make virtual environments (package python3-venv)"
rm -rf "$prefix"
mkdir -p "$prefix"
umask 022
"$python" -m venv "$prefix"
pip=("$prefix/bin/python" -m pip install --quiet --no-input --disable-pip-version-check --retries 5 --only-binary :all:)
# uv unpacks and compiles the same packages in half of pip's processor time. It knows nothing of pip's settings: where those say from where packages
# come, it may find none, and pip does it.
"${pip[@]}" "uv==$uv"
UV_CACHE_DIR=$prefix/uv-cache "$prefix/bin/uv" pip install --quiet --python "$prefix/bin/python" --only-binary :all: --compile-bytecode \
    --requirement "$requirements" || "${pip[@]}" --requirement "$requirements"
rm -rf "$prefix/uv-cache"
chmod -R a+rX "$prefix"
runs_for_everybody || fail "$prefix was made, but an unprivileged user cannot run it"
printf '%s\n' "$stamp" >"$prefix/.made-from"
say "made $prefix"
