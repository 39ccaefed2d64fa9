#!/bin/sh
# No route without an action: a row of gateway/routes.def either is a probe (RECORD_NONE) or names the decided action.
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

# A row declares its target and its handler, so that no declaration is left after the row is removed.
declared=$(grep -nE '(extern const struct handler|^route_target) ' gateway/*.[ch] gateway/*/*.[ch] |
    grep -vE ':(extern const struct handler|route_target) (served|target_none);' | grep -vE 'extern const struct handler served;' || true)
[ -z "$declared" ] || { printf 'declared by hand, not by a row of gateway/routes.def:\n%s\n' "$declared"; exit 1; }

# What is looked up before a decision tells by its time what there is: gateway/pipeline/resolve.c asks for rights first, api/api.c and token_endpoint.c
# after. runner_gate.c looks up the organisation of a runner whose certificate and document it has checked, enrolment_gate.c that of a
# runner whose code it has checked. runner_result.c looks up the repositories of a run after the event of the right to finish it, run_checkpoint.c
# the repository of an order for the holder of its lease, which may keep a checkpoint there. officers_check.c looks up the organisation that an officer's document
# names, for a caller that may post it, or list all of them. oci/manifest_label.c looks up the base of a manifest for a caller that may see it.
lookups=$(grep -nE '(decider_resolve|registry_resolve|registry_resolve_cached)\(' gateway/*.c gateway/*/*.c | grep -vE '^gateway/(pipeline/resolve|api/api|pipeline/token_endpoint|pipeline/runner_gate|pipeline/enrolment_gate|api/runner_result|api/run_checkpoint|api/officers_check|oci/manifest_label)\.c:' || true)
# A target that queries the database itself must call resolve_allows() before: these do.
stores=$(awk '
/^struct result target_/ { target = $3; sub(/\(.*/, "", target) }
target != "" && /[(, ]pg[,)]/ && !/\(void\)pg/ && !/struct pg \*pg/ { print FILENAME ": " target ": " $0 }
/^}/ { target = "" }' gateway/*.c gateway/*/*.c | grep -vE ': target_(binding_create|upload_begin): ' || true)
[ -z "$lookups$stores" ] || { printf 'looked up before rights are known:\n%s\n%s\n' "$lookups" "$stores"; exit 1; }

# A fresh login is asked for by the actions that are decided first: one that only a later record has would ask for nothing.
never=$(awk '
FNR == NR { if (match($0, /^STEP_UP\(ACTION_[A-Z_]+/)) wanted[substr($0, 9, RLENGTH - 8)] = 1; next }
/^ROUTE\(/ { row = "" }
/^ROUTE\(/, /\)$/ { row = row $0; if ($0 ~ /\)$/ && match(row, /ACTION_[A-Z_]+/)) delete wanted[substr(row, RSTART, RLENGTH)] }
END { for (action in wanted) print action }' authz/step_up.def gateway/routes.def)
[ -z "$never" ] || { printf 'authz/step_up.def: no request is decided by: %s\n' "$never"; exit 1; }
