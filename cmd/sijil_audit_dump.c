/* sijil-audit-dump writes the log of a live database as a stream: audit/dump.h. It reads only. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "audit/dump.h"
#include "base/clock.h"
#include "base/file.h"
#include "cmd/options.h"
#include "crypto/secret.h"

enum { EXIT_USAGE = 2 };
#define CONNINFO_MAX 4096 /* bytes of the file with the connection string */
#define PART         ".part"
#define TELL_MS      5000 /* between two lines of progress */

struct settings {
    const char *database, *output;
    bool progress;
};

struct target {
    int fd;
    int64_t told_ms;
};

static _Noreturn void misused(const char *what)
{
    (void)fprintf(stderr, "sijil-audit-dump: %s\nTry 'sijil-audit-dump --help' for more information.\n", what);
    exit(EXIT_USAGE);
}

static _Noreturn void show_and_end(bool help)
{
    if (help) program_print_help(stdout, &audit_dump_program);
    else (void)fputs("sijil-audit-dump " SIJIL_VERSION "\n", stdout);
    exit(fflush(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE);
}

static void read_command_line(int argc, char **argv, struct settings *settings)
{
    struct option options[PROGRAM_OPTIONS_MAX + 1];
    int code;

    program_long_options(&audit_dump_program, options);
    while ((code = getopt_long(argc, argv, "", options, NULL)) != -1) switch (code) {
        case AUDIT_DUMP_DATABASE: settings->database = optarg; break;
        case AUDIT_DUMP_OUTPUT: settings->output = optarg; break;
        case AUDIT_DUMP_PROGRESS: settings->progress = true; break;
        case AUDIT_DUMP_HELP: show_and_end(true);
        case AUDIT_DUMP_VERSION: show_and_end(false);
        default: misused("an option is wrong: see the message above");
        }
    if (optind < argc) misused("there are arguments that belong to no option");
    if (settings->database == NULL) misused("--database is missing");
}

static struct result write_piece(void *context, struct bytes piece, struct error *err)
{
    const struct target *target = context;

    return file_write_all(target->fd, piece.data, piece.length, err);
}

static void tell(void *context, uint64_t done, uint64_t size)
{
    struct target *target = context;
    const int64_t now_ms = clock_monotonic_ms();

    if (now_ms - target->told_ms < TELL_MS && done < size) return;
    target->told_ms = now_ms;
    (void)fprintf(stderr, "sijil-audit-dump: %llu of %llu entries\n", (unsigned long long)done, (unsigned long long)size);
}

static void tell_released(const struct audit_dump_released *released)
{
    if (released->count == 0) return;
    (void)fprintf(
        stderr,
        "sijil-audit-dump: %llu entries from %llu to %llu are in the dump with their hash alone: their bytes were released from the "
        "database, and this program does not read the region that has them\n",
        (unsigned long long)released->count, (unsigned long long)released->first, (unsigned long long)released->last);
}

static struct result dump_to(const struct settings *settings, int fd, struct error *err)
{
    struct buffer OWNED_BUFFER conninfo = BUFFER(CONNINFO_MAX);
    struct target target = {fd, clock_monotonic_ms()};
    struct audit_dump_released released;

    TRY(file_read_private(settings->database, &conninfo, err));
    if (conninfo.length > 0) conninfo.data[strcspn(buffer_text(&conninfo), "\n")] = '\0';
    const struct audit_dump_options options = {.conninfo = buffer_text(&conninfo),
                                               .write = write_piece,
                                               .progress = settings->progress ? tell : NULL,
                                               .context = &target};
    const struct result dumped = audit_dump(&options, &released, err);
    if (conninfo.data != NULL) secret_wipe(conninfo.data, conninfo.length);
    if (dumped.ok) tell_released(&released);
    return dumped;
}

/* A dump is of one moment, so one that was broken off is not continued. The next one writes over its part. */
static struct result dump_to_file(const struct settings *settings, struct error *err)
{
    struct buffer OWNED_BUFFER part = BUFFER(4096);
    OWNED_FD fd = -1;

    TRY(buffer_format(&part, err, "%s%s", settings->output, PART));
    TRY(file_open(buffer_text(&part), O_WRONLY | O_CREAT | O_TRUNC, 0600, &fd, err));
    TRY(dump_to(settings, fd, err));
    TRY(file_sync(fd, err));
    return file_rename(buffer_text(&part), settings->output, err);
}

int main(int argc, char **argv)
{
    struct settings settings = {.output = "-"};
    struct error err = {0};

    read_command_line(argc, argv, &settings);
    const bool is_stream = strcmp(settings.output, "-") == 0;
    if ((is_stream ? dump_to(&settings, STDOUT_FILENO, &err) : dump_to_file(&settings, &err)).ok) return EXIT_SUCCESS;
    (void)fprintf(stderr, "sijil-audit-dump: %s\n", err.message);
    return EXIT_FAILURE;
}
