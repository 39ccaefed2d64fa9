# tests/support/wait.sh -- sourced by test scripts, never run.
# shellcheck shell=bash

# wait_until SECONDS COMMAND...: false if the command has not succeeded by then.
wait_until() {
    local tries=$(($1 * 10)); shift
    while ! "$@"; do
        tries=$((tries - 1))
        if [ "$tries" -le 0 ]; then return 1; fi
        sleep 0.1
    done
}

# fails_with WORDS COMMAND...: the command must fail, with WORDS in its output.
fails_with() {
    local words=$1 out; shift
    if out=$("$@" 2>&1); then die "it succeeded: $*"; fi
    grep -qF -- "$words" <<<"$out" || { say "$out"; die "it does not say '$words'"; }
}
