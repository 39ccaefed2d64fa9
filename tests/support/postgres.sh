#!/bin/sh
# A private PostgreSQL 15 for tests: its data under DIR, its socket in a 0700 directory of its own, no network.
#   postgres.sh start DIR MIGRATE [PID]   starts it, makes the roles and the database sijil_template, whose tables
#                                         the program MIGRATE makes; it stops by itself when PID (the caller, by
#                                         default) is gone
#   postgres.sh stop DIR
#   postgres.sh crash DIR | restart DIR   kill -9 of the server and all its processes; a start with what is on disk
#   postgres.sh pause DIR | resume DIR    SIGSTOP and SIGCONT for all of them
# DIR/socket names the socket's directory; DIR/pid the server's process. Durability stays on: sijild refuses a server without it.
# SIJIL_TEST_CLUSTER begins the name of a folder: what initdb made once is kept there, and copied by the starts that follow.
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

# Leaves a copy for further tests, whole or not at all.
keep_cluster() {
    fresh=$(mktemp -d "$1.XXXXXX")
    cp -a "$data/." "$fresh"
    mv -T "$fresh" "$1" 2>/dev/null || rm -rf "$fresh" # another test was faster
}

make_cluster() {
    kept=
    if [ -n "${SIJIL_TEST_CLUSTER:-}" ]; then kept=$SIJIL_TEST_CLUSTER$(printf %s "$bin" | tr / -); fi
    if [ -n "$kept" ] && [ -d "$kept" ]; then
        cp -a "$kept/." "$data"
    else
        as_server "$bin/initdb" -D "$data" --data-checksums --locale=C --encoding=UTF8 --auth=trust \
            --username=postgres --no-sync >"$state/initdb.log" 2>&1 || { cat "$state/initdb.log" >&2; exit 1; }
        [ -z "$kept" ] || keep_cluster "$kept"
    fi
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

make_template() {
    sql -U postgres -d postgres <<'END'
CREATE ROLE sijil_owner LOGIN;
CREATE ROLE sijil_app LOGIN;
CREATE DATABASE sijil_template OWNER sijil_owner;
END
    "$1" "host=$run user=sijil_owner dbname=sijil_template"
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
    make_cluster
    if ! as_server "$bin/pg_ctl" start -D "$data" -l "$data/server.log" -w -t 60 >"$state/start.log" 2>&1; then
        as_server cat "$data/server.log" >&2
        stop
        exit 1
    fi
    as_server head -n 1 "$data/postmaster.pid" >"$state/pid"
    make_template "$3" || { stop; exit 1; }
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
