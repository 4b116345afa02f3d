#!/usr/bin/env bash
# The wheels: `scripts/build-wheel.sh [--programs DIR | --manylinux] [--criu PREFIX] [--venv DIR] [--out DIR]` leaves in dist/ the wheel
# `infinijup`, with the programs and the JupyterLab extension in it, and its source archive. Needs node and a package registry, or
# a warm cache of yarn's (YARN_GLOBAL_FOLDER) and pip's.
#
#   --programs DIR   pack the release programs that are in DIR already, as they were built for this machine's glibc and newer
#   --manylinux      build them for glibc 2.28 and newer (cargo-zigbuild, with zig from the Python index)
#   --criu PREFIX    also the wheel `infinijup-criu`, of what scripts/install-criu.sh put at PREFIX
#
# Without either, cargo builds the programs. They are packed stripped. The wheel's name says which glibc they need: that is read from them.
#
# The build tools go into a virtual environment of their own, by default target/wheel-venv, which is kept for the next time. One that
# was made by somebody else is used as it is.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=$PWD/target/wheel-venv
out=$PWD/dist
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
programs=
manylinux=
criu=
python=${PYTHON:-python3}
requirements=python/infinijup/build-requirements.txt
built=python/infinijup/infinijup/labextension
zig=(cargo-zigbuild==0.24.0 ziglang==0.17.0)
glibc=2.28

say() { printf 'build-wheel: %s\n' "$1" >&2; }
fail() {
    say "$1"
    exit 1
}

while [ $# -gt 0 ]; do
    case $1 in
        --venv) venv=$(realpath -m "${2:?--venv needs a directory}") && shift 2 ;;
        --out) out=$(realpath -m "${2:?--out needs a directory}") && shift 2 ;;
        --programs) programs=$(realpath -m "${2:?--programs needs a directory}") && shift 2 ;;
        --manylinux) manylinux=yes && shift ;;
        --criu) criu=$(realpath -m "${2:?--criu needs a directory}") && shift 2 ;;
        -h | --help) sed -n '2,/^set/{/^set/d;s/^# \{0,1\}//;p}' "${BASH_SOURCE[0]}" && exit 0 ;;
        *) fail "unknown argument \`$1\`; \`build-wheel.sh --help\` names those that there are" ;;
    esac
done

command -v node >/dev/null || fail "needs node 20 or newer"
[ -z "$criu" ] || [ -x "$criu/lib/infinijup-criu/criu" ] || fail "there is no CRIU at $criu: scripts/install-criu.sh --prefix $criu puts it there"

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

# ---- the programs ----

names=()
packages=()
while read -r name package; do
    names+=("$name")
    packages+=(--package "$package")
done < <(grep -v '^#' python/infinijup/programs.txt)

if [ -n "$manylinux" ]; then
    [ -z "$programs" ] || fail "--programs are built already: --manylinux cannot change them"
    tools=$PWD/target/zig-venv
    if ! "$tools/bin/cargo-zigbuild" --version >/dev/null 2>&1; then
        "$python" -m venv "$tools"
        "$tools/bin/python" -m pip install --quiet --no-input --disable-pip-version-check --retries 5 "${zig[@]}"
    fi
    triple=$(rustc -vV | sed -n 's/^host: //p')
    PATH=$tools/bin:$PATH CARGO_ZIGBUILD_PYTHON_PATH=$tools/bin/python \
        cargo zigbuild --release --locked --target-dir "$target" --target "$triple.$glibc" "${packages[@]}"
    programs=$target/$triple/release
elif [ -z "$programs" ]; then
    cargo build --release --locked --target-dir "$target" "${packages[@]}"
    programs=$target/release
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
for name in "${names[@]}"; do
    [ -x "$programs/$name" ] || fail "there is no program $name in $programs"
    strip --strip-all -o "$work/$name" "$programs/$name"
    chmod 755 "$work/$name"
done
export INFINIJUP_PROGRAMS=$work

# ---- the JupyterLab extension ----

# A wheel holds what git has, built for production, and nothing that an earlier build left.
rm -rf "$built"
(cd labextension && jlpm install --immutable && jlpm build:prod)
[ -f "$built/package.json" ] || fail "the JupyterLab extension was not built to $built"

# ---- the wheels ----

SOURCE_DATE_EPOCH=$(git log -1 --format=%ct 2>/dev/null || echo 1577836800)
export SOURCE_DATE_EPOCH
mkdir -p "$out"
rm -f "$out"/infinijup{,_criu}-*.whl "$out"/infinijup-*.tar.gz
python -m build --no-isolation --outdir "$out" python/infinijup
if [ -n "$manylinux" ]; then
    version=$(echo "$out"/infinijup-*.whl | sed -n 's/.*manylinux_\([0-9]*\)_\([0-9]*\)_.*/\1.\2/p')
    [ "$(printf '%s\n' "$glibc" "$version" | sort -V | tail -n 1)" = "$glibc" ] || fail "the programs need glibc $version, not $glibc"
fi
if [ -n "$criu" ]; then
    rm -rf python/infinijup-criu/prefix
    cp -r "$criu" python/infinijup-criu/prefix
    python -m build --no-isolation --wheel --outdir "$out" python/infinijup-criu
    rm -rf python/infinijup-criu/prefix
fi
for file in "$out"/infinijup*; do
    say "$file ($(stat -c %s "$file") bytes)"
done
