#!/bin/bash
# sijild --embedded as a person uses it: it is started, stopped, killed and started again, and refuses where it can't run.
# usage: embedded.sh FOLDER-OF-SIJILD. SIJIL_SOAK=1 kills it more often. As root it uses the three system users; otherwise one user runs everything.
set -euo pipefail
. "$(dirname "$0")/../support/wait.sh"

programs=$1 kills=1
if [ "${SIJIL_SOAK:-}" = 1 ]; then kills=10; fi
work=$(mktemp -d /var/tmp/sijil-embedded.XXXXXX)
chmod 755 "$work"
directory=$work/registry log=$work/log supervisor= sleeper= without= isolation=rlimits
export HOME=$work XDG_DATA_HOME=$work/data
# Variables of libpq in an operator's shell must not lead to another database.
export ROOTS_OWN_SECRET=in-the-environment
export PGPORT=1 PGHOSTADDR=192.0.2.1 PGOPTIONS='-c search_path=nowhere' PGSSLMODE=require PGSERVICE=other
mkdir "$XDG_DATA_HOME"
port=$(/usr/bin/python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
url=https://127.0.0.1:$port

say() { printf '%s\n' "$*"; }
die() { say "FAILED: $*"; tail -n 40 "$log" 2>/dev/null; exit 1; }
finish() {
    status=$?
    trap - EXIT
    if [ -n "$supervisor" ]; then kill -9 "$supervisor" 2>/dev/null || true; fi
    if [ -n "$sleeper" ]; then kill "$sleeper" 2>/dev/null || true; fi
    if [ "$(id -u)" = 0 ]; then
        for instance in "$work"/*/instance; do
            if [ ! -f "$instance" ]; then continue; fi
            rm -f "/var/lib/sijil-keyd/$(cat "$instance").passphrase"
            rm -rf "/var/lib/sijil-secrets/$(cat "$instance")"
        done
    fi
    wait_until 30 nothing_runs || true
    groups_of_runs | sort -r | xargs -r rmdir 2>/dev/null || true
    rm -rf "$work"
    exit "$status"
}
trap finish EXIT

# The control groups of runs and of their runner, of all instances of this test.
groups_of_runs() {
    local instance
    for instance in "$work"/*/instance; do
        if [ -f "$instance" ]; then find /sys/fs/cgroup -path "*/sijil-$(head -c 8 "$instance")*" -type d 2>/dev/null || true; fi
    done
}

get() { curl -fsS --max-time 10 --cacert "$directory/ca.pem" "$@" 2>/dev/null; }
is_ready() { get "$url/readyz" >/dev/null; }
is_gone() { # no process, or one that has ended
    local line
    { read -r line <"/proc/$1/stat"; } 2>/dev/null || return 0
    [[ ${line##*) } == [ZX]* ]]
}
listens() { (: <"/dev/tcp/127.0.0.1/$port") 2>/dev/null; } # asked ten times a second: a fiftieth of what curl costs
# The command line of each of our processes names the directory. That of a process that has ended, and was not waited for, does not.
nothing_runs() { ! pgrep -f -- "$directory" >/dev/null; }
# After the death of their supervisor, gateways of an earlier start still finish their requests, and still answer that they are ready.
own() { echo "$supervisor"; pgrep -P "$supervisor" || true; }
is_alone() { ! pgrep -f -- "sijild .*$directory" | grep -vxFf <(own) >/dev/null; }
ready_or_ended() { { listens && is_alone && is_ready; } || is_gone "$supervisor"; }
start() {
    "$programs/sijild" --embedded "$directory" --listen-port "$port" $without "$@" >>"$log" 2>&1 &
    supervisor=$!
    wait_until 60 ready_or_ended || die "not ready in a minute"
    if is_gone "$supervisor"; then die "it ended"; fi
}
stop() {
    kill "$supervisor"
    wait "$supervisor" || die "it ended with status $?"
    supervisor=
    nothing_runs || die "something is left running: $(pgrep -af -- "$directory")"
}
# refuses WORDS ARGUMENTS...: it must end by itself, with these words in its output.
refuses() {
    local words=$1; shift
    fails_with "$words" timeout 60 "$programs/sijild" --listen-port "$port" "$@"
}
child() { # of the supervisor, by its program's name: the oldest, as one that is to become another program has ours at first
    pgrep -o -P "$supervisor" "$1" || die "no process $1"
}
# projects NAME SECRET: what this robot sees
token() { get -u "$1:$2" "$url/token?service=sijil&scope=registry:admin:*" | jq -r .token; }
projects() { get -H "Authorization: Bearer $(token "$1" "$2")" "$url/api/v1/projects" | jq -r '.projects[].name'; }
admin() { jq -r "$1" "$directory/admin.json"; }
trainer() { jq -r "$1" "$directory/trainer.json"; }
user_of() { ps -o user:32= -p "$1"; }

say "first start"
start
secret=$(admin .password) name=$(admin .username) ca=$(sha256sum <"$directory/ca.pem")
[ "$(projects "$name" "$secret")" = main/models ] || die "no project main/models"
for private in admin.json trainer.json tls/ca.key tls/server.key officer/approver.pem; do
    [ "$(stat -L -c %a "$directory/$private")" = 600 ] || die "others may read $private"
done
if [ "$(id -u)" = 0 ]; then
    [ "$(user_of "$(child postgres)")" = postgres ] || die "PostgreSQL runs as $(user_of "$(child postgres)")"
    [ "$(user_of "$(child sijil-keyd)")" = sijil-keyd ] || die "sijil-keyd runs as $(user_of "$(child sijil-keyd)")"
    [ "$(user_of "$(child sijild)")" = sijil ] || die "the gateway runs as $(user_of "$(child sijild)")"
    for secret_file in admin.json officer/approver.pem keyd/keyring tls/ca.key postgres/data/PG_VERSION; do
        ! runuser -u sijil -- cat "$directory/$secret_file" >/dev/null 2>&1 || die "the gateway can read $secret_file"
    done
fi
for pid in "$supervisor" "$(child sijil-keyd)" "$(child sijild)" "$(child postgres)"; do
    if grep -qaE 'in-the-environment|search_path=nowhere' "/proc/$pid/environ"; then die "process $pid keeps what it was started with"; fi
done
for pid in "$(child sijil-keyd)" "$(child sijild)"; do
    if tr '\0' '\n' <"/proc/$pid/environ" | grep -vE '^(LANG|LC_[A-Z]*|TZ|SSL_CERT_FILE|SSL_CERT_DIR|PATH)=|^$'; then die "the environment of process $pid"; fi
    grep -q '^Seccomp:[[:space:]]*2$' "/proc/$pid/status" || die "no system call filter on process $pid"
    grep -q '^NoNewPrivs:[[:space:]]*1$' "/proc/$pid/status" || die "process $pid may gain privileges"
done
if grep -rqF -- "$secret" "$log" "$directory/postgres"; then die "the administrator's secret is in a log or the database"; fi

is_serving() { grep -q '"serving"' "$log"; }
has_no_runner() { grep -q 'this machine has no runner' "$log"; }
serves_or_not() { is_serving || has_no_runner; }
host=127.0.0.1:$port
sijil() { "$programs/sijil" "$@"; }
state_of() { sijil run show "$host" main/models "$1" --json | jq -r .state; }
is_in() { [ "$(state_of "$1")" = "$2" ]; }
# specify SCRIPT: the specification of a run of this program; its processes name the directory
specify() {
    printf '%s\n' "$1" >"$work/train.sh"
    (cd "$work" && sijil push train.sh "$host/main/models/code:v1" >/dev/null)
    cat >"$work/spec.yaml" <<YAML
code: {reference: "main/models/code:v1"}
inputs: [{name: numbers, reference: "main/models/numbers:v1"}]
outputs: [{name: model, repository: main/models/trained, type: application/vnd.example.model}]
argv: [/bin/sh, /code/train.sh, "$directory"]
limits: {time_s: 300, grace_s: 1, cpus: 1, memory_bytes: 268435456, output_bytes: 1048576, output_files: 10, log_bytes: 65536, processes: 32}
jurisdictions: [AE]
isolation: $isolation
YAML
}
request() { sijil run start "$host" main/models "$work/spec.yaml" --key "$directory/officer/trainer.pem" "$@"; }
payload_runs() { pgrep -f -- "/code/train.sh $directory" >/dev/null; }
payload_is_gone() { ! payload_runs; }
code_begins() { pgrep -fx -- "sleep 600\.$port" >/dev/null; } # the shell's name is there earlier, before the registry knows that the run has started
another_runner() { local found; found=$(pgrep -o -P "$supervisor" sijil-runner) && [ "$found" != "$victim" ]; }

say "its runner: code and data are pushed, and a signed run trains, with no further set-up"
wait_until 60 serves_or_not || die "no word of the runner"
if has_no_runner; then say "(left out: this machine can't run training code: $(grep 'has no runner' "$log" | tail -n 1))"
else
    export XDG_CONFIG_HOME=$work/config XDG_CACHE_HOME=$work/cache
    mkdir "$XDG_CONFIG_HOME" "$XDG_CACHE_HOME"
    if [ "$(id -u)" = 0 ]; then
        [ "$(user_of "$(child sijil-runner)")" = sijil-runner ] || die "the runner runs as $(user_of "$(child sijil-runner)")"
        for secret_file in admin.json trainer.json officer/approver.pem officer/trainer.pem officer/administrator.pem tls/server.key keyd/keyring postgres/data/PG_VERSION; do
            ! runuser -u sijil-runner -- cat "$directory/$secret_file" >/dev/null 2>&1 || die "the runner can read $secret_file"
        done
        ! runuser -u sijil -- cat "$directory/runner/state/key.pem" >/dev/null 2>&1 || die "the gateway can read the runner's key"
        if [ "$("$programs/sijil-runner" check --json | jq -r .isolation)" = cgroup-v1 ]; then
            isolation=cgroup-v1 # orders demand it from here on
            [ "$(grep '"serving"' "$log" | tail -n 1 | jq -r .isolation)" = cgroup-v1 ] || die "root gives the runner no control groups"
            grep -q "^[0-9]*:memory:.*/sijil-" "/proc/$(child sijil-runner)/cgroup" || die "the runner is in no group of its own"
        fi
    fi
    trainer .password | sijil login "$host" --username "$(trainer .username)" --ca-file "$directory/ca.pem" --password-stdin
    seq 100 >"$work/numbers.txt"
    (cd "$work" && sijil push --dataset numbers.txt "$host/main/models/numbers:v1" >/dev/null)
    specify 'echo the code begins; cp /in/numbers/numbers.txt /out/model'
    request --follow >"$work/said" 2>&1 || { cat "$work/said"; die "the run has not succeeded"; }
    grep -q 'the code begins' "$work/said" || { cat "$work/said"; die "its log was not shown"; }
    run=$(sijil run list "$host" main/models --json | jq -r '.[0].id')
    output=$(sijil run show "$host" main/models "$run" --json | jq -r '.outputs[0] | .repository + "@" + .digest')
    sijil pull "$host/$output" -o "$work/trained" >/dev/null
    cmp "$work/numbers.txt" "$work/trained/model" || die "the output is another one"

    say "kill -9 of the runner in a run: the code ends with it, and another one comes"
    specify "sleep 600.$port"
    run=$(request --json | jq -r .id)
    wait_until 60 code_begins || die "the code does not begin"
    victim=$(child sijil-runner)
    kill -9 "$victim"
    wait_until 20 payload_is_gone || die "the code outlives its runner"
    wait_until 60 another_runner || die "the runner was not started again"
    sijil run cancel "$host" main/models "$run"
    is_in "$run" cancelled || die "the run is $(state_of "$run")"

    say "TERM: the run is cancelled, and nothing stays"
    run=$(request --json | jq -r .id)
    wait_until 60 code_begins || die "the code does not begin again"
    stop
    payload_is_gone || die "the code runs on"
    [ -z "$(groups_of_runs)" ] || die "control groups are left: $(groups_of_runs)"
    [ -z "$(ls "$directory/runner/work")" ] || die "files of the run are left: $(ls "$directory/runner/work")"
    [ -z "$(ls "$directory/runner/state/leases")" ] || die "a lease is left"
    : >"$log"
    start
    is_in "$run" cancelled || die "the run is $(state_of "$run")"
    wait_until 60 is_serving || die "the runner does not serve again"

    say "kill -9 of the supervisor in a run"
    run=$(request --json | jq -r .id)
    wait_until 60 code_begins || die "the code does not begin a third time"
    kill -9 "$supervisor"
    wait "$supervisor" 2>/dev/null || true
    wait_until 30 nothing_runs || die "something outlives the supervisor: $(pgrep -af -- "$directory")"
    : >"$log"
    start
    wait_until 60 is_serving || die "the runner does not serve after a kill"
    sijil run cancel "$host" main/models "$run"
    specify 'cp /in/numbers/numbers.txt /out/model'
    request --wait >"$work/said" 2>&1 || { cat "$work/said"; die "no run after a kill"; }

    say "code that breaks out empties the runner's folder: no other key is enrolled, until root removes the mark"
    : >"$log"
    runners() { sijil runner list "$host" --json | jq length; }
    as_runner() { if [ "$(id -u)" = 0 ]; then runuser -u sijil-runner -- "$@"; else "$@"; fi; }
    admin .password | sijil login "$host" --username "$(admin .username)" --ca-file "$directory/ca.pem" --password-stdin
    [ "$(runners)" = 1 ] || die "there are $(runners) runners"
    draft=$(sijil region add "$host" onprem/second --geo AE --json 2>/dev/null | jq -r .name)
    sijil policy approve "$host" "$draft" --key "$directory/officer/approver.pem" >"$work/said" 2>&1
    ! grep -q 'one more because' "$work/said" || { cat "$work/said"; die "the root alone signs, and is told of one more"; }
    second_agrees() { sijil region check "$host" onprem/second >"$work/said" 2>&1; }
    wait_until 30 second_agrees || { cat "$work/said"; die "a region that was added is not served"; }
    [ -d "$directory/regions/onprem-second" ] || die "its folder is not below DIR/regions"
    mark=$(readlink -f "$directory/runner").enrolled
    if [ "$(id -u)" = 0 ]; then ! as_runner rm -f "$mark" 2>/dev/null || die "the runner's user can remove the mark"; fi
    as_runner rm "$directory/runner/state/document.json"
    as_runner kill "$(child sijil-runner)"
    wait_until 60 is_serving || die "a runner that has its key is not given its document again"
    as_runner sh -c 'rm -r "$1"/*' sh "$(readlink -f "$directory/runner/state")"
    : >"$log"
    as_runner kill "$(child sijil-runner)"
    has_lost_its_key() { grep -q 'the folder has not its key any more' "$log"; }
    wait_until 60 has_lost_its_key || die "it is not said that the key is lost"
    ! grep -q 'enrolled the runner of this machine' "$log" || die "another key was enrolled"
    [ "$(runners)" = 1 ] || die "there are $(runners) runners after the folder was emptied"
    stop
    : >"$log"
    start
    wait_until 60 has_lost_its_key || die "a start enrols another one"
    stop
    rm -r "$mark" "$(readlink -f "$directory/runner")"
    : >"$log"
    start
    wait_until 60 is_serving || die "root can't have another runner enrolled"
    [ "$(runners)" = 2 ] || die "there are $(runners) runners after root has removed the mark"
fi
stop
without=--no-runner
: >"$log"
start

say "a copy of the directory holds no secret and no private key"
secrets_folder=$XDG_DATA_HOME/sijil
passphrase_folder=$secrets_folder
if [ "$(id -u)" = 0 ]; then secrets_folder=/var/lib/sijil-secrets passphrase_folder=/var/lib/sijil-keyd; fi
holds_no_secret() { # FOLDER: of all its bytes
    local found id; id=$(cat "$directory/instance")
    printf '%s\n' "PRIVATE KEY" "$(admin .password)" "$(trainer .password)" "$(cat "$passphrase_folder/$id.passphrase")" >"$work/secrets.txt"
    [ "$(wc -l <"$work/secrets.txt")" = 4 ] || die "a secret is not one line"
    found=$(grep -rlaFf "$work/secrets.txt" "$1") || return 0
    say "$found"
    return 1
}
grep -qaF "PRIVATE KEY" "$directory/tls/ca.key" || die "the search would find nothing"
cp -a "$directory" "$work/copy"
holds_no_secret "$work/copy" || die "a copy of the directory holds a secret"
rm -rf "$work/copy"

say "the database is copied while it runs"
if [ "$(id -u)" = 0 ]; then
    sockets=/run/sijil-0-$(cut -c1-8 "$directory/instance")/pg tools=$(dirname "$(readlink "/proc/$(child postgres)/exe")")
    ask_nothing="env -u PGPORT -u PGHOSTADDR -u PGOPTIONS -u PGSSLMODE -u PGSERVICE"
    $ask_nothing "$tools/pg_basebackup" -h "$sockets" -U postgres -D "$work/copy" --checkpoint=fast || die "no copy of the database"
    "$tools/pg_verifybackup" "$work/copy" || die "the copy of the database is not whole"
    ! runuser -u sijil -- $ask_nothing "$tools/pg_basebackup" -h "$sockets" -U postgres -D "$work/taken" || die "the gateway's user may copy it"
    rm -rf "$work/copy"
fi

say "a second one on the same directory"
refuses "is in use by another sijild (process $supervisor)" --embedded "$directory"
is_ready || die "the first one suffered"

say "stop and start: everything is kept"
stop
[ ! -e "/run/sijil-$(id -u)-$(cut -c1-8 "$directory/instance")" ] || die "the sockets' folder is left"
start --geo DE
grep -q '"option":"--geo","value":"DE"' "$log" || die "a country that comes too late is ignored without a word"
[ "$(sha256sum <"$directory/ca.pem")" = "$ca" ] || die "another certificate authority"
[ "$(admin .password)" = "$secret" ] || die "another administrator"
[ "$(projects "$name" "$secret")" = main/models ] || die "the project is gone"

say "SIGHUP renews a certificate that is due"
served() { openssl s_client -connect "127.0.0.1:$port" </dev/null 2>/dev/null | openssl x509 -noout -serial; }
before=$(served)
kill -HUP "$supervisor"
sleep 1
[ "$(served)" = "$before" ] || die "a new certificate although the old one is good"
echo other.example >>"$directory/tls/server.names"
kill -HUP "$supervisor"
is_renewed() { [ "$(served)" != "$before" ]; }
wait_until 10 is_renewed || die "the certificate was not renewed"
is_ready || die "not ready with the new certificate"

say "kill -9 of each child: it comes back"
is_another() { local found; found=$(pgrep -o -P "$supervisor" "$program") && [ "$found" != "$victim" ]; }
for program in postgres sijil-keyd sijild; do
    victim=$(child "$program")
    kill -9 "$victim"
    wait_until 10 is_gone "$victim" || die "$program does not die"
    wait_until 30 is_another || die "$program was not started again"
    wait_until 30 is_ready || die "not ready after $program was killed"
done
wait_until 20 projects "$name" "$secret" >/dev/null || die "no answer after the children were killed"

say "a gateway that finds a peer away while it starts again is tried until it can"
keyd=$(child sijil-keyd)
kill -STOP "$keyd"
kill -9 "$(child sijild)"
tried_again() { grep -q '"process":"gateway","with":"status 75"' "$log"; }
wait_until 30 tried_again || die "the gateway started without its keys"
kill -CONT "$keyd"
wait_until 30 is_ready || die "the gateway was not started again"

start_again() { # only init waits for killed processes, and nothing pauses
    wait "$supervisor" 2>/dev/null || true
    start
    [ "$(projects "$name" "$secret")" = main/models ] || die "the project is gone"
}
say "kill -9 of the supervisor, and a start right after it"
for _ in $(seq "$kills"); do
    kill -9 "$supervisor"
    start_again
done
say "kill -9 of everything at once, and a start right after it"
for _ in $(seq $((2 * kills))); do # PostgreSQL leaves both its locks, with the number of a process that may still exist
    kill -9 "$supervisor" $(pgrep -P "$supervisor") $(pgrep -P "$(child postgres)")
    start_again
done
kill -9 "$supervisor"
wait "$supervisor" 2>/dev/null || true
supervisor=
wait_until 30 nothing_runs || die "something outlives the supervisor: $(pgrep -af -- "$directory")"

say "a pid file that names another process"
pid_file=$directory/postgres/data/postmaster.pid
as_postgres=
if [ "$(id -u)" = 0 ]; then as_postgres="setpriv --reuid postgres --regid postgres --init-groups"; fi
$as_postgres sleep 300 >/dev/null 2>&1 & # of the same user, so that PostgreSQL alone would take it for its own
sleeper=$!
$as_postgres sh -c 'printf "%s\n%s\n" "$1" "$2" >"$3" && chmod 600 "$3"' sh "$sleeper" "$directory/postgres/data" "$pid_file"
start
kill "$sleeper"
sleeper=

say "a directory of an older version, which holds its secrets"
stop
kept=$secrets_folder/$(cat "$directory/instance")
for private in admin.json trainer.json officer/approver.pem officer/trainer.pem officer/administrator.pem tls/ca.key tls/server.key; do
    if [ ! -e "$directory/$private" ]; then continue; fi # without a runner the trainer has no key
    rm "$directory/$private"
    mv "$kept/${private##*/}" "$directory/$private"
done
before=$(cat "$directory"/admin.json "$directory"/officer/approver.pem "$directory"/tls/*.key | sha256sum)
rm -rf "$kept/runner" "$kept/runner.enrolled"
rmdir "$kept"
start
[ "$(cat "$directory"/admin.json "$directory"/officer/approver.pem "$directory"/tls/*.key | sha256sum)" = "$before" ] ||
    die "the secrets changed on their way"
[ "$(projects "$name" "$secret")" = main/models ] || die "the administrator can't log in"
[ "$(stat -c %a "$kept/server.key" "$kept/ca.key" "$kept/admin.json" "$kept/approver.pem" | sort -u)" = 600 ] || die "others may read them"
holds_no_secret "$directory" || die "a secret is left in the directory"
stop
say "an authority whose key is lost gets no other one"
mv "$kept/ca.key" "$work/ca.key"
refuses "the authority's key $kept/ca.key is gone" --embedded "$directory"
mv "$work/ca.key" "$kept/ca.key"
refuses "must lie outside" --embedded "$directory" --secrets-dir "$directory"
refuses "--secrets-dir needs a full path" --embedded "$directory" --secrets-dir relative
mkdir "$work/elsewhere"
refuses "give --secrets-dir" --embedded "$directory" --secrets-dir "$work/elsewhere"

say "a lost key of the server is made anew; --new-admin"
rm "$kept/server.key"
start
stop
start --new-admin
[ "$(admin .password)" != "$secret" ] || die "the old secret is still there"
[ "$(projects "$(admin .username)" "$(admin .password)")" = main/models ] || die "the new administrator can't log in"
if get -u "$name:$secret" "$url/token?service=sijil&scope=registry:admin:*" >/dev/null; then die "the old secret still works"; fi
token=$(get -u "$(admin .username):$(admin .password)" "$url/token?service=sijil&scope=registry:admin:*" | jq -r .token)
[ "$(get -H "Authorization: Bearer $token" "$url/api/v1/audit/events?limit=100" |
    jq '[.events[] | select(.entry.act == "administrator.replace")] | length')" = 1 ] || die "the log does not say so"
stop

say "a lost passphrase"
passphrase=$XDG_DATA_HOME/sijil/$(cat "$directory/instance").passphrase
if [ "$(id -u)" = 0 ]; then passphrase=/var/lib/sijil-keyd/$(cat "$directory/instance").passphrase; fi
[ "$(stat -c %s "$passphrase")" = 65 ] || die "the passphrase is not whole"
[ ! -e "$passphrase.new" ] || die "half a passphrase was left behind"
mv "$passphrase" "$work/kept"
refuses "passphrase" --embedded "$directory"
[ ! -e "$passphrase" ] || die "a new passphrase was made for an old key ring"
say "the passphrase from a descriptor, also when sijil-keyd is started again"
start --passphrase-fd 7 7<"$work/kept"
program=sijil-keyd
victim=$(child "$program")
kill -9 "$victim"
wait_until 30 is_another || die "sijil-keyd was not started again"
wait_until 30 is_ready || die "sijil-keyd did not get its passphrase again"
stop
mv "$work/kept" "$passphrase"

say "where it can't run"
mkdir "$work/full" && touch "$work/full/something"
refuses "is not empty" --embedded "$work/full"
mkdir "$work/other" && head -c 100 /dev/zero >"$work/other/lock"
refuses "is not empty (lock)" --embedded "$work/other"
[ "$(stat -c %s "$work/other/lock")" = 100 ] || die "it wrote to somebody's file"
rm -r "$work/other"
say "where a first start was cut short before there was an id"
mkdir "$work/cut" && printf 99999999 >"$work/cut/lock" && printf 0123 >"$work/cut/.instance.new"
refuses "is followed by its folder" --embedded --help
refuses "--passphrase-file needs a full path" --embedded "$work/cut" --passphrase-file relative
refuses "make the folder above it first" --embedded "$work/nowhere/registry"
if [ "$(id -u)" = 0 ]; then
    mkdir -m 700 "$work/closed"
    refuses "run chmod o+x $work/closed" --embedded "$work/closed/registry"
    [ ! -e "$work/closed/registry" ] || die "it left a directory behind"
    echo something >"$work/closed/passphrase"
    refuses "user sijil-keyd can't read $work/closed/passphrase" --embedded "$directory" \
        --passphrase-file "$work/closed/passphrase"
    if unshare -m true 2>/dev/null; then
        say "a machine that can't run training code has a registry all the same"
        grep -v '^sijil-runner:' /etc/passwd >"$work/passwd"
        for trick in 'mount --bind "$1" /etc/passwd' 'mount --bind /bin/false /usr/bin/bwrap'; do
            : >"$log"
            unshare -m sh -c "$trick"' && exec "$2" --embedded "$3" --listen-port "$4"' sh \
                "$work/passwd" "$programs/sijild" "$directory" "$port" >>"$log" 2>&1 &
            supervisor=$!
            wait_until 60 ready_or_ended && ! is_gone "$supervisor" || die "it does not start without a runner"
            wait_until 60 has_no_runner || die "it does not say why there is no runner"
            stop
        done
        grep -q 'no sandbox can be made' "$log" || { cat "$log"; die "it does not name the sandbox"; }
    fi
    for user in sijil sijil-keyd postgres; do
        grep -v "^$user:" /etc/passwd >"$work/passwd"
        if ! unshare -m true 2>/dev/null; then say "(no mount namespaces here: missing users are not tried)"; break; fi
        out=$(unshare -m sh -c 'mount --bind "$1" /etc/passwd && exec "$2" --embedded "$3"' sh \
            "$work/passwd" "$programs/sijild" "$work/other" 2>&1) && die "it started without $user"
        grep -qF "system user $user, which is missing" <<<"$out" || { say "$out"; die "it does not name $user"; }
    done
fi
say "what is found before the work of a first start"
/usr/bin/python3 -c 'import socket, sys, time; s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1); s.bind(("127.0.0.1", int(sys.argv[1]))); s.listen(); time.sleep(120)' "$port" &
sleeper=$!
taken() { /usr/bin/python3 -c 'import socket, sys; socket.create_connection(("127.0.0.1", int(sys.argv[1])))' "$port" 2>/dev/null; }
wait_until 20 taken || die "nothing holds the port"
refuses "give another --listen-port" --embedded "$work/late"
[ -z "$(find "$work/late" -name PG_VERSION)" ] || die "it made a database first"
kill "$sleeper"
wait "$sleeper" || true
sleeper=
if [ "$(id -u)" = 0 ] && mkdir "$work/tiny" && mount -t tmpfs -o size=4m none "$work/tiny" 2>/dev/null; then
    out=$("$programs/sijild" --listen-port "$port" --embedded "$work/tiny/registry" 2>&1) && die "it started on a full disk"
    umount "$work/tiny"
    grep -q 'initdb: a step of the start ended with status 1: .*No space left on device' <<<"$out" || { say "$out"; die "it does not name the cause"; }
    if grep -v '^{' <<<"$out" | grep -v '^sijild: '; then die "lines of initdb are in the log"; fi
fi

say "all is well"
