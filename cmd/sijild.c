/* sijild: the gateway. Everything that it needs to know comes from one configuration file, or from --embedded. */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/dump.h"
#include "base/environment.h"
#include "base/file.h"
#include "base/log.h"
#include "base/pace.h"
#include "base/text.h"
#include "cmd/options.h"
#include "embedded/embedded.h"
#include "embedded/found.h"
#include "gateway/gateway.h"
#include "storage/migrate.h"

enum { EXIT_USAGE = 2, SAMPLE_MAX = 65536, SECONDS_MAX = 31536000 };

enum job { JOB_RUN, JOB_CHECK, JOB_MIGRATE, JOB_FOUND, JOB_EMBEDDED };

struct command {
    enum job job;
    const char *config, *approver, *policy_set, *admin_file;
    struct embedded_options embedded;
};

static int usage_error(const char *why)
{
    if (why != NULL) (void)fprintf(stderr, "sijild: %s\n", why);
    (void)fprintf(stderr, "Try 'sijild --help'.\n");
    return EXIT_USAGE;
}

static int print_sample(void)
{
    struct buffer OWNED_BUFFER text = BUFFER(SAMPLE_MAX);
    struct error err = {0};

    if (!settings_sample(&text, &err).ok) {
        log_error("the sample can't be made", &err);
        return EXIT_FAILURE;
    }
    return fputs(buffer_text(&text), stdout) < 0 || fflush(stdout) != 0 ? EXIT_FAILURE : EXIT_SUCCESS;
}

static bool set_number(const char *text, uint64_t maximum, int64_t *number_out)
{
    uint64_t number = 0;

    if (!text_to_u64(bytes_of_text(text), maximum, &number)) return false;
    *number_out = (int64_t)number;
    return true;
}

/* Options that stand for themselves; their exit status, or -1 to go on. */
static int job_option(int code, struct command *command)
{
    switch (code) {
    case SIJILD_CONFIG: command->config = optarg; return -1;
    case SIJILD_CHECK: command->job = JOB_CHECK; return -1;
    case SIJILD_MIGRATE: command->job = JOB_MIGRATE; return -1;
    case SIJILD_FOUND:
        command->job = JOB_FOUND;
        command->admin_file = optarg;
        return -1;
    case SIJILD_APPROVER: command->approver = optarg; return -1;
    case SIJILD_POLICY_SET: command->policy_set = optarg; return -1;
    case SIJILD_SAMPLE: return print_sample();
    case SIJILD_HELP:
        program_print_help(stdout, &sijild_program);
        return fflush(stdout) == 0 && ferror(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    case SIJILD_VERSION: return puts("sijild " SIJIL_VERSION) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
    default: return usage_error(NULL);
    }
}

static int take_option(int code, struct command *command)
{
    struct embedded_options *embedded = &command->embedded;
    int64_t fd = -1;

    switch (code) {
    case SIJILD_EMBEDDED:
        command->job = JOB_EMBEDDED;
        embedded->directory = optarg;
        return -1;
    case SIJILD_ADDRESS: embedded->listen_address = optarg; return -1;
    case SIJILD_PORT:
        return set_number(optarg, 65535, &embedded->listen_port) ? -1 : usage_error("--listen-port: 0 to 65535");
    case SIJILD_URL: embedded->public_url = optarg; return -1;
    case SIJILD_GEO: embedded->geo = optarg; return -1;
    case SIJILD_OPERATOR: embedded->operator_name = optarg; return -1;
    case SIJILD_NETWORK: embedded->network = optarg; return -1;
    case SIJILD_PASSPHRASE_FILE: embedded->passphrase_file = optarg; return -1;
    case SIJILD_SECRETS: embedded->secrets_folder = optarg; return -1;
    case SIJILD_PASSPHRASE_FD:
        if (!set_number(optarg, 1 << 20, &fd)) return usage_error("--passphrase-fd: the number of an open descriptor");
        embedded->passphrase_fd = (int)fd;
        return -1;
    case SIJILD_BLOB_LEASE:
        return set_number(optarg, SECONDS_MAX, &embedded->blob_lease) ? -1 : usage_error("--blob-lease: seconds");
    case SIJILD_COLLECT_INTERVAL:
        return set_number(optarg, SECONDS_MAX, &embedded->collect_interval) ? -1 : usage_error("--collect-interval: seconds");
    case SIJILD_NEW_ADMIN: embedded->new_admin = true; return -1;
    default: return job_option(code, command);
    }
}

static int take_options(int argc, char **argv, struct command *command)
{
    struct option options[PROGRAM_OPTIONS_MAX + 1];

    program_long_options(&sijild_program, options);
    for (int code; (code = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        const int status = take_option(code, command);
        if (status >= 0) return status;
    }
    return optind < argc ? usage_error("there are no arguments, only options") : -1;
}

static struct result migrate(const struct settings *settings, struct error *err)
{
    struct migration_report report = {0};
    char applied[12], version[12];

    if (settings->database_owner[0] == '\0')
        return failure(err, ERROR_INVALID, "--migrate needs database_owner in the configuration: the schema's owner");
    TRY(storage_migrate(settings->database_owner, &report, err));
    (void)snprintf(applied, sizeof applied, "%u", report.applied);
    (void)snprintf(version, sizeof version, "%u", report.version);
    log_line(LOG_INFO, "the schema is up to date", "applied", applied, "version", version, NULL);
    return SUCCESS;
}

/* The file is made first: an administrator whose secret nobody got would be of no use. */
static struct result found(const struct command *command, const struct settings *settings, struct error *err)
{
    OWNED_FD file = -1;

    TRY(file_open(command->admin_file, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600, &file, err));
    const struct found_options founding = {.settings = settings,
                                          .approver = command->approver,
                                          .policy_set = command->policy_set,
                                          .admin_fd = file};
    const struct result made = found_registry(&founding, err);
    if (!made.ok) (void)unlink(command->admin_file);
    else log_line(LOG_INFO, "made an administrator", "file", command->admin_file, NULL);
    return made;
}

static struct result run_embedded(const struct embedded_options *wanted, struct error *err)
{
    OWNED(embedded) *embedded = NULL;

    TRY(embedded_prepare(wanted, &embedded, err));
    log_line(LOG_INFO, "one machine", "administrator", embedded_admin_file(embedded), "authority",
             embedded_authority_file(embedded), NULL);
    return gateway_run(embedded_settings(embedded), err);
}

static struct result run(const struct command *command, struct error *err)
{
    /* libpq looks for what `database` leaves open in PG... and below HOME. */
    static const char *const serving[] = {"LANG", "LC_*", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR", "HOME", "PG*", NULL};
    static struct settings settings;

    if (command->job == JOB_EMBEDDED) return run_embedded(&command->embedded, err);
    TRY(settings_read(command->config, &settings, err));
    if (command->job == JOB_CHECK) return SUCCESS;
    if (command->job == JOB_MIGRATE) return migrate(&settings, err);
    if (command->job == JOB_FOUND) return found(command, &settings, err);
    environment_keep(serving);
    return gateway_run(&settings, err);
}

static int exit_status(const struct command *command, const struct error *err)
{
    if (command->job == JOB_CHECK) return EXIT_USAGE;
    const bool may_pass =
        err->kind == ERROR_UNAVAILABLE || err->kind == ERROR_UNCERTAIN || err->kind == ERROR_NO_MEMORY;
    return may_pass ? EXIT_TRY_AGAIN : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    struct command command = {.config = "/etc/sijil/sijild.conf", .embedded = {.passphrase_fd = -1, .collect_interval = -1}};
    struct error err = {0};

    const int status = take_options(argc, argv, &command);
    if (status >= 0) return status;
    if (!dump_forbid()) {
        perror("sijild: core dumps can't be forbidden");
        return EXIT_FAILURE;
    }
    pace_prompt(); /* PostgreSQL and sijil-keyd take it over, if they are started from here */
    if (run(&command, &err).ok) return EXIT_SUCCESS;
    log_error("sijild ends", &err);
    return exit_status(&command, &err);
}
