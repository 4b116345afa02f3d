# shellcheck shell=bash
# The words that the stages are written in. Sourced by .ci/run, which also sets STAGES and REQUIRED, and by lanes; $RESULTS and
# $STAGE are those of the stage that is running.
#
# A result is one line in $RESULTS: `PASSED FAILED SKIPPED NAME`. A plain check counts one; a test runner counts as
# many as it ran.

# One set of build settings for all stages, and one profile, that of development: what is tested and what is run from outside is compiled
# once, with its assertions. Cargo.toml names what is optimised there, which makes programs quick enough for thousands of snapshots.
# Debug info and incremental state cost a third of a cold build and nobody looks at them here. A release is built under `--full` alone: out of the
# source archive, and of the version before.
export CARGO_INCREMENTAL=0
# A crate in one piece: in sixteen, what is generic and inlined is compiled in several of them. Our own crates took 878 s of processor time
# and take some 620, and what comes out is as fast. Two cores have enough to do with two crates at a time.
export CARGO_PROFILE_DEV_CODEGEN_UNITS=1
export CARGO_PROFILE_DEV_DEBUG=0
export CARGO_PROFILE_RELEASE_DEBUG=0
export CARGO_PROFILE_RELEASE_LTO=off
export CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
export CARGO_NET_RETRY=5
export CARGO_TERM_COLOR=never
export CARGO_TERM_PROGRESS_WHEN=never
export DEBIAN_FRONTEND=noninteractive
export LC_ALL=C.UTF-8

# For how long each fuzz target runs. Its corpus is gone through as a whole in any case.
FUZZ_SECONDS=${FUZZ_SECONDS:-3}

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

# Whether a skip is a failure: in a required stage on a CI machine. The machine must be made able, or what can never run there is left out by
# its name, with the reason beside it in the stage.
skips_fail() {
    # REQUIRED is one word to those who inherit it.
    # shellcheck disable=SC2086
    [ "${CI:-}" = true ] && contains "$STAGE" $REQUIRED
}

# What cannot run here.
skip() { # NAME REASON
    printf 'skipped: %s because %s\n' "$1" "$2"
    if skips_fail; then
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
# or if fewer than LEAST tests passed, so that a filter that matches nothing is not taken for success. Tests that the runner skipped are
# failures where skips are.
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
    if [ "$skipped" -gt 0 ] && skips_fail; then
        printf 'FAILED: %s skipped %d tests, but stage %s is required\n' "$name" "$skipped" "$STAGE"
        failed=$((failed + skipped)) skipped=0
    fi
    record "$passed" "$failed" "$skipped" "$name ($failed failed)"
    [ "$failed" -eq 0 ]
}

without_colour() {
    sed 's/\x1b\[[0-9;]*[A-Za-z]//g'
}

# nextest closes with `Summary [ 1.2s] 9/10 tests run: 7 passed (1 slow), 1 failed, 1 timed out, 2 skipped`. Tests of
# the second number that were never run count as failed. What it calls skipped are mostly tests of other filters; .ci/nextest.sh says
# before it which tests of this one are ignored.
count_nextest() {
    awk '
        function number(word) { return match($0, "[0-9]+ " word) ? substr($0, RSTART) + 0 : 0 }
        /^ignored: / { skipped++ }
        /^ *Summary \[/ {
            passed = number("passed")
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

# A tool from crates.io at an exact version, built once per machine; prints the path of its executable. Built without
# optimisation: these run for a second and take minutes to optimise; and only when nobody else wants the cores.
need_cargo_tool() { # NAME VERSION
    local root=$TOOLS/$1-$2
    if [ ! -x "$root/bin/$1" ]; then
        again 2 limit 1800 nice -n 19 cargo install "$1" --version "$2" --locked --debug --quiet --root "$root" \
            --target-dir "$SCRATCH/build-$1" >&2 || return 1
        rm -rf "$SCRATCH/build-$1"
    fi
    printf '%s\n' "$root/bin/$1"
}

# ---- the workspace ----

# Where `build` puts the programs.
PROGRAMS=${CARGO_TARGET_DIR:-target}/debug

# All packages but the fuzz targets: libFuzzer is C++, for which a machine need not have a compiler. `fuzz-smoke` builds those.
PACKAGES=(--workspace --exclude fuzz)

# Every build is of the whole workspace with its tests, also where a stage needs one program: another choice of packages is another
# choice of features, and everything would be compiled again. With --lib: a library that only tests ask for is not put where programs
# look for it.
build() {
    check "programs and tests build" 1200 cargo build "${PACKAGES[@]}" --lib --bins --tests --locked
}

# Marked `#[ignore]` because they are no tests by themselves: the parts and stories are run by the tests beside them, each in a process of
# its own, and `make_fixtures` is run by hand to add fixtures.
NOT_BY_THEMSELVES=(part_whole_cycle part_whole_cycle_in_a_box part_refused the_client make_fixtures story_there_and_back
    story_branches_share_what_is_free story_refused_before_any_lock story_the_driver_says_no story_a_daemon_that_died story_or_else_through_them the_daemon_of_a_story
    the_daemon_that_comes_after)

# Tests in Rust, by nextest where it is installed.
rust_tests() { # NAME LEAST FILTER CARGO-TEST-ARGUMENT…
    local name=$1 least=$2 filter=$3 part
    shift 3
    if cargo nextest --version >/dev/null 2>&1; then
        printf -v part '%s|' "${NOT_BY_THEMSELVES[@]}"
        check_tests "$name" "${RUST_TESTS_SECONDS:-900}" count_nextest "$least" .ci/nextest.sh "($filter) and not test(/(^|::)(${part%|})\$/)"
    else
        echo "cargo-nextest is not installed: cargo test runs all tests of the crates, without a time limit for each"
        check_tests "$name" 900 count_cargo_test "$least" cargo test "$@" --no-fail-fast --locked -- \
            "${NOT_BY_THEMSELVES[@]/#/--skip=}"
    fi
}

# Tests of the GPU's crates on the stand-in driver, as a filter of nextest. `gpu` runs them.
GPU_TESTS='(kind(test) and (package(cuda-sim) or package(checkpoint-cuda) or package(gpu-detect)))'
GPU_TESTS+=' or (package(machine) and binary(/real_gpu/))'
export GPU_TESTS

# Tests that need root and CRIU. `unit` leaves both kinds out, `sessions` runs these.
LIVE_TESTS='(kind(test) and (package(checkpoint-criu) or package(image-trust) or package(sandbox) or package(machine) or package(memory-path)))'
LIVE_TESTS+=' or (package(image-store) and test(/\breal::/))'
LIVE_TESTS="($LIVE_TESTS) and not ($GPU_TESTS)"
export LIVE_TESTS

# Tests of the programs from outside, by pytest in DIRECTORY. A test that hangs is ended by its own time limit; the one here is for a
# harness that hangs. The slowest are named: they are where the gate's time goes.
outside_tests() { # NAME DIRECTORY PYTHON LEAST PYTEST-ARGUMENT…
    local name=$1 directory=$2 python=$3 least=$4 programs
    programs=$(realpath "$PROGRAMS")
    shift 4
    check_tests "$name" "${OUTSIDE_TESTS_SECONDS:-3600}" count_pytest "$least" env -C "$directory" INFINIJUP_TESTS_REQUIRED=1 \
        INFINIJUP_PROGRAMS="$programs" INFINIJUP_CRIU=/opt/infinijup/criu/bin/criu PYTHONDONTWRITEBYTECODE=1 \
        "$python" -m pytest --durations=12 --durations-min=15 "$@"
}

# The whole product, with no browser.
end_to_end() { # NAME PYTHON LEAST PYTEST-ARGUMENT…
    local name=$1
    shift
    outside_tests "$name" tests/sessions "$@"
}

# What `endurance` runs, and `sessions` leaves out.
# shellcheck disable=SC2034
MANY_CYCLES=(test_leaks.py::test_a_small_kernel test_leaks.py::test_a_tiny_process)

# What `swaps` runs of tests/e2e, and `browser` leaves out.
# shellcheck disable=SC2034
UNDER_OPEN_PAGES=(test_swaps.py test_server_extension.py test_restarts.py)

# What `swaps` runs of tests/sessions, and `sessions` leaves out.
# shellcheck disable=SC2034
KERNELS_OF_JUPYTER=(test_provisioner.py test_other_kernels.py test_magic.py test_python_api.py)

# Everything that live sessions need, and the programs.
need_programs() { # WHAT-FOR
    if [ "$(id -u)" -ne 0 ]; then
        skip "$1" "it needs root"
        return 1
    fi
    installed sessions && build
}

# JupyterLab with its programs on the PATH, and our wheels, built once in a run; infinijup is installed beside it, once too, because others may
# be using it.
need_wheel() { # WHAT-FOR
    if [ "$(id -u)" -ne 0 ]; then
        skip "$1" "it needs root"
        return 1
    fi
    installed sessions lab && build || return
    export PATH=$LAB/bin:$PATH
    # Lanes want it at the same time: the second one waits, and finds it.
    local turn status=0
    exec {turn}>"$SCRATCH/wheel.lock" && flock "$turn"
    if [ ! -f "$SCRATCH/wheel.installed" ]; then
        make_wheel && touch "$SCRATCH/wheel.installed" || status=1
    fi
    exec {turn}>&-
    INFINIJUP_WHEEL=$(echo "$SCRATCH"/wheel/infinijup-*.whl)
    INFINIJUP_ARCHIVE=$(echo "$SCRATCH"/wheel/infinijup-*.tar.gz)
    INFINIJUP_CRIU_WHEEL=$(echo "$SCRATCH"/wheel/infinijup_criu-*.whl)
    export INFINIJUP_WHEEL INFINIJUP_ARCHIVE INFINIJUP_CRIU_WHEEL
    return $status
}

make_wheel() {
    check "wheels and source archive build" 900 scripts/build-wheel.sh --programs "$PROGRAMS" \
        --criu /opt/infinijup/criu --venv "$LAB" --out "$SCRATCH/wheel" &&
        check "the wheel is installed" 120 scripts/lab-python.sh --wheel "$(echo "$SCRATCH"/wheel/infinijup-*.whl)"
}

# Tests in Rust that skip themselves without root and CRIU, and must not here.
live_tests() { # NAME FILTER LEAST
    export INFINIJUP_TESTS_REQUIRED=1 INFINIJUP_CRIU=/opt/infinijup/criu/bin/criu
    rust_tests "$1" "$3" "$2" -p checkpoint-criu -p image-store -p image-trust -p sandbox -p machine -p cuda-sim -p checkpoint-cuda -p gpu-detect \
        --lib --test '*'
}

# ---- beside the stages ----
# What mostly waits runs beside the stages: the installs, and stages that are lanes. Of such a job there are NAME.pid, NAME.log,
# NAME.counts and, when it has ended, NAME.ended in $SCRATCH/beside.

begin_beside() { # NAME COMMAND…
    local job=$SCRATCH/beside/$1
    shift
    mkdir -p "$SCRATCH/beside"
    {
        RESULTS=$job.counts "$@" >"$job.log" 2>&1 </dev/null
        touch "$job.ended"
    } &
    printf '%s\n' $! >"$job.pid"
}

was_begun() { # NAME
    [ -f "$SCRATCH/beside/$1.pid" ]
}

runs_beside() { # NAME
    was_begun "$1" && [ ! -f "$SCRATCH/beside/$1.ended" ] && kill -0 "$(cat "$SCRATCH/beside/$1.pid")" 2>/dev/null
}

# Waits for a job, prints what it printed and counts what it counted, as if it had run here.
finish_beside() { # NAME
    local job=$SCRATCH/beside/$1
    while runs_beside "$1"; do sleep 1; done
    cat "$job.log"
    if [ -s "$job.counts" ]; then
        cat "$job.counts" >>"$RESULTS"
    else
        record 0 1 0 "$1 ended without a result"
    fi
}

# A gate that is ended early takes them with it: `timeout` passes the signal on to what it runs.
end_beside() {
    local file
    for file in "$SCRATCH"/beside/*.pid; do
        runs_beside "$(basename "$file" .pid)" && end_job "$(cat "$file")"
    done
}

# A job down to the commands that it has given a time limit. The job first, or it would go on with its next command.
end_job() { # PID
    local child children
    mapfile -t children < <(pgrep -P "$1")
    kill "$1" 2>/dev/null
    for child in "${children[@]}"; do
        if [ "$(cat "/proc/$child/comm" 2>/dev/null)" = timeout ]; then kill "$child"; else end_job "$child"; fi
    done
}
