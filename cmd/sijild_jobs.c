#include "cmd/sijild_jobs.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "audit/format/log_keys.h"
#include "audit/format/succession.h"
#include "base/file.h"
#include "base/log.h"
#include "base/problems.h"
#include "crypto/secret.h"
#include "embedded/bootstrap.h"
#include "embedded/recovery.h"
#include "gateway/check.h"
#include "storage/migrate.h"

#define OWNER_FILE "/etc/sijil/database-owner"

/* The file may have a password, so no other user may read it. */
static struct result read_owner(const char *path, char conninfo[CONFIG_TEXT_SIZE], struct error *err)
{
    OWNED_FD file = -1;
    struct stat about;
    size_t length = 0;

    TRY(file_open(path, O_RDONLY, 0, &file, err));
    TRY(file_status(file, &about, err));
    if (!S_ISREG(about.st_mode)) return failure(err, ERROR_INVALID, "%.200s is no file", path);
    if ((about.st_mode & 077) != 0)
        return failure(err, ERROR_DENIED, "others may read the connection string of the database's owner: chmod 600 %.150s",
                       path);
    TRY(file_read_some(file, conninfo, CONFIG_TEXT_SIZE, 0, &length, err));
    if (length == CONFIG_TEXT_SIZE)
        return failure(err, ERROR_INVALID, "%.150s: a connection string of at most %d bytes", path, CONFIG_TEXT_SIZE - 1);
    conninfo[length] = '\0';
    conninfo[strcspn(conninfo, "\n")] = '\0';
    if (conninfo[0] == '\0')
        return failure(err, ERROR_INVALID, "%.150s: its first line is the connection string of the database's owner", path);
    return SUCCESS;
}

static struct result with_owner(const char *path, struct result (*act)(const char *conninfo, struct error *err),
                                struct error *err)
{
    char conninfo[CONFIG_TEXT_SIZE];
    struct error why = {0};

    struct result done = read_owner(path == NULL ? OWNER_FILE : path, conninfo, &why);
    if (!done.ok) return failure(err, why.kind, "--database-owner: %.230s", why.message);
    done = act(conninfo, err);
    secret_wipe(conninfo, sizeof conninfo);
    return done;
}

static void print_problem(void *context, const struct error *why)
{
    (void)fprintf(stderr, "%s: %s\n", (const char *)context, why->message);
}

static void check_owner(const struct sijild_job *job, struct problems *problems)
{
    struct error why = {0};

    if (job->database_owner != NULL && !with_owner(job->database_owner, storage_check_owner, &why).ok)
        problems_add(problems, &why);
}

struct result sijild_check(const struct sijild_job *job, struct error *err)
{
    static struct settings settings;
    struct problems problems = {.report = print_problem, .context = (void *)(uintptr_t)job->config};

    if (settings_read_all(job->config, &settings, &problems)) {
        check_secrecy(job->config, &settings, &problems);
        check_files(&settings, &problems);
        if (job->online) check_peers(&settings, &problems);
    }
    check_owner(job, &problems);
    if (problems.count > 0)
        return failure(err, ERROR_INVALID, "%s: %zu problem%s", job->config, problems.count, problems.count == 1 ? "" : "s");
    (void)fprintf(stderr, "%s: no problems\n", job->config);
    return SUCCESS;
}

static struct result migrate(const char *conninfo, struct error *err)
{
    struct migration_report report = {0};
    char applied[12], version[12]; /* numbers of 32 bits */

    TRY(storage_migrate(conninfo, &report, err));
    (void)snprintf(applied, sizeof applied, "%u", report.applied);
    (void)snprintf(version, sizeof version, "%u", report.version);
    log_line(LOG_INFO, "the schema is up to date", "applied", applied, "version", version, NULL);
    return SUCCESS;
}

struct result sijild_migrate(const struct sijild_job *job, struct error *err)
{
    return with_owner(job->database_owner, migrate, err);
}

/* ERROR_CONFLICT for an existing file, which may hold a secret that works. A later try does not help against other failures. */
static struct result open_admin_file(const char *path, int *file_out, struct error *err)
{
    const struct result opened = file_open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, 0600, file_out, err);

    if (!opened.ok && err->kind == ERROR_UNAVAILABLE) err->kind = ERROR_DENIED;
    return opened;
}

struct result sijild_bootstrap(const struct sijild_job *job, struct error *err)
{
    static struct settings settings;
    OWNED_FD file = -1;
    bool made_admin = false;

    TRY(settings_read(job->config, &settings, err));
    if (!open_admin_file(job->admin_file, &file, err).ok && err->kind != ERROR_CONFLICT) return (struct result){.ok = false};
    const struct bootstrap_options options = {.settings = &settings,
                                              .approver = job->approver,
                                              .policy_set = job->policy_set,
                                              .compares = true,
                                              .admin = BOOTSTRAP_ADMIN_ONCE,
                                              .admin_fd = file};
    const struct result bootstrapped = bootstrap_registry(&options, &made_admin, err);
    if (file >= 0 && !made_admin && (bootstrapped.ok || err->kind != ERROR_UNCERTAIN)) (void)unlink(job->admin_file);
    if (bootstrapped.ok && made_admin) log_line(LOG_INFO, "made an administrator", "file", job->admin_file, NULL);
    if (bootstrapped.ok && !made_admin)
        log_line(LOG_INFO, "there is an administrator already, and it stays as it is; --replace-admin makes another", NULL);
    return bootstrapped;
}

struct result sijild_replace_admin(const struct sijild_job *job, struct error *err)
{
    static struct settings settings;
    OWNED_FD file = -1;

    TRY(settings_read(job->config, &settings, err));
    TRY(open_admin_file(job->admin_file, &file, err));
    const struct bootstrap_options options = {.settings = &settings, .admin = BOOTSTRAP_ADMIN_ANEW, .admin_fd = file};
    const struct result made = bootstrap_administrator(&options, err);
    if (!made.ok && err->kind != ERROR_UNCERTAIN) (void)unlink(job->admin_file);
    if (made.ok) log_line(LOG_INFO, "replaced the administrator", "file", job->admin_file, NULL);
    return made;
}

/* ---- recovery ---- */

static struct result write_keys(const char *plan, struct bytes keys, struct error *err)
{
    char path[CONFIG_TEXT_SIZE];

    if ((size_t)snprintf(path, sizeof path, "%s.keys", plan) >= sizeof path)
        return failure(err, ERROR_INVALID, "--recover-plan: the name of the file is too long");
    return file_replace(path, keys, 0644, err);
}

struct result sijild_check_reason(const struct sijild_job *job, struct error *err)
{
    if (job->reason != NULL && job->reason[0] != '\0' && strlen(job->reason) <= SUCCESSION_REASON_MAX) return SUCCESS;
    return failure(err, ERROR_INVALID, "--recover-reason: why entries are lost, 1 to %d characters", SUCCESSION_REASON_MAX);
}

struct result sijild_recover_plan(const struct sijild_job *job, struct error *err)
{
    static struct settings settings;
    struct buffer OWNED_BUFFER statement = BUFFER(SUCCESSION_MAX), checkpoint = BUFFER(KEYD_COSIGNED_MAX);
    struct buffer OWNED_BUFFER keys = BUFFER(LOG_KEYS_TEXT_MAX);

    TRY(sijild_check_reason(job, err));
    TRY(settings_read(job->config, &settings, err));
    if (job->checkpoint != NULL) TRY(file_read(job->checkpoint, &checkpoint, err));
    const struct recovery_options options = {
        .settings = &settings, .reason = job->reason, .checkpoint = buffer_bytes(&checkpoint), .officers = SUCCESSION_OFFICERS};
    TRY(recovery_plan(&options, &statement, &keys, err));
    TRY(write_keys(job->plan, buffer_bytes(&keys), err));
    return file_replace(job->plan, buffer_bytes(&statement), 0644, err);
}

struct recovery_job {
    const struct settings *settings;
    struct bytes plans;
};
static struct recovery_job recovery;

static struct result recover(const char *conninfo, struct error *err)
{
    const struct recovery_options options = {
        .settings = recovery.settings, .database_owner = conninfo, .signed_plans = recovery.plans};

    return recovery_run(&options, err);
}

struct result sijild_recover(const struct sijild_job *job, struct error *err)
{
    static struct settings settings;
    struct buffer OWNED_BUFFER plans = BUFFER(SUCCESSION_OFFICERS_MAX * SUCCESSION_ENVELOPE_MAX);

    TRY(settings_read(job->config, &settings, err));
    TRY(file_read(job->plan, &plans, err));
    recovery = (struct recovery_job){&settings, buffer_bytes(&plans)};
    TRY(with_owner(job->database_owner, recover, err));
    log_line(LOG_INFO,
             "the log goes on under a new origin: start the gateways, and give the new key of the log to auditors and witnesses",
             NULL);
    return SUCCESS;
}
