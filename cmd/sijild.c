/* sijild, the gateway. All its settings come from one configuration file, or from --embedded. */
#include <stdio.h>
#include <string.h>

#include "base/dump.h"
#include "base/environment.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/notify.h"
#include "base/priority.h"
#include "base/text.h"
#include "cmd/options.h"
#include "cmd/sijild_jobs.h"
#include "embedded/embedded.h"
#include "gateway/check.h"
#include "gateway/gateway.h"

enum { EXIT_USAGE = 2, SAMPLE_MAX = 65536, SECONDS_MAX = 31536000 };

enum job {
    JOB_RUN,
    JOB_CHECK,
    JOB_MIGRATE,
    JOB_FOUND,
    JOB_REPLACE_ADMIN,
    JOB_RECOVER_PLAN,
    JOB_RECOVER,
    JOB_EMBEDDED,
    JOB_OWN_RECOVERY
};

struct command {
    enum job job, recovers; /* recovers: JOB_RECOVER or JOB_RECOVER_PLAN, also on one machine */
    bool has_settings;      /* for serving: the settings were read, and are valid */
    uint64_t given;         /* given options, as a set: 1 << their distance from the first */
    struct sijild_job options;
    struct embedded_options embedded;
    int64_t erasure_retention; /* which `embedded` points at */
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

/* Runs an option that is a job of its own. Returns its exit status, or -1 to go on. */
static int job_option(int code, struct command *command)
{
    switch (code) {
    case SIJILD_CONFIG: command->options.config = optarg; return -1;
    case SIJILD_CHECK: command->job = JOB_CHECK; return -1;
    case SIJILD_ONLINE: command->options.online = true; return -1;
    case SIJILD_DATABASE_OWNER: command->options.database_owner = optarg; return -1;
    case SIJILD_MIGRATE: command->job = JOB_MIGRATE; return -1;
    case SIJILD_FOUND:
    case SIJILD_REPLACE_ADMIN:
        command->job = code == SIJILD_FOUND ? JOB_FOUND : JOB_REPLACE_ADMIN;
        command->options.admin_file = optarg;
        return -1;
    case SIJILD_RECOVER_PLAN:
    case SIJILD_RECOVER:
        command->recovers = command->job = code == SIJILD_RECOVER ? JOB_RECOVER : JOB_RECOVER_PLAN;
        command->options.plan = optarg;
        return -1;
    case SIJILD_RECOVER_REASON: command->options.reason = optarg; return -1;
    case SIJILD_RECOVER_CHECKPOINT: command->options.checkpoint = optarg; return -1;
    case SIJILD_APPROVER: command->options.approver = optarg; return -1;
    case SIJILD_POLICY_SET: command->options.policy_set = optarg; return -1;
    case SIJILD_SAMPLE: return print_sample();
    case SIJILD_HELP:
        program_print_help(stdout, &sijild_program);
        return fflush(stdout) == 0 && ferror(stdout) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
    case SIJILD_VERSION: return puts("sijild " SIJIL_VERSION) < 0 ? EXIT_FAILURE : EXIT_SUCCESS;
    default: return usage_error(NULL);
    }
}

static int witness_seconds(int code, struct embedded_options *embedded)
{
    switch (code) {
    case SIJILD_WITNESS_INTERVAL:
        if (set_number(optarg, 3600, &embedded->witness_interval) && embedded->witness_interval > 0) return -1;
        return usage_error("--witness-interval: 1 to 3600 seconds");
    case SIJILD_WITNESS_LAG:
        if (set_number(optarg, 86400, &embedded->witness_lag) && embedded->witness_lag >= 5) return -1;
        return usage_error("--witness-lag: 5 to 86400 seconds");
    default:
        if (set_number(optarg, 3600, &embedded->witness_patience) && embedded->witness_patience >= 5) return -1;
        return usage_error("--witness-patience: 5 to 3600 seconds");
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
    case SIJILD_PORT: return set_number(optarg, 65535, &embedded->listen_port) ? -1 : usage_error("--listen-port: 0 to 65535");
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
    case SIJILD_ERASURE_RETENTION:
        embedded->erasure_retention = &command->erasure_retention;
        return set_number(optarg, SECONDS_MAX, &command->erasure_retention) ? -1 : usage_error("--erasure-retention: seconds");
    case SIJILD_COLLECT_INTERVAL:
        return set_number(optarg, SECONDS_MAX, &embedded->collect_interval) ? -1 : usage_error("--collect-interval: seconds");
    case SIJILD_WITNESS_POLICY: embedded->witness_policy = optarg; return -1;
    case SIJILD_ISSUER_NETWORKS: embedded->issuer_networks = optarg; return -1;
    case SIJILD_ISSUER_CA_FILE: embedded->issuer_ca_file = optarg; return -1;
    case SIJILD_INTROSPECTION_FILE: embedded->introspection_file = optarg; return -1;
    case SIJILD_CLIENT_CA: embedded->client_ca = optarg; return -1;
    case SIJILD_CLIENT_ANY: embedded->client_any = true; return -1;
    case SIJILD_WITNESS_CA_FILE: embedded->witness_ca_file = optarg; return -1;
    case SIJILD_WITNESS_INTERVAL:
    case SIJILD_WITNESS_LAG:
    case SIJILD_WITNESS_PATIENCE: return witness_seconds(code, embedded);
    case SIJILD_NEW_ADMIN: embedded->new_admin = true; return -1;
    case SIJILD_NO_RUNNER: embedded->no_runner = true; return -1;
    case SIJILD_OFFICERS_BY_BINDINGS: embedded->officers_by_bindings = true; return -1;
    default: return job_option(code, command);
    }
}

#define JOB(name)    (1U << (JOB_##name))
#define OPTION(name) (UINT64_C(1) << ((name)-SIJILD_CONFIG))

/* An option that is ignored would mislead the operator. */
static const struct belonging {
    uint64_t options;
    unsigned jobs;
    const char *belongs_to;
} belongings[] = {
    {OPTION(SIJILD_CONFIG), ~(JOB(EMBEDDED) | JOB(OWN_RECOVERY) | JOB(MIGRATE)),
     "a gateway with a configuration, not to --embedded or --migrate"},
    {OPTION(SIJILD_ONLINE), JOB(CHECK), "--check-config"},
    {OPTION(SIJILD_DATABASE_OWNER), JOB(CHECK) | JOB(MIGRATE) | JOB(RECOVER), "--migrate, --recover or --check-config"},
    {OPTION(SIJILD_APPROVER) | OPTION(SIJILD_POLICY_SET), JOB(FOUND), "--found"},
    {OPTION(SIJILD_RECOVER_REASON) | OPTION(SIJILD_RECOVER_CHECKPOINT), JOB(RECOVER_PLAN) | JOB(OWN_RECOVERY), "--recover-plan"},
    {OPTION(SIJILD_ADDRESS) | OPTION(SIJILD_PORT) | OPTION(SIJILD_URL) | OPTION(SIJILD_GEO) | OPTION(SIJILD_OPERATOR) |
         OPTION(SIJILD_NETWORK) | OPTION(SIJILD_PASSPHRASE_FILE) | OPTION(SIJILD_PASSPHRASE_FD) | OPTION(SIJILD_SECRETS) |
         OPTION(SIJILD_BLOB_LEASE) | OPTION(SIJILD_ERASURE_RETENTION) | OPTION(SIJILD_COLLECT_INTERVAL) |
         OPTION(SIJILD_NEW_ADMIN) | OPTION(SIJILD_NO_RUNNER) | OPTION(SIJILD_OFFICERS_BY_BINDINGS) |
         OPTION(SIJILD_WITNESS_POLICY) | OPTION(SIJILD_WITNESS_CA_FILE) | OPTION(SIJILD_WITNESS_INTERVAL) |
         OPTION(SIJILD_WITNESS_LAG) | OPTION(SIJILD_WITNESS_PATIENCE) | OPTION(SIJILD_ISSUER_NETWORKS) |
         OPTION(SIJILD_ISSUER_CA_FILE) | OPTION(SIJILD_INTROSPECTION_FILE) | OPTION(SIJILD_CLIENT_CA) | OPTION(SIJILD_CLIENT_ANY),
     JOB(EMBEDDED) | JOB(OWN_RECOVERY), "--embedded"},
};
static const uint64_t jobs_options = OPTION(SIJILD_RECOVER_PLAN) | OPTION(SIJILD_RECOVER) | OPTION(SIJILD_CHECK) |
                                     OPTION(SIJILD_MIGRATE) | OPTION(SIJILD_FOUND) | OPTION(SIJILD_REPLACE_ADMIN) |
                                     OPTION(SIJILD_EMBEDDED);

static int misplaced(uint64_t options, const char *belongs_to)
{
    struct option rows[PROGRAM_OPTIONS_MAX + 1];
    char why[200];
    size_t i = 0;

    program_long_options(&sijild_program, rows);
    while ((options & OPTION(rows[i].val)) == 0) i++;
    (void)snprintf(why, sizeof why, "--%s belongs to %s", rows[i].name, belongs_to);
    return usage_error(why);
}

static int check_together(struct command *command)
{
    const bool recovers_own = (command->given & OPTION(SIJILD_EMBEDDED)) != 0 && command->recovers != JOB_RUN;
    const uint64_t jobs = command->given & jobs_options & ~(recovers_own ? OPTION(SIJILD_EMBEDDED) : 0);

    if ((jobs & (jobs - 1)) != 0)
        return usage_error(
            "one of --check-config, --migrate, --found, --replace-admin, --recover-plan, --recover and --embedded at a time");
    if (recovers_own) command->job = JOB_OWN_RECOVERY;
    for (size_t i = 0; i < sizeof belongings / sizeof belongings[0]; i++) {
        const uint64_t options = command->given & belongings[i].options;
        if (options != 0 && (belongings[i].jobs & (1U << command->job)) == 0) return misplaced(options, belongings[i].belongs_to);
    }
    return -1;
}

static int check_embedded(const struct command *command)
{
    struct error why = {0};

    if ((command->job != JOB_EMBEDDED && command->job != JOB_OWN_RECOVERY) || embedded_check(&command->embedded, &why).ok)
        return -1;
    return usage_error(why.message);
}

static int take_options(int argc, char **argv, struct command *command)
{
    struct option options[PROGRAM_OPTIONS_MAX + 1];

    program_long_options(&sijild_program, options);
    for (int code; (code = getopt_long(argc, argv, "", options, NULL)) != -1;) {
        const int status = take_option(code, command);
        if (status >= 0) return status;
        command->given |= OPTION(code);
    }
    if (optind < argc) return usage_error("there are no arguments, only options");
    const int status = check_together(command);
    return status >= 0 ? status : check_embedded(command);
}

static struct result run_embedded(const struct embedded_options *wanted, struct error *err)
{
    OWNED(embedded) *embedded = NULL;

    TRY(embedded_prepare(wanted, &embedded, err));
    log_line(LOG_INFO, "one machine", "administrator", embedded_admin_file(embedded), "authority",
             embedded_authority_file(embedded), NULL);
    return gateway_run(embedded_settings(embedded), err);
}

static struct result recover_embedded(const struct command *command, struct error *err)
{
    const struct sijild_job *job = &command->options;
    const bool plans = command->recovers == JOB_RECOVER_PLAN;
    const struct embedded_recovery wanted = {
        .plan = job->plan, .reason = job->reason, .checkpoint = job->checkpoint, .signed_plan = plans ? NULL : job->plan};

    if (plans) TRY(sijild_check_reason(job, err));
    return embedded_recover(&command->embedded, &wanted, err);
}

static struct result serve(struct command *command, struct error *err)
{
    /* For settings that `database` leaves out, libpq reads PG... and files below HOME. */
    static const char *const serving[] = {"LANG", "LC_*", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR", "HOME", "PG*", NULL};
    static struct settings settings;

    TRY(settings_read(command->options.config, &settings, err));
    TRY(check_start(&settings, err));
    command->has_settings = true;
    notify_find();
    environment_keep(serving);
    return gateway_run(&settings, err);
}

static struct result run(struct command *command, struct error *err)
{
    switch (command->job) {
    case JOB_EMBEDDED: return run_embedded(&command->embedded, err);
    case JOB_OWN_RECOVERY: return recover_embedded(command, err);
    case JOB_CHECK: return sijild_check(&command->options, err);
    case JOB_MIGRATE: return sijild_migrate(&command->options, err);
    case JOB_FOUND: return sijild_bootstrap(&command->options, err);
    case JOB_REPLACE_ADMIN: return sijild_replace_admin(&command->options, err);
    case JOB_RECOVER_PLAN: return sijild_recover_plan(&command->options, err);
    case JOB_RECOVER: return sijild_recover(&command->options, err);
    case JOB_RUN: break;
    }
    return serve(command, err);
}

static int exit_status(const struct command *command, const struct error *err)
{
    if (command->job == JOB_CHECK || (command->job == JOB_RUN && !command->has_settings)) return EXIT_USAGE;
    const bool may_pass = err->kind == ERROR_UNAVAILABLE || err->kind == ERROR_UNCERTAIN || err->kind == ERROR_NO_MEMORY;
    return may_pass ? EXIT_TRY_AGAIN : EXIT_FAILURE;
}

int main(int argc, char **argv)
{
    struct command command = {.options.config = "/etc/sijil/sijild.conf",
                              .embedded = {.passphrase_fd = -1, .collect_interval = -1}};
    struct error err = {0};

    const int status = take_options(argc, argv, &command);
    if (status >= 0) return status;
    if (!dump_forbid()) {
        perror("sijild: core dumps can't be forbidden");
        return EXIT_FAILURE;
    }
    memory_give_back_large();
    priority_interactive(); /* PostgreSQL and sijil-keyd inherit the priority, if this process starts them */
    if (run(&command, &err).ok) return EXIT_SUCCESS;
    log_error("sijild ends", &err);
    return exit_status(&command, &err);
}
