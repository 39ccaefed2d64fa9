#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "embedded/embedded_priv.h"
#include "storage/create.h"
#include "storage/migrate.h"

#define READY_WAIT_MS  300000 /* after a crash it first replays its log, up to max_wal_size */
#define ENDING_WAIT_MS 5000
#define SOCKET_LOCK    ".s.PGSQL.5432.lock"
#define VERSION_MIN    15
#define VERSION_MAX    19

/* Small values for one machine and one gateway. Durability is set here, not left to a default. */
static const char *const settings[] = {
    "listen_addresses=",
    "port=5432", /* part of the names of the socket and its lock */
    "max_connections=80",
    "shared_buffers=128MB",
    "max_wal_size=1GB",
    "min_wal_size=1GB", /* used files of the journal stay: all appends wait while a new one is filled with zeros */
    "fsync=on",
    "full_page_writes=on",
    "synchronous_commit=on",
    "logging_collector=on",
    "log_filename=postgresql-%a.log",
    "log_truncate_on_rotation=on",
    "log_rotation_age=1d",
    "log_rotation_size=0",
    /* Keeps the content of rows out of the log. */
    "log_error_verbosity=terse",
    "log_min_error_statement=panic",
};

void postgres_conninfo(const struct embedded *embedded, const char *database, const char *role, char conninfo_out[PATH_SIZE])
{
    (void)snprintf(conninfo_out, PATH_SIZE, "host=%.200s dbname=%s user=%s", embedded->paths.postgres_run, database, role);
}

static struct result program_path(const struct embedded *embedded, const char *name, char path_out[PATH_SIZE], struct error *err)
{
    return path_join(path_out, embedded->paths.postgres_programs, name, err);
}

/* The version that made the data, or the newest installed one. */
static struct result find_programs(struct embedded *embedded, struct error *err)
{
    struct paths *paths = &embedded->paths;
    struct buffer OWNED_BUFFER text = BUFFER(16);
    char path[PATH_SIZE];
    bool is_there = false;
    uint64_t version = 0;

    TRY(path_join(path, paths->data, "PG_VERSION", err));
    TRY(file_is_there(path, &is_there, err));
    if (is_there) {
        TRY(file_read(path, &text, err));
        const struct bytes number = {text.data, strcspn(buffer_text(&text), "\n")};
        if (!text_to_u64(number, 1000, &version)) return failure(err, ERROR_CORRUPT, "%s holds no version", path);
    }
    for (uint64_t tried = version == 0 ? VERSION_MAX : version; tried >= VERSION_MIN; tried--) {
        (void)snprintf(paths->postgres_programs, PATH_SIZE, "/usr/lib/postgresql/%u/bin", (unsigned)tried);
        TRY(program_path(embedded, "postgres", path, err));
        TRY(file_is_there(path, &is_there, err));
        if (is_there) return SUCCESS;
        if (version != 0) break;
    }
    return failure(err, ERROR_NOT_FOUND, "PostgreSQL %u is missing: install the package postgresql-%u",
                   (unsigned)(version == 0 ? VERSION_MIN : version), (unsigned)(version == 0 ? VERSION_MIN : version));
}

struct command {
    char *const *arguments;
    int said; /* a file in memory: what it writes to standard error, as its lines are no lines of our log */
};

/* Replaces the step's process. The exit status shows a failure, standard error the reason. */
static struct result execute(void *context, struct error *err)
{
    const struct command *command = context;
    OWNED_FD nowhere = -1;

    TRY(file_open("/dev/null", O_RDWR, 0, &nowhere, err));
    if (dup2(nowhere, STDOUT_FILENO) >= 0 && dup2(command->said, STDERR_FILENO) >= 0 && chdir("/") == 0)
        (void)execv(command->arguments[0], command->arguments);
    return failure(err, ERROR_NOT_FOUND, "can't start %s: %s", command->arguments[0], strerror(errno));
}

/* What the first line that says so names as wrong; other lines tell what the program did about it. */
static struct bytes cause_in(const char *text)
{
    static const char *const marks[] = {"FATAL: ", "PANIC: ", "error: "};
    const char *cause = text;

    for (const char *line = text; *line != '\0' && cause == text; line += strcspn(line, "\n"), line += *line == '\n')
        for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
            const char *found = strstr(line, marks[i]);
            if (found != NULL && found < line + strcspn(line, "\n")) cause = found + strlen(marks[i]);
        }
    cause += strspn(cause, " ");
    return (struct bytes){(const uint8_t *)cause, strcspn(cause, "\n")};
}

/* Puts the program's name before the message, and the cause that it told behind it. */
static void explain(const struct command *command, struct error *err)
{
    char text[4096] = ""; /* a few lines */
    const struct error told = *err;
    const char *name = strrchr(command->arguments[0], '/');
    size_t length = 0;
    struct error ignored = {0};

    if (!file_read_some(command->said, text, sizeof text - 1, 0, &length, &ignored).ok || length == 0) return;
    log_line(LOG_ERROR, "a program of the start failed", "program", command->arguments[0], "it said", text, NULL);
    const struct bytes cause = cause_in(text);
    (void)snprintf(err->message, sizeof err->message, "%.30s: %.60s: %.*s", name == NULL ? command->arguments[0] : name + 1,
                   told.message, (int)cause.length, (const char *)cause.data);
}

static struct result run_program(const struct user *user, char *const *arguments, struct error *err)
{
    OWNED_FD said = memfd_create("said", MFD_CLOEXEC);
    struct command command = {.arguments = arguments, .said = said};

    if (said < 0) return failure(err, ERROR_UNAVAILABLE, "no file in memory: %s", strerror(errno));
    const struct result done = step_run(user, execute, &command, err);
    if (!done.ok) explain(&command, err);
    return done;
}

/* Makes it under another name first, so that a partial one never looks like the real one. */
static struct result make_data(struct embedded *embedded, struct error *err)
{
    const struct user *user = &embedded->users.postgres;
    char initdb[PATH_SIZE], fresh[PATH_SIZE + 4];

    TRY(program_path(embedded, "initdb", initdb, err));
    (void)snprintf(fresh, sizeof fresh, "%s.new", embedded->paths.data);
    char *const removal[] = {(char[]){"/bin/rm"}, (char[]){"-rf"}, fresh, NULL};
    char *const creation[] = {initdb,
                              (char[]){"-D"},
                              fresh,
                              (char[]){"--data-checksums"},
                              (char[]){"--locale=C"},
                              (char[]){"--encoding=UTF8"},
                              (char[]){"--auth=reject"},
                              (char[]){"--no-instructions"},
                              (char[]){"--username=postgres"},
                              NULL};
    log_line(LOG_INFO, "making the database's files", "directory", embedded->paths.data, NULL);
    TRY(run_program(user, removal, err));
    TRY(run_program(user, creation, err));
    return file_rename(fresh, embedded->paths.data, err);
}

/* The kernel identifies the connecting user; this file maps users to roles. */
static struct result write_access(void *context, struct error *err)
{
    const struct embedded *embedded = context;
    struct buffer OWNED_BUFFER map = BUFFER(4096);
    char path[PATH_SIZE];

    TRY(buffer_format(&map, err, "sijil %s postgres\nsijil %s sijil_owner\nsijil %s sijil_app\n", embedded->users.self.name,
                      embedded->users.self.name, embedded->users.gateway.name));
    TRY(path_join(path, embedded->paths.data, "sijil_ident.conf", err));
    TRY(file_replace(path, buffer_bytes(&map), 0600, err));
    TRY(path_join(path, embedded->paths.data, "sijil_hba.conf", err));
    return file_replace(path, bytes_of_text("local all all peer map=sijil\nlocal replication postgres peer map=sijil\n"), 0600,
                        err);
}

/* --name=value means -c name=value, in one argument. */
static struct result write_arguments(struct embedded *embedded, struct error *err)
{
    const struct paths *paths = &embedded->paths;
    size_t count = 0;

    TRY(embedded_add_argument(embedded, PROCESS_POSTGRES, &count, err, "%s/postgres", paths->postgres_programs));
    TRY(embedded_add_argument(embedded, PROCESS_POSTGRES, &count, err, "-D"));
    TRY(embedded_add_argument(embedded, PROCESS_POSTGRES, &count, err, "%s", paths->data));
    TRY(embedded_add_argument(embedded, PROCESS_POSTGRES, &count, err, "--unix_socket_directories=%s", paths->postgres_run));
    TRY(embedded_add_argument(embedded, PROCESS_POSTGRES, &count, err, "--hba_file=%s/sijil_hba.conf", paths->data));
    TRY(embedded_add_argument(embedded, PROCESS_POSTGRES, &count, err, "--ident_file=%s/sijil_ident.conf", paths->data));
    for (size_t i = 0; i < sizeof settings / sizeof settings[0]; i++)
        TRY(embedded_add_argument(embedded, PROCESS_POSTGRES, &count, err, "--%s", settings[i]));
    embedded->arguments[PROCESS_POSTGRES][count] = NULL;
    return SUCCESS;
}

struct result postgres_prepare(struct embedded *embedded, struct error *err)
{
    bool has_data = false;

    TRY(find_programs(embedded, err));
    TRY(file_is_there(embedded->paths.data, &has_data, err));
    if (!has_data) TRY(make_data(embedded, err));
    TRY(step_run(&embedded->users.postgres, write_access, embedded, err));
    TRY(write_arguments(embedded, err));
    embedded->processes[PROCESS_POSTGRES] = (struct process){
        .name = "postgres",
        .user = &embedded->users.postgres,
        .death_signal = SIGQUIT, /* ends at once; the next start replays its log */
        .stop_signal = SIGINT,   /* ends sessions and writes a checkpoint */
        .arguments = embedded->arguments[PROCESS_POSTGRES],
        .is_database = true,
        .output = embedded->paths.postgres_output,
    };
    return SUCCESS;
}

static struct result read_lock(const char *path, struct buffer *text, struct error *err)
{
    const struct result read = file_read(path, text, err);

    return read.ok || err->kind == ERROR_NOT_FOUND ? SUCCESS : read;
}

static struct result read_pid_file(const struct embedded *embedded, struct buffer *text, struct error *err)
{
    char path[PATH_SIZE];

    TRY(path_join(path, embedded->paths.data, "postmaster.pid", err));
    return read_lock(path, text, err);
}

static uint64_t pid_in(const struct buffer *text)
{
    uint64_t pid = 0;

    if (!text_to_u64((struct bytes){text->data, strcspn(buffer_text(text), "\n")}, INT32_MAX, &pid)) return 0;
    return pid;
}

/* Only a postmaster works in its data directory. A process that has ended works in no directory, even if its parent has not waited for it yet. */
static bool is_postmaster(const struct embedded *embedded, uint64_t pid)
{
    char link[64], target[PATH_SIZE] = "";

    (void)snprintf(link, sizeof link, "/proc/%u/cwd", (unsigned)pid);
    const ssize_t length = readlink(link, target, sizeof target - 1);
    return length > 0 && strcmp(target, embedded->paths.data) == 0;
}

/* A killed postmaster releases its descriptors, and so our lock, shortly before its directory. */
static struct result wait_for_postmaster(const struct embedded *embedded, uint64_t pid, struct error *err)
{
    const int64_t until_ms = clock_monotonic_ms() + ENDING_WAIT_MS;

    while (is_postmaster(embedded, pid)) {
        if (step_is_interrupted()) return failure(err, ERROR_UNAVAILABLE, "interrupted");
        if (clock_monotonic_ms() > until_ms)
            return failure(err, ERROR_CONFLICT, "PostgreSQL (process %u) already uses %s: stop it, with kill -INT %u",
                           (unsigned)pid, embedded->paths.data, (unsigned)pid);
        (void)usleep(20000);
    }
    return SUCCESS;
}

static struct result clear_lock(const struct embedded *embedded, const char *folder, const char *name, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(4096);
    char path[PATH_SIZE];

    TRY(path_join(path, folder, name, err));
    TRY(read_lock(path, &text, err));
    const uint64_t pid = pid_in(&text);
    if (pid != 0) TRY(wait_for_postmaster(embedded, pid, err));
    if (unlink(path) != 0 && errno != ENOENT)
        return failure(err, ERROR_UNAVAILABLE, "can't remove %s: %s", path, strerror(errno));
    return SUCCESS;
}

/*
 * After a crash, the number in a pid file may belong to another process of the same user, or to the killed postmaster, for which no parent has
 * waited yet. PostgreSQL would refuse to start because of either. Our lock shows that no process of an earlier start is left, so a running
 * postmaster was started by hand. PostgreSQL keeps two such files.
 */
static struct result clear_stale(struct embedded *embedded, struct error *err)
{
    TRY(clear_lock(embedded, embedded->paths.data, "postmaster.pid", err));
    return clear_lock(embedded, embedded->paths.postgres_run, SOCKET_LOCK, err);
}

/* The last line of its pid file shows when it takes connections. */
static struct result is_ready(const struct embedded *embedded, bool *ready_out, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(4096);

    TRY(read_pid_file(embedded, &text, err));
    *ready_out =
        pid_in(&text) == (uint64_t)embedded->processes[PROCESS_POSTGRES].pid && strstr(buffer_text(&text), "\nready") != NULL;
    return SUCCESS;
}

struct result postgres_start(struct embedded *embedded, struct error *err)
{
    struct process *process = &embedded->processes[PROCESS_POSTGRES];
    const int64_t until_ms = clock_monotonic_ms() + READY_WAIT_MS;

    TRY(clear_stale(embedded, err));
    TRY(process_start(process, embedded->paths.lock, err));
    for (bool ready = false; !ready; (void)usleep(20000)) {
        if (!process_is_running(process))
            return failure(err, ERROR_UNAVAILABLE, "PostgreSQL does not start: see %s and %s/log",
                           embedded->paths.postgres_output, embedded->paths.data);
        if (step_is_interrupted()) return failure(err, ERROR_UNAVAILABLE, "interrupted");
        if (clock_monotonic_ms() > until_ms)
            return failure(err, ERROR_UNAVAILABLE, "PostgreSQL is not ready in time: see %s/log", embedded->paths.data);
        TRY(is_ready(embedded, &ready, err));
    }
    return SUCCESS;
}

static struct result make_tables(void *context, struct error *err)
{
    const struct embedded *embedded = context;
    struct migration_report report;
    char conninfo[PATH_SIZE], number[16];

    postgres_conninfo(embedded, "postgres", "postgres", conninfo);
    TRY(storage_create_database(conninfo, err));
    postgres_conninfo(embedded, "sijil", "sijil_owner", conninfo);
    TRY(storage_migrate(conninfo, &report, err));
    (void)snprintf(number, sizeof number, "%u", report.version);
    if (report.applied > 0) log_line(LOG_INFO, "the schema was brought up to date", "version", number, NULL);
    return SUCCESS;
}

struct result postgres_bootstrap(struct embedded *embedded, struct error *err)
{
    return step_run(&embedded->users.self, make_tables, embedded, err);
}
