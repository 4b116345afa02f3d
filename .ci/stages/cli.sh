# shellcheck shell=bash
# The command line as a user meets it: the built `infinijup`, its completions and its manual pages. Its tests run in
# `unit`; here is what needs the program itself.

infinijup=$PROGRAMS/infinijup

if build; then
    check "infinijup --version" 10 "$infinijup" --version
    check "infinijup --help" 10 "$infinijup" --help
    for shell in bash zsh fish; do
        for word in rotate-keys rollback doctor export; do
            check "completions for $shell know $word" 10 \
                sh -c '"$1" completions "$2" | grep -q -e "$3"' sh "$infinijup" "$shell" "$word"
        done
    done
    check "manual pages" 10 "$infinijup" man --out "$SCRATCH/man"
    for page in gc log run kernel-start snapshot rollback branch suspend resume exec mcp doctor; do
        check "manual page of ${page/-/ }" 10 grep -q '^.SH NAME' "$SCRATCH/man/infinijup-$page.1"
    done
    check "doctor without a daemon says so" 10 \
        sh -c '"$1" doctor --socket "$2/none.sock" >/dev/null 2>&1; test $? -eq 3' sh "$infinijup" "$SCRATCH"
fi
