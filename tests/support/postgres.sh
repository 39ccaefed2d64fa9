#!/bin/sh
# A private PostgreSQL 15 for tests: its data under DIR, its socket in a 0700 directory of its own, no network.
#   postgres.sh start DIR MIGRATE [PID]   starts it, makes the roles and the database sijil_template, whose tables
#                                         the program MIGRATE makes; it stops by itself when PID (the caller, by
#                                         default) is gone
#   postgres.sh stop DIR
#   postgres.sh crash DIR | restart DIR   kill -9 of the server and all its processes; a start with what is on disk
#   postgres.sh pause DIR | resume DIR    SIGSTOP and SIGCONT for all of them
# DIR/socket names the socket's directory; DIR/pid the server's process. Durability stays on: sijild refuses a server without it.
# SIJIL_TEST_CLUSTER begins the name of a folder: what initdb and MIGRATE made once is kept there, with a database sijil as sijild --embedded makes it, and copied
# by the starts that follow. The name ends with a digest of the migrations, so new ones are applied to a new cluster. MIGRATE runs in each case.
# With SIJIL_TEST_MEMORY=1 the data are in memory, if there is room: fsync takes no time there.
set -eu

bin=${SIJIL_POSTGRES_BIN:-/usr/lib/postgresql/15/bin}
action=$1
mkdir -p "$2"
state=$(cd "$2" && pwd -P)
tab=$(printf '\t')

# PostgreSQL refuses to run as root.
as_server() {
    if [ "$(id -u)" = 0 ]; then (cd / && exec runuser -u postgres -- "$@"); else (cd / && exec "$@"); fi
}

give_to_server() {
    if [ "$(id -u)" = 0 ]; then chown postgres: "$@"; fi
}

# own: the processes that work in the folder of the data. Only PostgreSQL's do, and one that has ended works nowhere. A number that is kept in a file
# may be that of any other process by now, or be 0, which means the caller's group: so none is signalled that is not among these.
own() {
    find /proc/[0-9]*/cwd -maxdepth 0 -printf '%l\t%h\n' 2>/dev/null |
        while IFS=$tab read -r at process; do if [ "$at" = "$data" ]; then echo "${process#/proc/}"; fi; done
}

number_of_server() { as_server head -n 1 "$data/postmaster.pid" 2>/dev/null || true; }

stop() {
    if [ -f "$state/data_at" ]; then
        data=$(cat "$state/data_at")
        if own | grep -qx -- "$(number_of_server)"; then
            as_server "$bin/pg_ctl" stop -D "$data" -m immediate -w -t 30 >/dev/null 2>&1 || true
        fi
        rm -rf "$data"
    fi
    if [ -f "$state/socket" ]; then rm -rf "$(cat "$state/socket")"; fi
    rm -f "$state/socket" "$state/data_at" "$state/pid"
}

# Whether the data may be in memory, and there are 2 GiB for them there: fsync takes no time then.
has_memory() {
    [ "${SIJIL_TEST_MEMORY:-}" = 1 ] && [ -d /dev/shm ] &&
        [ "$(df --output=avail /dev/shm | tail -n 1)" -gt 2097152 ] &&
        [ "$(sed -n 's/^MemAvailable: *\([0-9]*\) kB$/\1/p' /proc/meminfo)" -gt 4194304 ]
}

# The build tree may lie under a directory that only root can enter.
make_data_directory() {
    data=$state/data
    rm -rf "$data"
    if has_memory; then
        data=$(mktemp -d /dev/shm/sijil-test-data.XXXXXX)
    else
        mkdir -m 700 "$data"
    fi
    give_to_server "$data"
    if ! as_server test -w "$data" 2>/dev/null; then
        rmdir "$data"
        data=$(mktemp -d /var/tmp/sijil-test-data.XXXXXX)
        give_to_server "$data"
    fi
    echo "$data" >"$state/data_at"
}

# Leaves a copy for further tests, whole or not at all, and starts the server again.
keep_cluster() {
    sql -U postgres -d postgres -c "CREATE DATABASE sijil TEMPLATE sijil_template OWNER sijil_owner" \
        -c "REVOKE CONNECT, TEMPORARY ON DATABASE sijil FROM PUBLIC" -c "GRANT CONNECT ON DATABASE sijil TO sijil_app" # storage/create.c
    as_server "$bin/pg_ctl" stop -D "$data" -m fast -w >/dev/null
    fresh=$(mktemp -d "$kept.XXXXXX")
    cp -a "$data/." "$fresh"
    mv -T "$fresh/postgresql.conf.made" "$fresh/postgresql.conf"
    rm -f "$fresh/server.log"
    for old in "$SIJIL_TEST_CLUSTER"-*; do case ${old##*/} in *.*) ;; *) rm -rf "$old" ;; esac done # of earlier migrations
    mv -T "$fresh" "$kept" 2>/dev/null || rm -rf "$fresh" # another test was faster
    start_server
}

# The folder of the kept cluster, whether it is there or not; nothing if none is to be kept.
kept_cluster() {
    [ -n "${SIJIL_TEST_CLUSTER:-}" ] || return 0
    migrations=$(cat "${0%/*}"/../../migrations/*.sql | sha256sum | cut -c1-16)
    printf '%s%s-%s' "$SIJIL_TEST_CLUSTER" "$(printf %s "$bin" | tr / -)" "$migrations"
}

make_cluster() {
    copied=no
    if [ -n "$kept" ] && [ -d "$kept" ]; then
        copied=yes
        cp -a "$kept/." "$data"
    else
        as_server "$bin/initdb" -D "$data" --data-checksums --locale=C --encoding=UTF8 --auth=trust \
            --username=postgres --no-sync >"$state/initdb.log" 2>&1 || { cat "$state/initdb.log" >&2; exit 1; }
    fi
    configure_cluster
}

configure_cluster() {
    as_server cp "$data/postgresql.conf" "$data/postgresql.conf.made"
    as_server tee -a "$data/postgresql.conf" >/dev/null <<END
listen_addresses = ''
unix_socket_directories = '$run'
unix_socket_permissions = 0700
max_connections = 200
shared_buffers = 64MB
max_wal_size = 256MB
min_wal_size = 32MB
wal_recycle = off
logging_collector = off
log_line_prefix = '%m %d %u %p '
END
}

sql() {
    as_server "$bin/psql" -qX -v ON_ERROR_STOP=1 -h "$run" "$@"
}

start_server() {
    as_server "$bin/pg_ctl" start -D "$data" -l "$data/server.log" -w -t 60 >"$state/start.log" 2>&1
}

# A migration that fails leaves no kept cluster. /bin/true applies none.
make_template() {
    if [ "$copied" = no ]; then
        sql -U postgres -d postgres <<'END' || return 1
CREATE ROLE sijil_owner LOGIN;
CREATE ROLE sijil_app LOGIN;
CREATE DATABASE sijil_template OWNER sijil_owner;
END
        "$1" "host=$run user=sijil_owner dbname=sijil_template" || return 1
        [ -z "$kept" ] || [ "$1" = /bin/true ] || keep_cluster
    else
        "$1" "host=$run user=sijil_owner dbname=sijil_template"
    fi
}

# Survives a ctest that is killed before its clean-up.
stop_after() {
    setsid "$0" watch "$state" "$1" "$(cat "$state/pid")" "$(started "$1")" </dev/null >/dev/null 2>&1 &
}

# signal_all SIGNAL: the server, which then starts no other process, and those that it has started.
signal_all() {
    data=$(cat "$state/data_at")
    server=$(number_of_server)
    for which in -x -vx; do
        found=$(own | grep $which -- "$server" || true)
        [ -z "$found" ] || kill "-$1" $found 2>/dev/null || true
    done
}

wait_gone() {
    give_up=$(($(date +%s) + 60))
    while [ -n "$(own)" ]; do
        [ "$(date +%s)" -lt "$give_up" ] || { echo "a process of the killed server does not end" >&2; exit 1; }
        sleep 0.02
    done
}

# started PROCESS: when it began, in ticks; a number that was given to another process has another one.
started() {
    read -r line 2>/dev/null <"/proc/$1/stat" || return 0
    set -- ${line##*) }
    echo "${20}"
}

# A killed server leaves its number in two files. PostgreSQL does not start while a process has that number, even one that has ended and
# whose parent has not waited for it. A parent that never waits would prevent the start for ever.
remove_locks() { rm -f "$data/postmaster.pid" "$(cat "$state/socket")"/.s.PGSQL.*.lock; }

case $action in
crash)
    signal_all KILL
    wait_gone # the next server can't start while they have its shared memory
    remove_locks
    ;;
pause)
    signal_all STOP
    ;;
resume)
    signal_all CONT
    ;;
restart)
    data=$(cat "$state/data_at")
    if ! as_server "$bin/pg_ctl" start -D "$data" -l "$data/server.log" -w -t 180 >"$state/start.log" 2>&1; then
        cat "$state/start.log" >&2
        as_server tail -n 20 "$data/server.log" >&2
        exit 1
    fi
    ;;
start)
    stop
    run=$(mktemp -d /tmp/sijil-test.XXXXXX)
    give_to_server "$run"
    echo "$run" >"$state/socket"
    make_data_directory
    kept=$(kept_cluster)
    make_cluster
    if ! start_server; then
        as_server cat "$data/server.log" >&2
        stop
        exit 1
    fi
    make_template "$3" || { stop; exit 1; }
    number_of_server >"$state/pid"
    stop_after "${4:-$PPID}"
    ;;
stop)
    stop
    ;;
watch)
    while [ -n "$5" ] && [ "$(started "$3")" = "$5" ] && [ "$(cat "$state/pid" 2>/dev/null)" = "$4" ]; do sleep 1; done
    if [ "$(cat "$state/pid" 2>/dev/null)" = "$4" ]; then stop; fi
    ;;
*)
    echo "usage: postgres.sh start DIR MIGRATE [PID] | stop|crash|restart|pause|resume DIR" >&2
    exit 2
    ;;
esac
