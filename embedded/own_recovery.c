/* The ceremony of docs/recovery.md on one machine: each part as the user that may do it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "audit/format/log_keys.h"
#include "audit/format/succession_check.h"
#include "base/file.h"
#include "base/log.h"
#include "embedded/embedded_priv.h"
#include "embedded/recovery.h"

struct own_recovery {
    const struct embedded *embedded;
    struct recovery_options options;
    enum recovery_part part;
    int statement, keys; /* files in memory: the gateway's user can write to no folder of root */
};

/* ---- the plan ---- */

static struct result plan(void *context, struct error *err)
{
    const struct own_recovery *own = context;
    struct buffer OWNED_BUFFER statement = BUFFER(SUCCESSION_MAX), keys = BUFFER(LOG_KEYS_TEXT_MAX);

    TRY(recovery_plan(&own->options, &statement, &keys, err));
    TRY(file_write_all(own->statement, statement.data, statement.length, err));
    return file_write_all(own->keys, keys.data, keys.length, err);
}

static struct result keep(int from, const char *path, size_t most, struct error *err)
{
    struct buffer OWNED_BUFFER bytes = BUFFER(most);
    uint8_t *into = NULL;
    uint64_t size = 0;
    size_t length = 0;

    TRY(file_size(from, &size, err));
    if (size > most) return failure(err, ERROR_LIMIT, "%.200s: larger than any plan", path);
    TRY(buffer_reserve(&bytes, (size_t)size, &into, err));
    TRY(file_read_some(from, into, (size_t)size, 0, &length, err));
    return file_replace(path, (struct bytes){into, length}, 0644, err);
}

static struct result make_plan(struct own_recovery *own, const char *path, struct error *err)
{
    OWNED_FD statement = memfd_create("statement", MFD_CLOEXEC);
    OWNED_FD keys = memfd_create("keys", MFD_CLOEXEC);
    char keys_path[PATH_SIZE];

    if (statement < 0 || keys < 0) return failure(err, ERROR_UNAVAILABLE, "no file in memory: %s", strerror(errno));
    if ((size_t)snprintf(keys_path, sizeof keys_path, "%s.keys", path) >= sizeof keys_path)
        return failure(err, ERROR_INVALID, "--recover-plan: the name of the file is too long");
    own->statement = statement;
    own->keys = keys;
    TRY(step_run(&own->embedded->users.gateway, plan, own, err));
    TRY(keep(keys, keys_path, LOG_KEYS_TEXT_MAX, err));
    TRY(keep(statement, path, SUCCESSION_MAX, err));
    log_line(LOG_INFO, "look at the plan (sijil admin recover show), and sign it (sijil admin recover sign)", "plan", path, "key",
             own->embedded->paths.approver, NULL);
    return SUCCESS;
}

/* ---- the recovery ---- */

static struct result run_part(void *context, struct error *err)
{
    const struct own_recovery *own = context;

    return recovery_run_part(&own->options, own->part, err);
}

static struct result forget(const char *path, struct error *err)
{
    if (unlink(path) == 0 || errno == ENOENT) return SUCCESS;
    return failure(err, ERROR_UNAVAILABLE, "can't remove %.200s: %s", path, strerror(errno));
}

/* An empty database has no administrator, and the next start makes its first rows again. */
static struct result forget_start(void *context, struct error *err)
{
    const struct own_recovery *own = context;
    struct succession_plans plans = {.count = 0};
    struct succession statement = {.after.size = 1};
    char marker[PATH_SIZE];

    struct result done = succession_plans_read(own->options.signed_plans, &plans, err);
    if (done.ok) done = succession_read(buffer_bytes(&plans.each[0]->payload), &statement, err);
    succession_plans_done(&plans);
    TRY(done);
    if (statement.after.size > 0) return SUCCESS;
    TRY(path_join(marker, own->embedded->paths.directory, "bootstrapped", err));
    TRY(forget(own->embedded->paths.admin, err));
    return forget(marker, err);
}

static struct result run_recovery(struct own_recovery *own, struct error *err)
{
    const struct users *users = &own->embedded->users;
    static const enum recovery_part parts[] = {RECOVERY_TAKE, RECOVERY_RENAME, RECOVERY_RECORD};

    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        own->part = parts[i];
        TRY(step_run(parts[i] == RECOVERY_RENAME ? &users->self : &users->gateway, run_part, own, err));
    }
    TRY(step_run(&users->self, forget_start, own, err));
    log_line(LOG_INFO,
             "the log goes on under a new origin: start sijild, and give the new key of the log to everybody who checks it",
             NULL);
    return SUCCESS;
}

struct result recovery_of_embedded(struct embedded *embedded, const struct embedded_recovery *wanted, struct error *err)
{
    struct buffer OWNED_BUFFER plans = BUFFER(SUCCESSION_OFFICERS_MAX * SUCCESSION_ENVELOPE_MAX),
                               checkpoint = BUFFER(KEYD_COSIGNED_MAX);
    char owner[PATH_SIZE];

    postgres_conninfo(embedded, "sijil", "sijil_owner", owner);
    if (wanted->signed_plan != NULL) TRY(file_read(wanted->signed_plan, &plans, err));
    if (wanted->checkpoint != NULL) TRY(file_read(wanted->checkpoint, &checkpoint, err));
    struct own_recovery own = {.embedded = embedded,
                               .options = {.settings = &embedded->settings,
                                           .database_owner = owner,
                                           .reason = wanted->reason,
                                           .checkpoint = buffer_bytes(&checkpoint),
                                           .officers = 1,
                                           .signed_plans = buffer_bytes(&plans)}};

    return wanted->signed_plan != NULL ? run_recovery(&own, err) : make_plan(&own, wanted->plan, err);
}
