/* sijild: the gateway. Everything that it needs to know comes from one configuration file, or from --embedded. */
#include <fcntl.h>
#include <getopt.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "embedded/embedded.h"
#include "embedded/found.h"
#include "gateway/gateway.h"
#include "storage/migrate.h"

enum { EXIT_USAGE = 2, SAMPLE_MAX = 65536 };

enum job { JOB_RUN, JOB_CHECK, JOB_MIGRATE, JOB_FOUND, JOB_EMBEDDED };

struct command {
    enum job job;
    const char *config, *approver, *policy_set, *admin_file;
    struct embedded_options embedded;
};

static const char help[] =
    "Usage: sijild [--config=FILE] [--check-config | --migrate | --found=FILE]\n"
    "  or:  sijild --embedded=DIR [OPTION]...\n"
    "  or:  sijild --sample-config\n"
    "Serve a registry of machine-learning artifacts: the OCI protocol and /api/v1, over TLS 1.3.\n"
    "\n"
    "  --config=FILE           configuration; default: /etc/sijil/sijild.conf\n"
    "  --check-config          say whether the configuration is good, and end\n"
    "  --sample-config         print a configuration with all parameters and their defaults, and end\n"
    "  --migrate               bring the database to this program's schema, and end\n"
    "  --found=FILE            make the regions, the first project and an administrator, whose secret goes to FILE\n"
    "  --approver=PEM          with --found, the first time: public key that policy sets are signed with\n"
    "  --policy-set=FILE       with --found, the first time: a signed policy set\n"
    "  --help                  show this text and end\n"
    "  --version               show the version and end\n"
    "\n"
    "On one machine, with a PostgreSQL and keys of its own in DIR:\n"
    "  --embedded=DIR          make DIR if it is not there, start everything, serve\n"
    "  --listen-address=IP     default: 127.0.0.1, this machine only\n"
    "  --listen-port=PORT      default: 8443\n"
    "  --public-url=URL        what clients call it; default: https://ADDRESS:PORT\n"
    "  --geo=XX                country that the machine is in, at the first start; default: AE\n"
    "  --operator=NAME         who runs the machine, at the first start\n"
    "  --network=CIDR          clients that are proven to be where the machine is, at the first start\n"
    "  --passphrase-file=FILE  file with the key ring's passphrase; default: one outside DIR, made at random\n"
    "  --passphrase-fd=N       read the passphrase from an open descriptor\n"
    "  --new-admin             make another administrator, when the first one's secret is lost\n"
    "\n"
    "SIGHUP reads certificates again; SIGTERM and SIGINT finish what runs and end.\n"
    "Exit status: 0 all is well, 1 something failed, 2 the command line or the configuration is wrong.\n";

enum option_code {
    OPTION_CONFIG = 256, OPTION_CHECK, OPTION_SAMPLE, OPTION_MIGRATE, OPTION_FOUND, OPTION_APPROVER, OPTION_POLICY_SET,
    OPTION_EMBEDDED, OPTION_ADDRESS, OPTION_PORT,
    OPTION_URL, OPTION_GEO, OPTION_OPERATOR, OPTION_NETWORK, OPTION_PASSPHRASE_FILE, OPTION_PASSPHRASE_FD,
    OPTION_NEW_ADMIN, OPTION_HELP, OPTION_VERSION
};

static const struct option options[] = {
    {"config", required_argument, NULL, OPTION_CONFIG},
    {"check-config", no_argument, NULL, OPTION_CHECK},
    {"sample-config", no_argument, NULL, OPTION_SAMPLE},
    {"migrate", no_argument, NULL, OPTION_MIGRATE},
    {"found", required_argument, NULL, OPTION_FOUND},
    {"approver", required_argument, NULL, OPTION_APPROVER},
    {"policy-set", required_argument, NULL, OPTION_POLICY_SET},
    {"embedded", required_argument, NULL, OPTION_EMBEDDED},
    {"listen-address", required_argument, NULL, OPTION_ADDRESS},
    {"listen-port", required_argument, NULL, OPTION_PORT},
    {"public-url", required_argument, NULL, OPTION_URL},
    {"geo", required_argument, NULL, OPTION_GEO},
    {"operator", required_argument, NULL, OPTION_OPERATOR},
    {"network", required_argument, NULL, OPTION_NETWORK},
    {"passphrase-file", required_argument, NULL, OPTION_PASSPHRASE_FILE},
    {"passphrase-fd", required_argument, NULL, OPTION_PASSPHRASE_FD},
    {"new-admin", no_argument, NULL, OPTION_NEW_ADMIN},
    {"help", no_argument, NULL, OPTION_HELP},
    {"version", no_argument, NULL, OPTION_VERSION},
    {0},
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
    case OPTION_CONFIG: command->config = optarg; return -1;
    case OPTION_CHECK: command->job = JOB_CHECK; return -1;
    case OPTION_MIGRATE: command->job = JOB_MIGRATE; return -1;
    case OPTION_FOUND:
        command->job = JOB_FOUND;
        command->admin_file = optarg;
        return -1;
    case OPTION_APPROVER: command->approver = optarg; return -1;
    case OPTION_POLICY_SET: command->policy_set = optarg; return -1;
    case OPTION_SAMPLE: return print_sample();
    case OPTION_HELP: return fputs(help, stdout) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
    case OPTION_VERSION: return puts("sijild " SIJIL_VERSION) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
    default: return usage_error(NULL);
    }
}

static int take_option(int code, struct command *command)
{
    struct embedded_options *embedded = &command->embedded;
    int64_t fd = -1;

    switch (code) {
    case OPTION_EMBEDDED:
        command->job = JOB_EMBEDDED;
        embedded->directory = optarg;
        return -1;
    case OPTION_ADDRESS: embedded->listen_address = optarg; return -1;
    case OPTION_PORT:
        return set_number(optarg, 65535, &embedded->listen_port) ? -1 : usage_error("--listen-port: 0 to 65535");
    case OPTION_URL: embedded->public_url = optarg; return -1;
    case OPTION_GEO: embedded->geo = optarg; return -1;
    case OPTION_OPERATOR: embedded->operator_name = optarg; return -1;
    case OPTION_NETWORK: embedded->network = optarg; return -1;
    case OPTION_PASSPHRASE_FILE: embedded->passphrase_file = optarg; return -1;
    case OPTION_PASSPHRASE_FD:
        if (!set_number(optarg, 1 << 20, &fd)) return usage_error("--passphrase-fd: the number of an open descriptor");
        embedded->passphrase_fd = (int)fd;
        return -1;
    case OPTION_NEW_ADMIN: embedded->new_admin = true; return -1;
    default: return job_option(code, command);
    }
}

static int take_options(int argc, char **argv, struct command *command)
{
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
    static struct settings settings;

    if (command->job == JOB_EMBEDDED) return run_embedded(&command->embedded, err);
    TRY(settings_read(command->config, &settings, err));
    if (command->job == JOB_CHECK) return SUCCESS;
    if (command->job == JOB_MIGRATE) return migrate(&settings, err);
    if (command->job == JOB_FOUND) return found(command, &settings, err);
    return gateway_run(&settings, err);
}

int main(int argc, char **argv)
{
    struct command command = {.config = "/etc/sijil/sijild.conf", .embedded.passphrase_fd = -1};
    struct error err = {0};

    const int status = take_options(argc, argv, &command);
    if (status >= 0) return status;
    if (run(&command, &err).ok) return EXIT_SUCCESS;
    log_error("sijild ends", &err);
    return command.job == JOB_CHECK ? EXIT_USAGE : EXIT_FAILURE;
}
