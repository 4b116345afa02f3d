#!/usr/bin/env bash
# Tests of the gate itself: does it count right, and does it fail when it must? Runs the real .ci/run on a copy whose
# stages are fakes. Prints what went wrong and exits 1 at the first surprise.
set -uo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
SCRATCH=$(mktemp -d) || exit 2
trap 'rm -rf "$SCRATCH"' EXIT
# shellcheck source=.ci/lib.sh
source "$here/lib.sh"

surprise() { # WHAT
    printf 'surprise: %s\n' "$1" >&2
    exit 1
}

# ---- counting ----

counts() { # COUNTER EXPECTED TEXT
    local got
    got=$(printf '%b' "$3" | without_colour | "$1")
    [ "$got" = "$2" ] || surprise "$1 made \`$got\` of: $3"
}
counts count_nextest "4 0 0" '     Summary [   0.013s] 4 tests run: 4 passed, 0 skipped\n'
counts count_nextest "1 0 0" '     Summary [   0.013s] 1 test run: 1 passed (1 leaky), 7 skipped\n'
counts count_nextest "1 0 2" 'ignored: x::y a\nignored: x::y b\n     Summary [   0.013s] 1 test run: 1 passed, 7 skipped\n'
counts count_nextest "7 3 0" 'Summary [ 9s] 10 tests run: 7 passed (1 slow, 1 flaky), 1 failed, 1 exec failed, 1 timed out, 2 skipped\n'
counts count_nextest "3 6 0" 'Summary [ 9s] 4/9 tests run: 3 passed, 1 failed, 0 skipped\n'
counts count_nextest "2 1 0" '\033[31;1m     Summary\033[0m [ 1s] 3 tests run: 2 \033[32mpassed\033[0m, 1 failed, 0 skipped\n'
counts count_nextest "0 0 0" 'error: could not compile `x`\n'
counts count_cargo_test "5 1 2" 'test result: ok. 3 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out; finished in 0.00s\ntest result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s\n'
counts count_cargo_test "0 0 0" 'a test printed: test result: ok. 3 passed; 0 failed; 2 ignored\n'
counts count_pytest "30 3 1" '==== 2 failed, 30 passed, 1 skipped, 4 deselected, 1 error in 12.34s (0:00:12) ====\n'
counts count_pytest "1 0 0" '1 passed in 0.03s\n'
counts count_pytest "0 0 0" '==== no tests ran in 0.01s ====\n'
counts count_pytest "0 0 0" 'a test said: 3 passed, 1 failed\n'
counts count_node_test "12 3 2" 'ℹ tests 17\nℹ suites 4\nℹ pass 12\nℹ fail 1\nℹ cancelled 2\nℹ skipped 1\nℹ todo 1\nℹ duration_ms 90.1\n'
counts count_node_test "0 0 0" 'a test said: pass 3\n'

# ---- the whole gate ----

copy=$SCRATCH/copy
cp -r "$here" "$SCRATCH/.ci" && mkdir -p "$copy" && mv "$SCRATCH/.ci" "$copy/.ci"

# Installs that touch nothing.
cat >>"$copy/.ci/installs.sh" <<EOF
INSTALLS=(good bad forbidden)
installs_of() { [ "\$1" != unit ] || echo forbidden bad good; }
install_good() { touch "$SCRATCH/good-was-made"; }
install_bad() { echo "the network is down"; return 1; }
install_forbidden() { return \$CANNOT; }
install_late() { echo "made by the stage"; }
share_compiled_c() { :; }
EOF

stage() { # NAME SCRIPT
    printf '%s\n' "$2" >"$copy/.ci/stages/$1.sh"
}
gate() { # CI EXPECTED-EXIT-CODE EXPECTED-LAST-LINE STAGE…
    local ci=$1 code=$2 last=$3 status
    shift 3
    CI=$ci "$copy/.ci/run" "$@" >"$SCRATCH/out" 2>&1
    status=$?
    [ $status -eq "$code" ] || surprise "exit code $status, not $code, from: $* $(cat "$SCRATCH/out")"
    [ "$(tail -n 1 "$SCRATCH/out")" = "$last" ] || surprise "last line is not \`$last\`: $(cat "$SCRATCH/out")"
}
printed() { # TEXT
    grep -qF "$1" "$SCRATCH/out" || surprise "\`$1\` was not printed: $(cat "$SCRATCH/out")"
}

files=("$copy"/.ci/stages/*.sh)
for file in "${files[@]}"; do stage "$(basename "$file" .sh)" 'check fine 5 true'; done
# Also holds that every stage file is named in STAGES.
gate true 0 "${#files[@]} passed, 0 failed, 0 skipped"
printed "stage lint: 1 passed, 0 failed, 0 skipped"

stage unit 'check good 5 true; check bad 5 false; check after 5 true'
gate true 1 "3 passed, 1 failed, 0 skipped" lint unit
printed "failed: bad (exit code 1)"

stage unit 'check slow 1 sleep 30'
gate true 1 "0 passed, 1 failed, 0 skipped" unit
printed "time limit of 1 s"

stage unit 'skip thing "it is not here"'
gate true 1 "0 passed, 1 failed, 0 skipped" unit
gate false 0 "0 passed, 0 failed, 1 skipped" unit
printed "skipped: thing because it is not here"

stage unit 'check good 5 true; skip_known thing "it is nowhere"'
gate true 0 "1 passed, 0 failed, 1 skipped" unit

stage unit 'true'
gate true 1 "0 passed, 1 failed, 0 skipped" unit
printed "recorded no result"
stage unit 'check good 5 true; exit 3'
gate true 1 "1 passed, 1 failed, 0 skipped" unit

result='echo "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured"'
stage unit "check_tests t 5 count_cargo_test 1 sh -c '$result'"
gate false 0 "3 passed, 0 failed, 1 skipped" unit
gate true 1 "3 passed, 1 failed, 0 skipped" unit
printed "FAILED: t skipped 1 tests, but stage unit is required"
stage unit "check_tests t 5 count_cargo_test 4 sh -c '$result'"
gate false 1 "3 passed, 1 failed, 1 skipped" unit
stage unit "check_tests t 5 count_cargo_test 1 sh -c '$result; exit 101'"
gate false 1 "3 passed, 1 failed, 1 skipped" unit

stage unit 'if read -r line; then echo "got $line"; else check "no stdin" 5 true; fi'
gate true 0 "1 passed, 0 failed, 0 skipped" unit <<<"typed"

# Installs go on beside the stages; what they have become is asked by the stage that needs it.
stage unit "check 'it is made before anybody asks' 5 sh -c 'until [ -f $SCRATCH/good-was-made ]; do sleep 0.1; done'; installed good late"
gate true 0 "3 passed, 0 failed, 0 skipped" unit
stage unit 'installed good bad && check after 5 true'
gate true 1 "1 passed, 1 failed, 0 skipped" unit
printed "the network is down"
printed "failed: bad could not be installed"
stage unit 'if installed forbidden; then check after 5 true; fi'
gate false 0 "0 passed, 0 failed, 1 skipped" unit
gate true 1 "0 passed, 1 failed, 0 skipped" unit
rm "$SCRATCH/good-was-made"
gate true 0 "1 passed, 0 failed, 0 skipped" lint
[ ! -f "$SCRATCH/good-was-made" ] || surprise "what no chosen stage needs was installed"

stage unit 'begin_beside job check bad 5 false; check good 5 true; finish_beside job'
gate true 1 "1 passed, 1 failed, 0 skipped" unit
printed "FAILED: bad (exit code 1)"
stage unit 'begin_beside job true; finish_beside job'
gate true 1 "0 passed, 1 failed, 0 skipped" unit
printed "failed: job ended without a result"
stage unit "check fine 5 true; begin_beside job limit 60 sh -c 'echo \$\$ >$SCRATCH/pid; exec sleep 60'; until [ -s $SCRATCH/pid ]; do sleep 0.1; done"
gate true 0 "1 passed, 0 failed, 0 skipped" unit
# It was told to end, and may need a moment.
for _ in {1..50}; do
    kill -0 "$(cat "$SCRATCH/pid")" 2>/dev/null || break
    sleep 0.1
done
if kill -0 "$(cat "$SCRATCH/pid")" 2>/dev/null; then surprise "a job went on after the gate"; fi

# Lanes run beside each other, have a /dev of their own, and are counted in their turn.
stage sessions "check 'the other lane runs meanwhile' 20 sh -c 'until [ -f $SCRATCH/lane ]; do sleep 0.1; done; ! [ -e /dev/only-in-the-lane ]'"
stage gpu "[ \"\$(id -u)\" -ne 0 ] || touch /dev/only-in-the-lane; touch $SCRATCH/lane; check 'it is counted' 5 true; check bad 5 false"
gate true 1 "2 passed, 1 failed, 0 skipped" sessions gpu
printed "stage gpu: 1 passed, 1 failed, 0 skipped"
printed "lane gpu ran from second"
# They begin when what comes before has run.
stage unit "check 'no lane has begun' 5 sh -c 'sleep 1; ! [ -f $SCRATCH/early ]'"
stage sessions "touch $SCRATCH/early; check fine 5 true"
stage gpu 'check fine 5 true'
gate true 0 "3 passed, 0 failed, 0 skipped" unit sessions gpu
# No more at a time than there is room for. Each of those that have it waits until there would be one too many, in vain.
mkdir "$SCRATCH/running"
for name in sessions browser containers swaps gpu endurance; do
    stage $name "touch $SCRATCH/running/$name; for i in 1 2 3 4 5 6 7 8; do ls $SCRATCH/running | wc -l >>$SCRATCH/seen; sleep 0.1; done; rm $SCRATCH/running/$name; check fine 5 true"
done
gate true 0 "6 passed, 0 failed, 0 skipped" sessions browser containers swaps gpu endurance
[ "$(sort -n "$SCRATCH/seen" | tail -n 1)" -eq 3 ] || surprise "not three lanes ran at the most: $(sort -n "$SCRATCH/seen" | uniq -c)"
stage sessions 'check fine 5 true'
stage gpu 'skip thing "it is not here"'
gate true 1 "1 passed, 1 failed, 0 skipped" sessions gpu
gate false 0 "1 passed, 0 failed, 1 skipped" sessions gpu

stage unit 'check "$INFINIJUP_LEAK_CYCLES cycles" 5 true'
gate true 0 "1 passed, 0 failed, 0 skipped" --full unit
printed "ok: 1000 cycles"

if "$copy/.ci/run" lint nonsense >"$SCRATCH/out" 2>&1; then surprise "an unknown stage was accepted"; fi
printed "unknown stage \`nonsense\`; the stages are: lint unit"
if grep -q 'stage lint' "$SCRATCH/out"; then surprise "a stage ran though another was unknown"; fi

echo "the gate counts right and fails when it must"
