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
(umask 077 && echo "host=$socket user=sijil_owner dbname=sijil_template" >"$work/owner")
mkdir -m 700 "$work/main" "$work/other"
sijild --check-config >>"$log" 2>&1 || die "the configuration is refused"

# complains COUNT OPTIONS -- WORDS...: --check-config reports this number of problems at once, and among them these.
complains() {
    local count=$1 out status options=() ; shift
    while [ "$1" != -- ]; do options+=("$1"); shift; done
    shift
    out=$("$programs/sijild" --check-config "${options[@]}" 2>&1 >/dev/null) && status=0 || status=$?
    [ "$status" = 2 ] || { say "$out"; die "--check-config ends with $status"; }
    [ "$(grep -vc '^{' <<<"$out")" = "$count" ] || { say "$out"; die "--check-config does not tell $count problems"; }
    for words; do grep -qF -- "$words" <<<"$out" || { say "$out"; die "--check-config does not say '$words'"; }; done
}

say "all that is wrong is told at once, with the way out"
openssl ecparam -name prime256v1 -genkey -noout -out "$work/other.key"
cat >"$work/wrong.conf" <<END
listen_prot = 443
listen_port = 70000
public_url = "https://registry.example"
allowed_hosts = "127.0.0.1:* elsewhere.example"
tls_certificate = "$work/server.pem"
tls_key = "$work/other.key"
tls_client_ca = "/nowhere/ca.pem"
database = "host=$socket user=sijil_app dbname=sijil_template"
database_owner = "user=sijil_owner password=in-the-wrong-place"
keyd_socket = "$work/nobody"
metadata_region = "local/none"
region "local/main" {
    driver = "tape"
}
END
complains 9 --config="$work/wrong.conf" -- "did you mean 'listen_port'?" "listen_port = 70000" \
    "a gateway must not be able to read it" "/nowhere/ca.pem" "driver = tape" "local/none" \
    "the private key does not belong to the certificate" "is not for registry.example, which public_url names" \
    "is not for elsewhere.example, which allowed_hosts names" "$work/wrong.conf: line 1"
/usr/bin/python3 - "$work" <<'END'
import datetime, ipaddress, sys
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
with open(sys.argv[1] + "/server.key", "rb") as file:
    key = serialization.load_pem_private_key(file.read(), None)
name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
for title, first, last in (("old", 2020, 2021), ("young", 2098, 2099)):
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key()).serial_number(1).not_valid_before(
        datetime.datetime(first, 1, 1)).not_valid_after(datetime.datetime(last, 1, 1)).add_extension(
        x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False).sign(key, hashes.SHA256())
    with open(f"{sys.argv[1]}/{title}.pem", "wb") as file:
        file.write(made.public_bytes(serialization.Encoding.PEM))
END
for title in old young; do sed "s|server.pem|$title.pem|" "$work/sijild.conf" >"$work/$title.conf"; done
complains 1 --config="$work/old.conf" -- "has ended at 2021-01-01T00:00:00"
complains 1 --config="$work/young.conf" -- "is good from 2098-01-01T00:00:00"
if "$programs/sijild" --check-config --config="$work/wrong.conf" 2>&1 | grep -q in-the-wrong-place; then die "a password is shown"; fi

sed "s|^database = .*|database = \"host=$socket user sijil_app password=in-the-wrong-place\"|" "$work/sijild.conf" >"$work/form.conf"
complains 1 --config="$work/form.conf" -- "database: no connection string: pairs name=value"
if "$programs/sijild" --check-config --config="$work/form.conf" 2>&1 | grep -q in-the-wrong-place; then die "a password is shown"; fi
sed '$d' "$work/sijild.conf" >"$work/cut.conf"
complains 1 --config="$work/cut.conf" -- "a closing } is missing"
sed "s|^database = .*|database = \"host=$socket user=sijil_app password=x\"|" "$work/sijild.conf" >"$work/readable.conf"
chmod 644 "$work/readable.conf"
complains 1 --config="$work/readable.conf" -- "everybody may read the password in \`database\`: chmod o= $work/readable.conf"
chmod 640 "$work/readable.conf"
"$programs/sijild" --check-config --config="$work/readable.conf" >>"$log" 2>&1 || die "the group may not read the file"
complains 1 --config="$work" -- "is a folder"
complains 1 --config="$work/nofile" -- "No such file"

say "options that do not belong together"
misplaced() { # WORDS OPTIONS...
    local words=$1 out status; shift
    out=$(timeout 60 "$programs/sijild" "$@" 2>&1) && status=0 || status=$?
    [ "$status" = 2 ] || { say "$out"; die "it ends with $status: $*"; }
    grep -qF -- "$words" <<<"$out" || { say "$out"; die "it does not say '$words'"; }
}
misplaced "--listen-port belongs to --embedded" --config="$work/sijild.conf" --listen-port=9999
misplaced "--new-admin belongs to --embedded" --new-admin
misplaced "--no-runner belongs to --embedded" --no-runner
misplaced "one of --check-config" --embedded="$work/none" --check-config
misplaced "one of --check-config" --found="$work/x" --migrate
misplaced "--config belongs to" --config="$work/sijild.conf" --embedded="$work/none"
misplaced "not to --embedded or --migrate" --config="$work/sijild.conf" --migrate
misplaced "--approver belongs to --found" --approver="$work/approver.pub.pem" --migrate
misplaced "--database-owner belongs to --migrate, --recover or --check-config" --found="$work/x" --database-owner="$work/owner"
misplaced "--online belongs to --check-config" --online
misplaced "--geo XYZ" --embedded="$work/none" --geo=XYZ
misplaced "--geo UK" --embedded="$work/none" --geo=UK
misplaced "--network 300.1.1.1/8" --embedded="$work/none" --network=300.1.1.1/8
misplaced "--listen-address foo" --embedded="$work/none" --listen-address=foo
if [ -e "$work/none" ] || [ -e "$work/x" ]; then die "it made something"; fi

misplaced "--embedded $work/owner: a file is there, not a folder" --embedded="$work/owner"
misplaced "--embedded $work/owner/registry: a file is there" --embedded="$work/owner/registry"
misplaced "--embedded $work/nowhere/registry: make the folder above it first" --embedded="$work/nowhere/registry"
misplaced "--public-url https://999.1.1.1" --embedded="$work/none" --public-url=https://999.1.1.1
misplaced "--public-url https://a.example/v2" --embedded="$work/none" --public-url=https://a.example/v2
misplaced "--secrets-dir needs a full path" --embedded="$work/none" --secrets-dir=relative
misplaced "--secrets-dir $work/owner: a file is there" --embedded="$work/none" --secrets-dir="$work/owner"
misplaced "--passphrase-file needs a full path" --embedded="$work/none" --passphrase-file=relative
misplaced "--passphrase-file $work: a folder" --embedded="$work/none" --passphrase-file="$work"
if [ -e "$work/none" ] || [ -e "$work/nowhere" ]; then die "it made something"; fi

say "a wrong configuration ends a start with 2, and is what --check-config finds"
for wrong in "listen_address = 999.1.1.1" "listen_socket = $work/nowhere/socket" "keyd_socket = keyd" "database = sijil" \
    "public_url = https://registry.example:70000"; do
    name=${wrong%% =*}
    { grep -v "^$name = " "$work/sijild.conf"; echo "$name = \"${wrong#* = }\""; } >"$work/bad.conf"
    grep -q region "$work/bad.conf" || die "no configuration is left"
    complains 1 --config="$work/bad.conf" -- "$name"
    misplaced "$name" --config="$work/bad.conf"
done
sed "s|^tls_key = .*|tls_key = \"$work/other.key\"|" "$work/sijild.conf" >"$work/bad.conf"
misplaced "the private key does not belong to the certificate" --config="$work/bad.conf"
sed "s|^tls_certificate = .*|&\ntls_client_ca = \"$work/server.key\"|" "$work/sijild.conf" >"$work/bad.conf"
misplaced "holds no authority" --config="$work/bad.conf"

say "what it needs is asked, all of it"
sed "s|^database = .*|database = \"host=$socket user=nobody_here dbname=sijil_template\"|; s|^keyd_socket = .*|keyd_socket = \"$work/nobody\"|
    s|location = \"$work/main\"|location = \"/nowhere/main\"|; s|location = \"$work/other\"|location = \"$work/file\"|" \
    "$work/sijild.conf" >"$work/absent.conf"
touch "$work/file"
as_whom=--allow-uid=$(id -u)
if [ "$(id -u)" = 0 ]; then as_whom="runuser -u sijil -- sijild --check-config --online"; fi
complains 4 --online --config="$work/absent.conf" -- 'role "nobody_here" does not exist' "sijil-keyd can't be reached at $work/nobody" \
    "$as_whom" "location = /nowhere/main: No such file or directory" "location = $work/file"

say "a schema that is missing is named, with the way out"
wait_until 10 test -S "$work/socket" || die "no socket of sijil-keyd"
fails_with "run sijild --migrate" sijild
complains 1 --online --config="$work/sijild.conf" -- "database: the database has no tables of sijil: run sijild --migrate"
migrate() { "$programs/sijild" --migrate --database-owner="$work/owner" "$@"; } # it does not need the gateway's configuration
chmod 640 "$work/owner"
fails_with "chmod 600 $work/owner" migrate
chmod 600 "$work/owner"
migrate >>"$log" 2>&1 || die "--migrate"
migrate >>"$log" 2>&1 || die "--migrate again"
sijild --check-config --online --database-owner="$work/owner" >>"$log" 2>&1 || die "--online finds something"
sed "s|user=sijil_app|user=sijil_owner|" "$work/sijild.conf" >"$work/owner.conf"
complains 1 --online --config="$work/owner.conf" -- 'the role "sijil_owner" owns the tables'
sed "s|user=sijil_app|user=postgres|" "$work/sijild.conf" >"$work/super.conf"
complains 1 --online --config="$work/super.conf" -- 'the role "postgres" owns the tables, or is a superuser'
fails_with "owns the tables, or is a superuser" timeout 60 "$programs/sijild" --config="$work/owner.conf"
(umask 077 && echo "host=$socket user=sijil_app dbname=sijil_template" >"$work/not-owner")
complains 1 --config="$work/sijild.conf" --database-owner="$work/not-owner" -- 'the role "sijil_app" does not own the database'

say "root is told to run the check as the gateway's user, and nothing else"
if [ "$(id -u)" = 0 ]; then
    chown nobody "$work/main"
    complains 1 --online --config="$work/sijild.conf" -- "the owner of $work/main" "runuser -u nobody -- sijild --check-config --online"
    chown 0 "$work/main"
fi

say "a gateway that was never founded says so"
"$programs/sijild" --config="$work/sijild.conf" >"$work/unfounded" 2>&1 &
server=$!
pids="$pids $server"
says_found() { grep -q -- "--found=FILE founds the registry" "$work/unfounded"; }
wait_until 60 says_found || { cat "$work/unfounded"; die "its log does not name --found"; }
kill "$server"
wait "$server" || true

say "founding"
status=0
sijild --found=/sys/admin.json >>"$log" 2>&1 || status=$?
[ "$status" = 1 ] || die "a file that can't be made ends with $status, which says that a later try may help"
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
openssl ecparam -name prime256v1 -genkey -noout -out "$work/other.pem"
openssl ec -in "$work/other.pem" -pubout -out "$work/other.pub.pem" 2>/dev/null
"$programs/sijil" policy sign --key "$work/other.pem" --epoch 1 --output "$work/foreign.dsse" "$work/set.json" >>"$log" 2>&1 &&
    "$programs/sijil" policy sign --key "$work/approver.pem" --epoch 2 --output "$work/second.dsse" "$work/set.json" >>"$log" 2>&1 ||
    die "the sets can't be signed"
fails_with "give --approver" sijild --found="$work/admin.json"
[ ! -e "$work/admin.json" ] || die "an empty administrator's file is left"
fails_with "give --policy-set" sijild --found="$work/admin.json" --approver="$work/approver.pub.pem"
sijild --found="$work/admin.json" --approver="$work/approver.pub.pem" --policy-set="$work/set.dsse" >>"$log" 2>&1 ||
    die "--found"
[ "$(stat -c %a "$work/admin.json")" = 600 ] || die "others may read the secret"

say "founding again touches no administrator"
admins() { psql -XAtq -h "$socket" -U postgres -d sijil_template -c "SELECT robot_id, name, secret_hash, revoked_at, expires_at FROM robot ORDER BY 1"; }
before=$(admins) secret=$(cat "$work/admin.json")
sijild --found="$work/admin.json" >>"$log" 2>&1 || die "--found can't be repeated"
sijild --found="$work/another.json" >>"$log" 2>&1 || die "--found can't be repeated without the file"
[ "$(admins)" = "$before" ] || die "--found changed an administrator"
[ "$(cat "$work/admin.json")" = "$secret" ] || die "--found changed the administrator's file"
[ ! -e "$work/another.json" ] || die "a file without an administrator is left"

say "founding again with the same files is no mistake, and with others is refused"
found_again() { sijild --found="$work/another.json" "$@"; }
found_again --approver="$work/approver.pub.pem" --policy-set="$work/set.dsse" >>"$log" 2>&1 || die "--found can't be repeated as it was"
fails_with "sijil-keyd has pinned another approver" found_again --approver="$work/other.pub.pem"
fails_with "no valid signature of the trusted key" found_again --policy-set="$work/foreign.dsse"
fails_with "sijil policy load" found_again --policy-set="$work/second.dsse"
fails_with "No such file" found_again --policy-set="$work/nothing.dsse"
[ ! -e "$work/another.json" ] || die "a refused --found leaves a file"
found_again >"$work/quiet" 2>&1 || die "--found"
! grep -q "does not list this region" "$work/quiet" || die "it warns of a region that the set lists"
{
    cat "$work/sijild.conf"
    printf 'region "local/unlisted" {\n    driver = "fs"\n    location = "%s"\n}\n' "$work/unlisted"
} >"$work/unlisted.conf"
mkdir -m 700 "$work/unlisted"
"$programs/sijild" --config="$work/unlisted.conf" --found="$work/another.json" >"$work/loud" 2>&1 || die "--found with a new region"
grep -q "does not list this region.*local/unlisted" "$work/loud" || die "no warning of a region that the set lacks"

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

say "a set that was in force before may be given again, and changes nothing"
load() { get -H "Authorization: Bearer $token" -H "Content-Type: application/json" --data-binary "@$1" "$url/api/v1/policies" >/dev/null; }
load "$work/second.dsse" || die "the second set is not loaded"
found_again --approver="$work/approver.pub.pem" --policy-set="$work/set.dsse" >>"$log" 2>&1 || die "the first --found can't be repeated"
[ "$(get -H "Authorization: Bearer $token" "$url/api/v1/policies" | jq .epoch)" = 2 ] || die "an old set came back"

say "a lost administrator is replaced while it serves, and the log has it"
fails_with "admin.json" sijild --replace-admin="$work/admin.json"
sijild --replace-admin="$work/again.json" >>"$log" 2>&1 || die "--replace-admin"
can_login() { login "$1" >/dev/null; }
wait_until 20 can_login "$work/again.json" || die "the new administrator can't log in"
if can_login "$work/admin.json"; then die "the old administrator still can"; fi
token=$(login "$work/again.json")
[ "$(get -H "Authorization: Bearer $token" "$url/api/v1/audit/events?limit=100" |
    jq '[.events[] | select(.entry.act == "administrator.replace")] | length')" = 1 ] || die "the log does not say so"
psql -XAtq -h "$socket" -U postgres -d sijil_template -c "UPDATE robot SET revoked_at = now()" >>"$log"
before=$(admins)
sijild --found="$work/revoked.json" >>"$log" 2>&1 || die "--found after a revocation"
[ "$(admins)" = "$before" ] || die "--found brought a revoked administrator back"
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
