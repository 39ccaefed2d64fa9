#!/bin/sh
# usage: run.sh PROGRAM quick|whole -- asks oracle.py, then PROGRAM, and fails unless they agree on everything
set -eu
here=$(dirname "$0")
record=$(mktemp)
trap 'rm -f "$record"' EXIT
if [ "$2" = quick ]; then flags=--quick least=2000; else flags='' least=100000; fi
PYTHONDONTWRITEBYTECODE=1 python3 "$here/cases.py" $flags --record "$record"
"$1" "$record" $least
