#!/bin/bash
# sijild with a configuration file, as docs/production.md says, beside a PostgreSQL that it does not start.
# usage: production.sh FOLDER-OF-SIJILD SOURCE-FOLDER
set -euo pipefail
. "$(dirname "$0")/../support/wait.sh"

programs=$1 source=$2
work=$(mktemp -d /var/tmp/sijil-production.XXXXXX)
log=$work/log pids=
say() { printf '%s\n' "$*"; }
die() { say "FAILED: $*"; tail -n 30 "$log" 2>/dev/null; exit 1; }
finish() {
    status=$?
    trap - EXIT
    for pid in $pids; do kill "$pid" 2>/dev/null || true; done
    wait
    "$source/tests/support/postgres.sh" stop "$work/postgres" || true
    rm -rf "$work"
    exit "$status"
}
trap finish EXIT

say "a database, keys and certificates that others made"
# The server with its roles; the tables are made below.
"$source/tests/support/postgres.sh" start "$work/postgres" /bin/true $$ || die "no PostgreSQL"
socket=$(cat "$work/postgres/socket")
mkdir -m 700 "$work/keyd"
echo "a long passphrase" >"$work/passphrase"
chmod 600 "$work/passphrase"
"$programs/sijil-keyd" --directory="$work/keyd" --init --origin=registry.example/audit \
    --passphrase-file="$work/passphrase" >>"$log" 2>&1 || die "no key ring"
"$programs/sijil-keyd" --directory="$work/keyd" --socket="$work/socket" \
    --passphrase-file="$work/passphrase" >>"$log" 2>&1 &
pids="$pids $!"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=127.0.0.1 \
    -addext subjectAltName=IP:127.0.0.1 -keyout "$work/server.key" -out "$work/server.pem" 2>/dev/null
openssl ecparam -name prime256v1 -genkey -noout -out "$work/approver.pem"
openssl ec -in "$work/approver.pem" -pubout -out "$work/approver.pub.pem" 2>/dev/null

say "configuration"
port=$(/usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
url=https://127.0.0.1:$port
cat >"$work/sijild.conf" <<END
listen_port = $port
public_url = "$url"
tls_certificate = "$work/server.pem"
tls_key = "$work/server.key"
database = "host=$socket user=sijil_app dbname=sijil_template"
database_owner = "host=$socket user=sijil_owner dbname=sijil_template"
keyd_socket = "$work/socket"
metadata_region = "local/main"
region "local/main" {
    driver = "fs"
    location = "$work/main"
}
region "local/other" {
    driver = "fs"
    location = "$work/other"
}
END
sijild() { "$programs/sijild" --config="$work/sijild.conf" "$@"; }
sijild --check-config >>"$log" 2>&1 || die "the configuration is refused"

say "a schema that is missing is named, with the way out"
wait_until 10 test -S "$work/socket" || die "no socket of sijil-keyd"
fails_with "run sijild --migrate" sijild
sijild --migrate >>"$log" 2>&1 || die "--migrate"
sijild --migrate >>"$log" 2>&1 || die "--migrate again"

say "founding"
cat >"$work/set.json" <<'END'
{"policies": [{"apiVersion": "sijil.policy/v1", "kind": "ResidencyPolicy",
  "metadata": {"id": "all", "version": 1, "scope": ["**"], "effective_from": "2020-01-01T00:00:00Z",
               "review_by": "2099-01-01"},
  "labels": {"class": "confidential"},
  "rules": [{"id": "PERMIT", "effect": "permit", "ops": ["ingest", "read", "metadata", "log"],
             "when": {"class_at_most": "confidential"}}]}],
 "regions": {"local/main": {"geo": "AE"}, "local/other": {"geo": "AE"}}}
END
"$programs/sijil" policy sign --key "$work/approver.pem" --epoch 1 --output "$work/set.dsse" "$work/set.json" >>"$log" 2>&1 ||
    die "the set can't be signed"
fails_with "give --approver" sijild --found="$work/admin.json"
[ ! -e "$work/admin.json" ] || die "an empty administrator's file is left"
fails_with "give --policy-set" sijild --found="$work/admin.json" --approver="$work/approver.pub.pem"
sijild --found="$work/admin.json" --approver="$work/approver.pub.pem" --policy-set="$work/set.dsse" >>"$log" 2>&1 ||
    die "--found"
[ "$(stat -c %a "$work/admin.json")" = 600 ] || die "others may read the secret"
fails_with "admin.json" sijild --found="$work/admin.json"

say "serving"
ROOTS_OWN_SECRET=in-the-environment "$programs/sijild" --config="$work/sijild.conf" >>"$log" 2>&1 & # not the function: its process would be a shell
server=$!
pids="$pids $server"
get() { curl -fsS --max-time 10 --cacert "$work/server.pem" "$@" 2>/dev/null; }
is_ready() { get "$url/readyz" >/dev/null; }
wait_until 60 is_ready || die "not ready"
grep -q '^Seccomp:[[:space:]]*2$' "/proc/$server/status" || die "no system call filter"
if grep -qa in-the-environment "/proc/$server/environ"; then die "the gateway keeps what it was started with"; fi
login() { get -u "$(jq -r '.username + ":" + .password' "$1")" "$url/token?service=sijil&scope=registry:admin:*" | jq -r .token; }
token=$(login "$work/admin.json")
[ "$(get -H "Authorization: Bearer $token" "$url/api/v1/projects" | jq -r '.projects[].name')" = main/models ] ||
    die "no project main/models"
project='{"organisation": "main", "name": "second", "region": "local/other"}'
get -H "Authorization: Bearer $token" -H "Content-Type: application/json" -d "$project" "$url/api/v1/projects" >/dev/null ||
    die "no project in the second region"

say "another administrator, while it serves"
sijild --found="$work/again.json" >>"$log" 2>&1 || die "--found again"
can_login() { login "$1" >/dev/null; }
wait_until 20 can_login "$work/again.json" || die "the new administrator can't log in"
if can_login "$work/admin.json"; then die "the old administrator still can"; fi
say "SIGTERM ends it well"
kill "$server"
wait "$server" || die "it ended with status $?"

say "a gateway that lacks a region with blobs refuses to start"
sed '/^region "local\/other"/,/^}/d' "$work/sijild.conf" >"$work/lacking.conf"
"$programs/sijild" --config="$work/lacking.conf" >>"$log" 2>&1 & # nothing is in it yet
server=$!
pids="$pids $server"
wait_until 60 is_ready || die "not ready without a region that has no blob"
kill "$server"
wait "$server" || die "it ended with status $?"
psql -XAtq -v ON_ERROR_STOP=1 -h "$socket" -U sijil_owner -d sijil_template >>"$log" <<'END' || die "no row of a blob"
INSERT INTO blob (blob_id, project_id, region_id, digest, size_bytes, key_version, wrapped_key, commitment, part)
SELECT gen_random_uuid(), project_id, 'local/other', 'sha256:' || repeat('0', 64), 1, 1, decode(repeat('00', 72), 'hex'),
       decode(repeat('00', 32), 'hex'), 0 FROM project LIMIT 1;
END
fails_with "region local/other has blobs in the database and is not in this gateway's configuration" \
    timeout 60 "$programs/sijild" --config="$work/lacking.conf"
if pgrep -f -- "--config=$work/" >/dev/null; then die "something is left running"; fi
say "all is well"
