# shellcheck shell=bash
# What `pip install infinijup` gives, short of a browser: the sources of the JupyterLab extension, the Python package, the wheel.

# Whether two wheels have the same files, but for their own records.
SAME_FILES='
import sys, zipfile
def files(path):
    with zipfile.ZipFile(path) as wheel:
        return {name: wheel.read(name) for name in wheel.namelist() if not name.endswith("/RECORD")}
ours, theirs = map(files, sys.argv[1:])
different = [name for name in ours.keys() | theirs.keys() if ours.get(name) != theirs.get(name)]
sys.exit(f"they differ in {sorted(different)}" if different else 0)'

# Whether a wheel has the texts of both licences, as the repository has them.
HAS_LICENCES='
import pathlib, sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as wheel:
    inside = {pathlib.PurePath(name).name: wheel.read(name) for name in wheel.namelist() if ".dist-info/licenses/" in name}
outside = {name: pathlib.Path(name).read_bytes() for name in ("LICENSE-MIT", "LICENSE-APACHE")}
sys.exit(0 if inside == outside else f"it has {sorted(inside)}, or other texts")'

jupyter() {
    local archive=$SCRATCH/archive
    need_wheel "the JupyterLab extension" || return
    check "TypeScript is clean" 600 env -C labextension jlpm lint:check
    check_tests "TypeScript" 400 count_node_test 50 env -C labextension jlpm test
    check "Python is clean" 60 sh -c 'ruff check python/infinijup tests/e2e && ruff format --check tests/e2e'
    check "the wheel has the JupyterLab extension" 10 \
        sh -c 'python3 -m zipfile -l "$1" | grep -q share/jupyter/labextensions/infinijup/package.json' sh "$INFINIJUP_WHEEL"
    check "the wheel has the licences" 10 python3 -c "$HAS_LICENCES" "$INFINIJUP_WHEEL"
    # Whoever installs from the source archive may have no node: what node builds is in it.
    mkdir "$archive"
    check "the source archive gives the same wheel without node" 180 \
        env PATH=/nowhere "$LAB/bin/python" -m pip wheel --quiet --no-deps --no-build-isolation --wheel-dir "$archive" \
        "$(echo "$SCRATCH"/wheel/infinijup-*.tar.gz)" &&
        check "file by file" 10 python3 -c "$SAME_FILES" "$INFINIJUP_WHEEL" "$(echo "$archive"/infinijup-*.whl)"
    check "JupyterLab knows the extension" 180 sh -c 'jupyter labextension list 2>&1 | grep -E "infinijup .*enabled.*OK"'
    check "its server knows the extension" 180 sh -c 'jupyter server extension list 2>&1 | grep -E "infinijup .*OK"'
    check_tests "Python package in JupyterLab" 600 count_pytest 50 \
        env PYTHONDONTWRITEBYTECODE=1 "$LAB/bin/python" -m pytest -q python/infinijup/tests
}

jupyter
