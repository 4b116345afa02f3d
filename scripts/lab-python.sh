#!/usr/bin/env bash
# The Python of the browser tests: `scripts/lab-python.sh [--prefix DIR] [--wheel FILE]` makes a virtual environment with JupyterLab,
# the exact packages of tests/e2e/requirements.txt, by default /opt/infinijup/lab-venv, with JupyterHub and its proxy
# (tests/e2e/proxy), and puts Chromium and Redis' program on the machine (`apt-get`; no service is started).
#
# Notebooks on the GPU need NVIDIA's clients too. Those are in /opt/infinijup/gpu-venv (scripts/gpu-python.sh) and are found there
# by a line in a .pth file, their compiler by a link; both environments have the same interpreter and the same versions of what
# they share.
#
# With --wheel that wheel of ours is installed as well; if it is the one that is there already, nothing is done.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

prefix=/opt/infinijup/lab-venv
gpu=/opt/infinijup/gpu-venv
wheel=

say() { printf 'lab-python: %s\n' "$1" >&2; }
fail() {
    say "$1"
    exit 1
}

while [ $# -gt 0 ]; do
    case $1 in
        --prefix) prefix=${2:?--prefix needs a directory} && shift 2 ;;
        --wheel) wheel=$(realpath "${2:?--wheel needs a file}") && shift 2 ;;
        -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}" && exit 0 ;;
        *) fail "unknown argument \`$1\`; usage: lab-python.sh [--prefix DIR] [--wheel FILE]" ;;
    esac
done

# redis-tools has the server's program under another name: it looks at how it is called. The package redis-server would start a service.
missing=()
[ -x /usr/bin/chromium ] || missing+=(chromium)
[ -x /usr/bin/redis-check-rdb ] || missing+=(redis-tools)
fc-list 2>/dev/null | grep -q DejaVu || missing+=(fonts-dejavu-core)
if [ ${#missing[@]} -gt 0 ]; then
    [ "$(id -u)" -eq 0 ] || fail "must be root to install ${missing[*]}"
    apt-get -qq -o DPkg::Lock::Timeout=120 update >&2
    DEBIAN_FRONTEND=noninteractive apt-get -qq -y -o DPkg::Lock::Timeout=120 install --no-install-recommends "${missing[@]}" >&2
fi

scripts/test-python.sh --prefix "$prefix" --requirements tests/e2e/requirements.txt --imports 'jupyterlab, jupyterhub, playwright, redis, ipywidgets'
ln -sfn /usr/bin/redis-check-rdb "$prefix/bin/redis-server"
packages=$(echo "$prefix"/lib/python3.*/site-packages)
for other in "$gpu"/lib/python3.*/site-packages; do
    printf '%s\n' "$other" >"$packages/gpu-clients.pth"
    ln -sfn "$other/nvidia" "$packages/nvidia"
done

# The extension is built with node 20 or newer. Debian 12 has an older one, but Playwright brings one along.
node=$(command -v node || true)
case $("${node:-false}" --version 2>/dev/null || true) in
    v2[0-9].* | v[3-9][0-9].*) ;;
    *) ln -sfn "$packages/playwright/driver/node" "$prefix/bin/node" ;;
esac

# JupyterHub's proxy is a package of node's. JupyterLab brings a yarn along, which needs no npm.
if ! cmp --quiet tests/e2e/proxy/yarn.lock "$prefix/proxy/made-from.lock"; then
    rm -rf "$prefix/proxy"
    cp -r tests/e2e/proxy "$prefix/proxy"
    rm -rf "$prefix/proxy/node_modules"
    env -C "$prefix/proxy" PATH="$prefix/bin:$PATH" jlpm install --immutable >&2
    chmod -R a+rX "$prefix/proxy"
    cp tests/e2e/proxy/yarn.lock "$prefix/proxy/made-from.lock"
fi

if [ -n "$wheel" ]; then
    stamp=$(sha256sum "$wheel" | cut -d' ' -f1)
    if [ "$(cat "$prefix/.wheel" 2>/dev/null)" != "$stamp" ]; then
        umask 022
        "$prefix/bin/python" -m pip install --quiet --no-input --disable-pip-version-check --no-deps --force-reinstall "$wheel"
        chmod -R a+rX "$prefix"
        printf '%s\n' "$stamp" >"$prefix/.wheel"
        say "installed $(basename "$wheel")"
    fi
fi
