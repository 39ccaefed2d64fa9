#!/bin/sh
# The allowed includes of each folder. usage: layers.sh SOURCE-FOLDER
# 0. An include is `#include "folder/file.h"` or, for a header that is not ours, `#include <name.h>`, and has no other spelling.
# 1. A file includes headers of its own folder and of the folders before it in layers.txt, never of one after it.
#    A table (*.def) holds no code: the rooms of a house may include the table of the house, gateway/routes.def.
# 2. A header named *_priv.h is for its own folder and the rooms in it alone.
# 3. gateway/ sees no blob and no row: no *_store.h, and of storage/ only the headers that reach.txt names (reach.py checks the indirect ones).
# 4. No file that serves requests includes a header of closed_headers.txt: its functions work without a permit, or give one.
# 5. Only embedded/ and cmd/ initialise a registry: its first administrator and its first policy set need no granted right.
# 6. Only *_store.c defines and runs statements.
# 7. Only policy/ makes decisions; only crypto/ includes OpenSSL and libsodium; only gateway/ serves HTTP, and only outgoing/ calls others.
set -eu
cd "$1"
layers=$(grep -v '^#' tests/lint/layers.txt | tr '\n' ' ')
houses=$(printf '%s\n' $layers | cut -d/ -f1 | sort -u)

for layer in $layers; do [ -d "$layer" ] || { echo "tests/lint/layers.txt: there is no folder $layer"; exit 1; }; done

bad=0
ours=$(printf '%s|' $houses)
strange=$(find $houses -name '*.[ch]' | sort | xargs grep -HnE '(#|%:|\?\?=)([^a-zA-Z"]*(include|import)|[[:space:]a-z]*\\$)' |
    grep -vE '^[^:]+:[0-9]+:#include ("[a-z0-9_]+(/[a-z0-9_]+)*/[a-z0-9_.]+"|<[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*>)( /\*.*\*/)?$' || true)
[ -z "$strange" ] || { printf '%s\n  ^ an #include has the form "folder/file.h" or <name.h>\n' "$strange"; bad=1; }
angled=$(find $houses -name '*.[ch]' | sort | xargs grep -HnE "^#include <(${ours%|})/" || true)
[ -z "$angled" ] || { printf '%s is a header of ours: include it as "folder/file.h"\n' "$angled"; bad=1; }

find $houses -name '*.[ch]' | sort | xargs grep -Hn '^#include "' | awk -v layers="$layers" '
BEGIN {
    count = split(layers, names, " "); for (i = 1; i <= count; i++) rank[names[i]] = i
    while ((getline line < "tests/lint/closed_headers.txt") > 0)
        if (line !~ /^#/) { split(line, columns, / *[|] */); closed[columns[1]] = columns[2] " " }
    while ((getline line < "tests/lint/reach.txt") > 0) {
        found = line !~ /^#/ && split(line, columns, / *[|] */) > 1 ? split(columns[1], headers, " ") : 0
        for (i = 1; i <= found; i++) storage[headers[i]] = columns[2] " "
    }
}
# May a file of gateway/ include this header? The column has its name, or its folder with a slash.
function is_closed_to(header, path) { return header in closed && !index(" " closed[header], " " path " ") && !index(" " closed[header], " " dirname(path) " ") }
function is_reached(header, path) { return index(" " storage[header], " gateway/ ") || index(" " storage[header], " " path " ") }
function dirname(path) { sub(/[^\/]*$/, "", path); return path }
# A folder that layers.txt does not name belongs to the one above it.
function room_of(path) { do sub(/\/?[^\/]*$/, "", path); while (path != "" && !(path in rank)); return path }
{
    split($0, where, ":"); split($0, quoted, "\"")
    own = room_of(where[1]); room = room_of(quoted[2]); split(own, from, "/"); split(room, to, "/")
    if (quoted[2] ~ /\.def$/ && index(own "/", room "/") == 1) next
    if (room == "") problem = "is not of the form \"folder/file.h\""
    else if (rank[room] > rank[own]) problem = "points upwards: " own " may not use " room
    else if (quoted[2] ~ /_priv\.h$/ && index(own "/", room "/") != 1) problem = "is private to " room
    else if (from[1] == "gateway" && (quoted[2] ~ /_store\.h$/ || (to[1] == "storage" && !is_reached(quoted[2], where[1])))) problem = "is below what gateway/ may see: go through registry/"
    else if (quoted[2] == "audit/decision_make.h" && from[1] != "policy" && from[1] != "audit") problem = "lets " from[1] " grant itself anything: only policy/ decides"
    else if (from[1] == "gateway" && is_closed_to(quoted[2], where[1])) problem = "works without a permit, or gives one: tests/lint/closed_headers.txt says who may include it"
    else if (quoted[2] ~ /^(authz\/administrator|policy\/set_install)\.h$/ && from[1] != to[1] && from[1] != "embedded" && from[1] != "cmd") problem = "founds a registry: only embedded/ and cmd/ may"
    else if (quoted[2] == "storage/pg_table.h" && where[1] !~ /(_store\.c|^storage\/[a-z_]+\.[ch])$/) problem = "is for *_store.c: nobody else runs statements"
    else if (to[1] == "keyd" && from[1] != "keyd" && from[1] != "cmd") problem = "belongs to the process that holds the keys"
    else if (room == "client/commands" && own != room && from[1] != "cmd") problem = "belongs to the command line"
    else next
    printf "%s:%s: \"%s\" %s\n", where[1], where[2], quoted[2], problem; bad = 1
}
END { exit bad }' || bad=1

find $houses -name '*.[ch]' | sort | xargs grep -HnE '^#include <(openssl/|sodium|microhttpd|gnutls/|curl/|oauth2/|cjose|libpq-fe|seccomp|confuse)' | awk -F'[:/]' '
/<openssl\/|<sodium/ && $1 != "crypto" { bad = 1; print $0 ": only crypto/ knows OpenSSL and libsodium" }
/<microhttpd|<gnutls/ && $1 != "gateway" && $1 != "bench" { bad = 1; print $0 ": only gateway/ serves HTTP" }
/<curl/ && $1 != "outgoing" { bad = 1; print $0 ": only outgoing/ calls others" }
/<oauth2|<cjose/ && $1 != "authz" { bad = 1; print $0 ": only authz/ checks external tokens" }
/<libpq-fe/ && $1 != "storage" { bad = 1; print $0 ": only storage/ speaks to PostgreSQL" }
/<seccomp/ && $1 != "base" { bad = 1; print $0 ": only base/ confines processes" }
/<confuse/ && $1 != "base" { bad = 1; print $0 ": only base/ reads configuration files" }
END { exit bad }' || bad=1
exit $bad
