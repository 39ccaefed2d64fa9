#!/bin/sh
# The bar of CONTRIBUTING.md that a count can show. usage: sizes.sh SOURCE-FOLDER
# No function over 50 lines, no file over 450, median function at most 20 lines, at most 6 parameters,
# a README of at most 40 lines in each folder (one row names each file: folders.py).
set -eu
cd "$1"
layers=$(grep -v '^#' tests/lint/layers.txt)
present=$(printf '%s\n' $layers | cut -d/ -f1 | sort -u)
fewest_functions=3000 # fewer: ctags does not read the sources
bad=0

ctags --version 2>/dev/null | grep -q Universal || { echo "  there is no universal-ctags, so functions can't be measured: script/setup installs it"; bad=1; }

long=$(find $present bench tests -name '*.[ch]' 2>/dev/null | xargs wc -l | awk '
    $2 != "total" && $1 > 450 { print "  " $2 " has " $1 " lines; at most 450" }' | sort)
[ -z "$long" ] || { printf '%s\n' "$long"; bad=1; }

find $present bench tests -name '*.c' 2>/dev/null | sort | xargs ctags --languages=C --kinds-C=f --fields=+neS -f - 2>/dev/null | awk -F'\t' -v fewest="$fewest_functions" '
{
    line = end = 0; signature = ""
    for (i = 4; i <= NF; i++) {
        if ($i ~ /^line:/) { split($i, a, ":"); line = a[2] }
        if ($i ~ /^end:/) { split($i, b, ":"); end = b[2] }
        if ($i ~ /^signature:/) signature = $i
    }
    size = end - line + 1; count++
    sizes[count] = size
    if (size > 50) { print "  " $2 ":" line " " $1 " has " size " lines; at most 50"; bad = 1 }
    # The callback that libmicrohttpd calls for a request has eight parameters; that is not ours to change.
    if (gsub(/,/, ",", signature) > 5 && $2 !~ /^tests\// && $1 != "exchange_continue") { print "  " $2 ":" line " " $1 " has more than 6 parameters"; bad = 1 }
}
END {
    if (count < fewest) { print "  only " count + 0 " functions were measured; there are " fewest " at least"; bad = 1 }
    n = asort_median(count)
    if (n > 20) { print "  the median function has " n " lines; at most 20"; bad = 1 }
    exit bad
}
function asort_median(count,   i, j, t) {
    for (i = 2; i <= count; i++) { t = sizes[i]; for (j = i - 1; j > 0 && sizes[j] > t; j--) sizes[j + 1] = sizes[j]; sizes[j + 1] = t }
    return sizes[int((count + 1) / 2)]
}' || bad=1

for folder in $layers migrations; do
    if [ ! -f "$folder/README.md" ]; then echo "  $folder has no README.md"; bad=1
    elif [ "$(wc -l < "$folder/README.md")" -gt 40 ]; then echo "  $folder/README.md has more than 40 lines"; bad=1
    fi
done
left=$(grep -nIE 'TODO|FIXME|\bXXX\b|not implemented|for now' -r $present migrations bench script docs cmake README.md CONTRIBUTING.md SECURITY.md 2>/dev/null | grep -vE '\.json:' || true)
[ -z "$left" ] || { printf '%s\n  ^ finish it, or write down in docs/ what holds\n' "$left"; bad=1; }
exit $bad
