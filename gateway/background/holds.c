#include "gateway/background/holds.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/memory.h"
#include "base/metrics.h"
#include "documents/format/erasure.h"
#include "documents/view.h"
#include "gateway/pipeline/gateway.h"
#include "registry/content_hold.h"
#include "registry/hold_rows.h"
#include "registry/jobs/advisory_lock.h"
#include "registry/metrics.h"

#define ROWS_MAX 1024 /* as many holds as come into force: gateway/api/hold.c */

/* ---- the documents ---- */

/* Texts are copied, because a document lives only while the view is locked. */
struct told {
    int64_t now_ms;
    size_t count;
    struct told_hold {
        char name[DOCUMENT_NAME_SIZE], content[HOLD_CONTENT_MAX + 1], digest[DIGEST_TEXT_SIZE];
        int64_t until_ms;
    } each[ROWS_MAX];
};

static struct result note(void *context, const struct pinned_document *pinned, struct error *err)
{
    struct told *told = context;
    struct legal_hold hold;

    if (!document_is_in_force(pinned->document, told->now_ms)) return SUCCESS;
    TRY(legal_hold_read(pinned->document, &hold, err));
    if (hold.content == NULL) return SUCCESS;
    if (told->count == ROWS_MAX) return failure(err, ERROR_LIMIT, "more than %d holds of content are in force", ROWS_MAX);
    struct told_hold *each = &told->each[told->count++];
    (void)snprintf(each->name, sizeof each->name, "%s", pinned->document->name);
    (void)snprintf(each->content, sizeof each->content, "%s", hold.content);
    (void)snprintf(each->digest, sizeof each->digest, "%s", hold.digest == NULL ? "" : hold.digest);
    each->until_ms = pinned->document->expires_ms;
    return SUCCESS;
}

/* The view is followed under the lock: so no gateway writes rows of documents that another one has replaced meanwhile. */
static struct result write_rows(struct gateway *gateway, struct pg *pg, struct told *told, int64_t *changed_out,
                                struct error *err)
{
    const struct document_source source = {pg, gateway->keyd, gateway->sequencer};
    struct hold_row *rows = NULL;

    told->now_ms = clock_wall_ms();
    TRY(document_view_follow(gateway->documents, DOCUMENT_LEGAL_HOLD, &source, err));
    TRY(document_view_visit_all(gateway->documents, DOCUMENT_LEGAL_HOLD, note, told, err));
    rows = memory_zeroed(told->count + 1, sizeof *rows);
    if (rows == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for holds");
    for (size_t i = 0; i < told->count; i++)
        rows[i] = (struct hold_row){told->each[i].name, told->each[i].content, told->each[i].digest, told->each[i].until_ms};
    const struct result written = hold_rows_write(pg, rows, told->count, changed_out, err);
    free(rows);
    return written;
}

static struct result follow(struct gateway *gateway, struct pg *pg, int64_t *changed_out, struct error *err)
{
    struct told *told = memory_zeroed(1, sizeof *told);
    struct error ignored = {0};
    struct result followed = SUCCESS;

    if (told == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for holds");
    followed = advisory_lock_wait(pg, LOCK_OF_HOLDS, err);
    if (followed.ok) {
        followed = write_rows(gateway, pg, told, changed_out, err);
        (void)advisory_lock_release(pg, LOCK_OF_HOLDS, &ignored).ok; /* a broken connection releases it too */
    }
    free(told);
    return followed;
}

struct result holds_follow(struct gateway *gateway, struct pg *pg, struct error *err)
{
    int64_t changed = 0;

    return follow(gateway, pg, &changed, err);
}

/* Rows that came late (a hold that begins later, keyd away) are counted, too: somebody looks at them once. */
bool holds_watch(struct gateway *gateway, struct pg *pg)
{
    struct error err = {0};
    int64_t changed = 0;
    const bool is_so = follow(gateway, pg, &changed, &err).ok;

    if (is_so) metric_add(&registry_metrics_rows[METRIC_HOLDS_MENDED], changed);
    else if (err.kind != ERROR_UNAVAILABLE) log_error("rows of legal holds can't be compared with the documents", &err);
    return is_so;
}

/* ---- one repository ---- */

struct kept {
    const char *repository;
    int64_t now_ms;
    bool is_kept;
};

static bool covers(const struct legal_hold *hold, const char *repository)
{
    const size_t length = hold->content == NULL ? 0 : strlen(hold->content);

    return length > 0 && hold->digest == NULL && strncmp(repository, hold->content, length) == 0 &&
           (repository[length] == '\0' || repository[length] == '/');
}

static struct result look(void *context, const struct pinned_document *pinned, struct error *err)
{
    struct kept *kept = context;
    struct legal_hold hold;

    if (kept->is_kept || !document_is_in_force(pinned->document, kept->now_ms)) return SUCCESS;
    TRY(legal_hold_read(pinned->document, &hold, err));
    kept->is_kept = covers(&hold, kept->repository);
    return SUCCESS;
}

struct result holds_keep(const struct gateway *gateway, const char *repository, struct policy_retention *retention,
                         struct error *err)
{
    struct kept kept = {repository, clock_wall_ms(), false};

    TRY(document_view_visit_all(gateway->documents, DOCUMENT_LEGAL_HOLD, look, &kept, err));
    if (!kept.is_kept) return SUCCESS;
    retention->for_ever = true;
    (void)snprintf(retention->rule, sizeof retention->rule, "%s", CONTENT_HOLD_RULE);
    (void)snprintf(retention->policy, sizeof retention->policy, "a legal hold");
    return SUCCESS;
}
