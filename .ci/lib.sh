# shellcheck shell=bash
# The words that the stages are written in. Sourced by .ci/run, which also sets STAGES and REQUIRED; $RESULTS and
# $STAGE are those of the stage that is running.
#
# A result is one line in $RESULTS: `PASSED FAILED SKIPPED NAME`. A plain check counts one; a test runner counts as
# many as it ran.

# One set of build settings for all stages, so that they share what they compile. Debug info and incremental state
# cost a third of a cold build and nobody looks at them here; thin LTO doubles the time of a release build.
export CARGO_INCREMENTAL=0
export CARGO_PROFILE_DEV_DEBUG=0
export CARGO_PROFILE_RELEASE_DEBUG=0
export CARGO_PROFILE_RELEASE_LTO=off
export CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
export CARGO_NET_RETRY=5
export CARGO_TERM_COLOR=never
export CARGO_TERM_PROGRESS_WHEN=never
export DEBIAN_FRONTEND=noninteractive
export LC_ALL=C.UTF-8

# Tools that we had to build are kept here, by version. A machine without it only takes longer.
TOOLS=${XDG_CACHE_HOME:-$HOME/.cache}/infinijup-ci

contains() { # WORD LIST…
    local word=$1 other
    shift
    for other; do [ "$word" = "$other" ] && return 0; done
    return 1
}

# ---- results ----

record() { # PASSED FAILED SKIPPED NAME
    printf '%s\n' "$*" >>"$RESULTS"
}

sum_results() { # FILE
    awk '{ p += $1; f += $2; s += $3 } END { printf "%d %d %d\n", p, f, s }' "$1"
}

tell() { # "PASSED FAILED SKIPPED"
    awk '{ printf "%d passed, %d failed, %d skipped\n", $1, $2, $3 }' <<<"$1"
}

# What cannot run here. In a required stage on a CI machine that is a failure: the machine must be made able.
skip() { # NAME REASON
    printf 'skipped: %s because %s\n' "$1" "$2"
    if [ "${CI:-}" = true ] && contains "$STAGE" "${REQUIRED[@]}"; then
        record 0 1 0 "$1 was skipped, but stage $STAGE is required: $2"
    else
        record 0 0 1 "$1"
    fi
}

# What cannot run on any machine that runs the gate. Never a failure.
skip_known() { # NAME REASON
    printf 'skipped: %s because %s\n' "$1" "$2"
    record 0 0 1 "$1"
}

# ---- checks ----

limit() { # SECONDS COMMAND…
    timeout --kill-after=10 "$@"
}

explain_status() { # STATUS SECONDS
    case $1 in
        124 | 137) printf 'time limit of %s s' "$2" ;;
        *) printf 'exit code %s' "$1" ;;
    esac
}

# One check: passes if the command does.
check() { # NAME SECONDS COMMAND…
    local name=$1 seconds=$2 begun=$SECONDS status
    shift 2
    printf -- '-- %s\n' "$name"
    limit "$seconds" "$@"
    status=$?
    if [ $status -eq 0 ]; then
        printf 'ok: %s (%d s)\n' "$name" $((SECONDS - begun))
        record 1 0 0 "$name"
    else
        printf 'FAILED: %s (%s)\n' "$name" "$(explain_status $status "$seconds")"
        record 0 1 0 "$name ($(explain_status $status "$seconds"))"
    fi
    return $status
}

# A test runner: counts what it ran. COUNTER is count_nextest, count_cargo_test, count_pytest or count_node_test. Fails if the command fails
# or if fewer than LEAST tests passed, so that a filter that matches nothing is not taken for success.
check_tests() { # NAME SECONDS COUNTER LEAST COMMAND…
    local name=$1 seconds=$2 counter=$3 least=$4 log status passed failed skipped
    shift 4
    log=$(mktemp -p "$SCRATCH")
    printf -- '-- %s\n' "$name"
    limit "$seconds" "$@" 2>&1 | tee "$log"
    status=${PIPESTATUS[0]}
    read -r passed failed skipped < <(without_colour <"$log" | "$counter")
    if [ "$status" -ne 0 ] && [ "$failed" -eq 0 ]; then
        # It did not get as far as counting: a build failure, a crash, the time limit.
        failed=1
        printf 'FAILED: %s (%s)\n' "$name" "$(explain_status "$status" "$seconds")"
    elif [ "$passed" -lt "$least" ]; then
        failed=$((failed + 1))
        printf 'FAILED: %s ran %d tests that passed, expected at least %d\n' "$name" "$passed" "$least"
    fi
    record "$passed" "$failed" "$skipped" "$name ($failed failed)"
    [ "$failed" -eq 0 ]
}

without_colour() {
    sed 's/\x1b\[[0-9;]*[A-Za-z]//g'
}

# nextest closes with `Summary [ 1.2s] 9/10 tests run: 7 passed (1 slow), 1 failed, 1 timed out, 2 skipped`. Tests of
# the second number that were never run count as failed.
count_nextest() {
    awk '
        function number(word) { return match($0, "[0-9]+ " word) ? substr($0, RSTART) + 0 : 0 }
        /^ *Summary \[/ {
            passed = number("passed"); skipped = number("skipped")
            failed = number("failed") + number("exec failed") + number("timed out")
            if (match($0, /[0-9]+\/[0-9]+ tests? run/)) {
                split(substr($0, RSTART, RLENGTH), run, /[\/ ]/)
                failed += run[2] - run[1]
            }
        }
        END { printf "%d %d %d\n", passed, failed, skipped }'
}

# cargo test closes each binary with `test result: ok. 3 passed; 0 failed; 1 ignored; …`.
count_cargo_test() {
    awk '
        /^test result: (ok|FAILED)\. [0-9]+ passed; [0-9]+ failed; [0-9]+ ignored/ {
            passed += $4; failed += $6; skipped += $8
        }
        END { printf "%d %d %d\n", passed, failed, skipped }'
}

# pytest closes with `==== 2 failed, 30 passed, 1 skipped, 1 error in 12.34s (0:00:12) ====`. A test that fails and whose
# clean-up fails too counts twice.
count_pytest() {
    awk '
        function number(word) { return match($0, "[0-9]+ " word) ? substr($0, RSTART) + 0 : 0 }
        /^=* ?([0-9]+ [a-z]+, )*[0-9]+ [a-z]+ in [0-9.]+s/ {
            passed = number("passed") + number("xpassed"); failed = number("failed") + number("error")
            skipped = number("skipped") + number("xfailed")
        }
        END { printf "%d %d %d\n", passed, failed, skipped }'
}

# node's own runner closes with lines such as `ℹ pass 12`, `ℹ fail 0`, `ℹ cancelled 0`, `ℹ skipped 1`, `ℹ todo 0`.
count_node_test() {
    awk '
        /^[^a-z]+ (pass|fail|cancelled|skipped|todo) [0-9]+$/ { n[$(NF - 1)] += $NF }
        END { printf "%d %d %d\n", n["pass"], n["fail"] + n["cancelled"], n["skipped"] + n["todo"] }'
}

# ---- tools ----

again() { # TIMES COMMAND…
    local times=$1 try
    shift
    for ((try = 1; try <= times; try++)); do
        "$@" && return 0
        sleep $((try * 3))
    done
    return 1
}

# Debian packages, installed only if missing.
need_apt() { # PACKAGE…
    local package missing=()
    for package; do
        dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
    done
    [ ${#missing[@]} -eq 0 ] && return 0
    command -v apt-get >/dev/null || return 1
    [ "$(id -u)" -eq 0 ] || return 1
    again 3 limit 180 apt-get -qq -o DPkg::Lock::Timeout=120 update >&2 || return 1
    again 3 limit 300 apt-get -qq -y -o DPkg::Lock::Timeout=120 install --no-install-recommends "${missing[@]}" >&2
}

# What live sessions need of Debian, beside CRIU and the Python of the tests, which have scripts of their own.
need_live_packages() {
    need_apt python3 python3-venv iproute2 passt btrfs-progs e2fsprogs util-linux passwd
}

# A tool from crates.io at an exact version, built once per machine; prints the path of its executable. Built without
# optimisation: these run for a second and take minutes to optimise.
need_cargo_tool() { # NAME VERSION
    local root=$TOOLS/$1-$2
    if [ ! -x "$root/bin/$1" ]; then
        again 2 limit 600 cargo install "$1" --version "$2" --locked --debug --quiet --root "$root" \
            --target-dir "$SCRATCH/build-$1" >&2 || return 1
        rm -rf "$SCRATCH/build-$1"
    fi
    printf '%s\n' "$root/bin/$1"
}

# ---- the workspace ----

# Names of the workspace's packages whose directory is DIRECTORY or below it (`crates`, `tests`, `bench`).
packages_under() { # DIRECTORY
    cargo metadata --no-deps --format-version 1 | python3 -c '
import json, os, sys
data = json.load(sys.stdin)
for package in sorted(data["packages"], key=lambda p: p["name"]):
    where = os.path.relpath(package["manifest_path"], data["workspace_root"])
    if where.startswith(sys.argv[1] + "/"):
        print(package["name"])' "$1"
}

# Cargo's arguments for all packages but those that have stages of their own, one to a line. Stages that build the product use
# these, all of them: another choice of packages is another choice of features, and everything would be compiled again.
product_packages() {
    local package
    printf '%s\n' --workspace --exclude workspace-checks
    while read -r package; do
        printf '%s\n' --exclude "$package"
    done < <(packages_under tests)
}

# Tests of the GPU's crates on the stand-in driver, as a filter of nextest. `gpu` runs them.
GPU_TESTS='(kind(test) and (package(cuda-sim) or package(checkpoint-cuda) or package(gpu-detect)))'
GPU_TESTS+=' or (package(lifecycle) and binary(/real_gpu/))'
export GPU_TESTS

# Tests that need root and CRIU. `unit` leaves both kinds out, `privileged` runs these.
LIVE_TESTS='(kind(test) and (package(checkpoint-criu) or package(sandbox) or package(lifecycle)))'
LIVE_TESTS+=' or (package(lifecycle) and test(/\breal::/))'
LIVE_TESTS="($LIVE_TESTS) and not ($GPU_TESTS)"
export LIVE_TESTS

# The programs that end-to-end tests run, optimised as the benchmarks have them: a thousand cycles of anything else take an hour.
PROGRAMS=(-p infinijupd -p cli -p sandbox -p checkpoint-cuda -p cuda-sim)

# Tests of the programs from outside, by pytest in DIRECTORY. A test that hangs is ended by its own time limit; the one here is for a
# harness that hangs.
outside_tests() { # NAME SECONDS DIRECTORY PYTHON LEAST PYTEST-ARGUMENT…
    local name=$1 seconds=$2 directory=$3 python=$4 least=$5 programs
    programs=$(realpath "${CARGO_TARGET_DIR:-target}/release")
    shift 5
    check_tests "$name" "$seconds" count_pytest "$least" env -C "$directory" INFINIJUP_TESTS_REQUIRED=1 \
        INFINIJUP_PROGRAMS="$programs" INFINIJUP_CRIU=/opt/infinijup/criu/bin/criu PYTHONDONTWRITEBYTECODE=1 \
        "$python" -m pytest "$@"
}

# The whole product, with no browser.
end_to_end() { # NAME PYTHON LEAST PYTEST-ARGUMENT…
    local name=$1
    shift
    outside_tests "$name" 2400 tests/privileged "$@"
}

# Everything that live sessions need, and the programs.
need_programs() { # WHAT-FOR
    if [ "$(id -u)" -ne 0 ]; then
        skip "$1" "it needs root"
        return 1
    fi
    if ! need_live_packages; then
        skip "$1" "Debian packages that it needs could not be installed"
        return 1
    fi
    check "CRIU 4.2 is installed" 300 scripts/install-criu.sh &&
        check "Python of the tests is installed" 600 scripts/test-python.sh &&
        check "programs build" 900 cargo build --release "${PROGRAMS[@]}" --locked
}

# JupyterLab, a browser and what builds our wheel, with their programs on the PATH.
LAB=/opt/infinijup/lab-venv

need_lab() { # WHAT-FOR
    if [ "$(id -u)" -ne 0 ]; then
        skip "$1" "it needs root"
        return 1
    fi
    if ! need_apt python3 python3-venv fontconfig; then
        skip "$1" "Debian packages that it needs could not be installed"
        return 1
    fi
    check "JupyterLab and a browser are installed" 900 scripts/lab-python.sh || return
    export PATH=$LAB/bin:$PATH
}

# Our wheel, built once in a run, installed beside JupyterLab.
need_wheel() { # WHAT-FOR
    need_lab "$1" || return
    if [ ! -d "$SCRATCH/wheel" ]; then
        # yarn keeps what it has downloaded in the user's home; a machine without that only takes longer.
        check "wheel and source archive build" 900 scripts/build-wheel.sh --venv "$LAB" --out "$SCRATCH/wheel" || return
    fi
    INFINIJUP_WHEEL=$(echo "$SCRATCH"/wheel/infinijup-*.whl)
    export INFINIJUP_WHEEL
    check "the wheel is installed" 120 scripts/lab-python.sh --wheel "$INFINIJUP_WHEEL"
}

# Tests in Rust that skip themselves without root and CRIU, and must not here.
live_tests() { # NAME FILTER LEAST CARGO-ARGUMENT…
    local name=$1 filter=$2 least=$3
    shift 3
    export INFINIJUP_TESTS_REQUIRED=1 INFINIJUP_CRIU=/opt/infinijup/criu/bin/criu
    if cargo nextest --version >/dev/null 2>&1; then
        check_tests "$name" 900 count_nextest "$least" cargo nextest run "$@" --profile ci --locked -E "$filter"
    else
        echo "cargo-nextest is not installed: cargo test runs all tests of the crates, also those that ran before"
        check_tests "$name" 900 count_cargo_test "$least" cargo test -p checkpoint-criu -p sandbox -p lifecycle -p cuda-sim \
            -p checkpoint-cuda -p gpu-detect --lib --test '*' --no-fail-fast --locked
    fi
}

# ---- the lane ----
# A thousand cycles take long and mostly wait, so they run beside `privileged` and `gpu`; `endurance` waits for them and counts.
# A lane that was begun is in $SCRATCH: lane.pid, lane.log, lane.results, and lane.done when it has ended.

THOUSAND_CYCLES=test_leaks.py::test_a_small_kernel

run_thousand_cycles() {
    end_to_end "end to end, a thousand cycles" /opt/infinijup/test-venv/bin/python 1 "$THOUSAND_CYCLES"
}

begin_lane() {
    (
        RESULTS=$SCRATCH/lane
        run_thousand_cycles >"$SCRATCH/lane.log" 2>&1
        touch "$SCRATCH/lane.done"
    ) &
    printf '%s\n' $! >"$SCRATCH/lane.pid"
}

# A gate that is ended early takes the lane with it: `timeout` passes the signal on to pytest, which ends its daemons.
end_lane() {
    local pid
    [ -f "$SCRATCH/lane.pid" ] && [ ! -f "$SCRATCH/lane.done" ] || return 0
    pid=$(cat "$SCRATCH/lane.pid")
    pkill -TERM -P "$pid" 2>/dev/null
    kill "$pid" 2>/dev/null
}
