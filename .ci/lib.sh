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

# A test runner: counts what it ran. COUNTER is count_nextest, count_cargo_test or count_pytest. Fails if the command fails
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

# Tests that need root and CRIU, as a filter of nextest. `unit` leaves them out, `privileged` runs them.
LIVE_TESTS='(kind(test) and (package(checkpoint-criu) or package(sandbox) or package(lifecycle)))'
LIVE_TESTS+=' or (package(lifecycle) and test(/\breal::/))'
export LIVE_TESTS
