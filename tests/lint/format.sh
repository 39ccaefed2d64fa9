#!/bin/sh
# Every C file has the format of clang-format 14 (Debian 12's) with .clang-format. usage: format.sh SOURCE-FOLDER
# To mend a file: clang-format -i FILE. Tables of SQL statements are exempt, between "clang-format off" and "clang-format on".
set -eu
cd "$1"
layers=$(grep -v '^#' tests/lint/layers.txt | cut -d/ -f1 | sort -u)
present=$(for folder in $layers bench tests; do [ ! -d "$folder" ] || printf '%s\n' "$folder"; done)
# shellcheck disable=SC2086
find $present -name '*.[ch]' -print0 | xargs -0 -P 2 -n 40 clang-format --dry-run -Werror
