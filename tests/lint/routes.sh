#!/bin/sh
# No route without an action: a row of gateway/routes.def either is a probe (RECORD_NONE) or names what is decided.
set -eu
cd "$1"
awk '
/^ROUTE\(/ { row = "" }
/^ROUTE\(/, /\)$/ {
    row = row $0
    if ($0 !~ /\)$/) next
    rows++
    if (row !~ /RECORD_NONE/ && row !~ /ACTION_/) { print "gateway/routes.def: no action: " row; bad = 1 }
    if (row ~ /RECORD_NONE/ && row !~ /CREDENTIAL_NONE/) { print "gateway/routes.def: no event but a credential: " row; bad = 1 }
    row = ""
}
END { if (rows < 4) { print "gateway/routes.def: only " rows " rows were found"; bad = 1 }; exit bad }' gateway/routes.def
