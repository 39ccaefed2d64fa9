#!/bin/sh
# A program with stand-ins for calls gets them from sijil_wrap(): else a release build, with its link-time optimisation, doesn't link it.
# usage: wraps.sh SOURCE-FOLDER
set -eu
cd "$1"
# The coverage build wraps calls of all programs, and is no release.
found=$(find . -path ./build -prune -o \( -name CMakeLists.txt -o -name '*.cmake' \) -print0 | xargs -0 grep -nE -e '--wrap[=,]' |
    grep -vE '^\./cmake/(SijilModule|SijilCoverage)\.cmake:|seccomp_load\) # tests/support/counters_sandbox\.c$') || true
[ -z "$found" ] || { printf '%s\n  ^ use sijil_wrap() of cmake/SijilModule.cmake\n' "$found"; exit 1; }
grep -q 'build release wrapping' .ci/run || { echo ".ci/run does not link these programs in a release build"; exit 1; }
