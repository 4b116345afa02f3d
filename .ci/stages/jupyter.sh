# shellcheck shell=bash
# What users install, short of a browser: the sources of the JupyterLab extension, the Python package, the wheels and the Debian package.

jupyter() {
    need_wheel "what users install" || return 0
    check "TypeScript is clean" 600 env -C labextension jlpm lint:check
    check_tests "TypeScript" 400 count_node_test 150 env -C labextension jlpm test
    check "Python is clean" 60 sh -c 'ruff check python tests/e2e tests/install tests/containers && ruff format --check python/infinijup-criu tests/e2e tests/install tests/containers'
    check "JupyterLab knows the extension" 180 sh -c 'jupyter labextension list 2>&1 | grep -E "infinijup .*enabled.*OK"'
    check "its server knows the extension" 180 sh -c 'jupyter server extension list 2>&1 | grep -E "infinijup .*OK"'
    check_tests "Python package in JupyterLab" 600 count_pytest 410 \
        env PYTHONDONTWRITEBYTECODE=1 "$LAB/bin/python" -m pytest -q python/infinijup/tests
    outside_tests "wheels" tests/install "$LAB/bin/python" 18 test_wheel.py test_criu_wheel.py
    if [ -n "${INFINIJUP_ELSEWHERE:-}" ]; then
        check "the first steps on $INFINIJUP_ELSEWHERE" 900 tests/install/elsewhere.sh "$INFINIJUP_ELSEWHERE" "$SCRATCH/wheel"
        check "the first steps in a container" 900 tests/install/elsewhere.sh "$INFINIJUP_ELSEWHERE" "$SCRATCH/wheel" --podman
    fi
    if [ -n "${INFINIJUP_FROM_SOURCE:-}" ]; then
        check "the source archive is built by cargo" 3000 "$LAB/bin/python" -m pip wheel --quiet --no-deps --no-build-isolation \
            --disable-pip-version-check --wheel-dir "$SCRATCH/from-source" "$INFINIJUP_ARCHIVE"
    fi
    installed packager &&
        check "the Debian package builds" 300 scripts/build-deb.sh --programs "$PROGRAMS" \
            --cargo-deb "$(need_cargo_tool cargo-deb 3.8.0)" --fast --out "$SCRATCH/deb" || return 0
    INFINIJUP_DEB=$(echo "$SCRATCH"/deb/infinijup_*.deb)
    export INFINIJUP_DEB
    outside_tests "Debian package" tests/install "$LAB/bin/python" 6 test_deb.py
}

jupyter
