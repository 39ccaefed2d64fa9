/*
 * Removes manifests whose retention has ended by a policy, and those that the project's rules no longer keep: tagged ones by the retention rules,
 * untagged ones after untagged_days. A removed manifest may have kept others (an index its children), so passes over a repository repeat until one
 * removes nothing.
 */
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "registry/content_hold.h"
#include "registry/jobs/collect_priv.h"
#include "registry/manifest_use_store.h"
#include "registry/stored_manifest.h"

#define PASSES_MAX    64   /* deeper indexes in indexes are left for the next run */
#define REMOVED_MAX   1000 /* manifests that the report of a dry run names */
#define DAY_S         INT64_C(86400)
#define KEPT_DAYS_MAX 100000 /* 273 years: PostgreSQL can still count back from now */

/* Manifests that will be removed in one batch. */
struct pending_removals {
    struct removal removals[COLLECT_BATCH];
    size_t size;
    int64_t tags;    /* sum of their tags */
    int64_t removed; /* in this pass */
};

static struct result report(struct collect_run *run, const struct collect_manifest_row *row, struct error *err)
{
    static const char *const words[] = {
        [COLLECT_RETENTION] = "retention", [COLLECT_UNTAGGED] = "untagged", [COLLECT_EXPIRED] = "expired"};

    if (json_array_size(run->removed) == REMOVED_MAX) {
        run->is_cut = true;
        return SUCCESS;
    }
    json_t *entry = json_pack("{s:s, s:s, s:s, s:I}", "repository", run->repository.name, "digest", row->manifest.digest, "why",
                              words[row->why], "tags", (json_int_t)row->manifest.tags);
    if (entry != NULL && json_array_append_new(run->removed, entry) == 0) return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for a report");
}

static void count(struct collect_run *run, struct pending_removals *pending, const struct collect_manifest *manifest)
{
    run->totals.manifests++;
    run->totals.bytes += manifest->size_bytes;
    run->totals.tags += manifest->tags;
    pending->removed++;
}

static struct result remove_all(struct collect_run *run, struct pending_removals *pending, struct error *err)
{
    bool removed[COLLECT_BATCH] = {false};
    const size_t size = pending->size;

    pending->size = 0;
    pending->tags = 0;
    if (size == 0) return SUCCESS;
    TRY(collect_go_on(run, err));
    const struct result result = collect_remove(run, pending->removals, size, removed, err);
    for (size_t i = 0; i < size; i++)
        if (removed[i]) count(run, pending, &pending->removals[i].manifest.manifest);
    return result;
}

/* Counts a removal of a dry run. Once its list is full, the report is incomplete. */
static struct result note_removal(struct collect_run *run, struct pending_removals *pending,
                                  const struct collect_manifest_row *row, struct error *err)
{
    if (run->gone.count == GONE_MAX) {
        run->is_cut = true;
        return SUCCESS;
    }
    TRY(collect_note_gone(run, row->manifest.digest, err));
    count(run, pending, &row->manifest);
    return report(run, row, err);
}

static struct result add(struct collect_run *run, struct pending_removals *pending, const struct collect_manifest *manifest,
                         enum collect_why why, struct error *err)
{
    const struct collect_manifest_row row = {.repository = run->repository.id,
                                             .project = run->project.id,
                                             .rules_version = run->project.rules_version,
                                             .expires_s = run->expires_s,
                                             .why = why,
                                             .manifest = *manifest};

    if (run->job->job.is_dry_run) return note_removal(run, pending, &row, err);
    if (pending->tags + manifest->tags > MANIFEST_ALL_TAGS_MAX) TRY(remove_all(run, pending, err));
    pending->tags += manifest->tags;
    struct removal *removal = &pending->removals[pending->size++];
    *removal = (struct removal){.where = {.kind = RESOURCE_REPOSITORY,
                                          .organisation = run->project.organisation,
                                          .project = run->project.id,
                                          .repository = run->repository.id},
                                .manifest = row};
    memcpy(removal->where.name, run->repository.name, sizeof removal->where.name);
    memcpy(removal->where.region, run->project.region, sizeof removal->where.region);
    (void)snprintf(removal->where.detail, sizeof removal->where.detail, "%s", manifest->digest);
    return pending->size == COLLECT_BATCH ? remove_all(run, pending, err) : SUCCESS;
}

/* ---- retention ---- */

struct evaluated {
    struct tag_fact *tags;
    bool *is_kept;
};

static void evaluated_done(struct evaluated *evaluated)
{
    free(evaluated->tags);
    free(evaluated->is_kept);
}

static struct result evaluate(const struct collect_run *run, const struct pg_rows *rows, struct evaluated *evaluated,
                              struct error *err)
{
    const size_t tags = pg_rows_count(rows);
    struct collect_tag tag;

    evaluated->tags = memory_zeroed(tags + 1, sizeof *evaluated->tags);
    evaluated->is_kept = memory_zeroed(tags + 1, sizeof *evaluated->is_kept);
    if (evaluated->tags == NULL || evaluated->is_kept == NULL)
        return failure(err, ERROR_NO_MEMORY, "no memory for the rules of %zu tags", tags);
    for (size_t i = 0; i < tags; i++) {
        collect_tag_of(rows, i, &tag);
        evaluated->tags[i] = (struct tag_fact){.name = tag.name,
                                               .digest = tag.digest,
                                               .pushed_ms = tag.pushed_ms,
                                               .pulled_ms = tag.pulled_ms,
                                               .is_attachment = tag.is_attachment};
    }
    const struct tag_facts facts = {
        .repository = run->repository.path, .count = tags, .tags = evaluated->tags, .now_ms = clock_wall_ms()};
    return rules_evaluate(run->rules, &facts, evaluated->is_kept, err);
}

static struct result remove_unkept(struct collect_run *run, struct pending_removals *pending, const struct pg_rows *rows,
                                   const bool *is_kept, struct error *err)
{
    struct collect_manifest manifest;
    struct collect_tag tag;

    for (size_t i = 0; i < pg_rows_count(rows); i++) {
        collect_tag_of(rows, i, &tag);
        if (is_kept[i] || !tag.is_first || tag.is_held) continue;
        collect_manifest_of(rows, i, &manifest);
        if (manifest.tags > MANIFEST_ALL_TAGS_MAX) run->is_cut = true; /* pushed before the limit existed: it is kept */
        else TRY(add(run, pending, &manifest, COLLECT_RETENTION, err));
    }
    return remove_all(run, pending, err);
}

static struct result retain(struct collect_run *run, struct pending_removals *pending, struct error *err)
{
    const struct collect_gone gone = collect_gone_of_repository(run);
    const struct collect_range range = {.repository = &run->repository.id, .gone = &gone, .age_s = run->kept_s};
    __attribute__((cleanup(evaluated_done))) struct evaluated evaluated = {0};
    OWNED(pg_rows) *rows = NULL;
    bool is_too_large = false;

    if (!rules_retain(run->rules, run->repository.path)) return SUCCESS;
    TRY(collect_has_too_many_tags(run->pg, &run->repository.id, &is_too_large, err));
    if (!is_too_large) TRY(collect_read_tags(run->pg, &range, &rows, err));
    if (is_too_large || pg_rows_count(rows) > COLLECT_TAGS_MAX) {
        run->is_cut = true; /* all of it is kept, because the rules need all tags */
        return SUCCESS;
    }
    TRY(evaluate(run, rows, &evaluated, err));
    return remove_unkept(run, pending, rows, evaluated.is_kept, err);
}

/* ---- untagged manifests ---- */

static struct result remove_untagged(struct collect_run *run, struct pending_removals *pending, struct error *err)
{
    const int64_t rule_s = run->rules->untagged_days * DAY_S, lease_s = run->lease_s;
    struct collect_manifest manifest = {.digest = ""};

    if (run->rules->untagged_days == RULES_NONE) return SUCCESS;
    for (size_t found = COLLECT_PAGE; found == COLLECT_PAGE;) {
        const struct collect_gone gone = collect_gone_of_repository(run);
        const struct collect_range range = {.repository = &run->repository.id,
                                            .gone = &gone,
                                            .age_s = rule_s > lease_s ? rule_s : lease_s,
                                            .kept_s = run->kept_s};
        OWNED(pg_rows) *rows = NULL;
        TRY(collect_go_on(run, err));
        TRY(collect_read_untagged(run->pg, &range, manifest.digest, COLLECT_PAGE, &rows, err));
        found = pg_rows_count(rows);
        for (size_t i = 0; i < found; i++) {
            if (collect_untagged_of(rows, i, &manifest)) TRY(add(run, pending, &manifest, COLLECT_UNTAGGED, err));
        }
        TRY(remove_all(run, pending, err));
    }
    return SUCCESS;
}

/* ---- the end of retention ---- */

static struct result expire(struct collect_run *run, struct pending_removals *pending, struct error *err)
{
    struct collect_manifest manifest = {.digest = ""};

    for (size_t found = COLLECT_PAGE; found == COLLECT_PAGE;) {
        const struct collect_gone gone = collect_gone_of_repository(run);
        const struct collect_range range = {.repository = &run->repository.id, .gone = &gone, .age_s = run->expires_s};
        OWNED(pg_rows) *rows = NULL;
        TRY(collect_go_on(run, err));
        TRY(collect_read_past(run->pg, &range, manifest.digest, COLLECT_PAGE, &rows, err));
        found = pg_rows_count(rows);
        for (size_t i = 0; i < found; i++) {
            collect_past_of(rows, i, &manifest);
            if (manifest.tags > MANIFEST_ALL_TAGS_MAX) run->is_cut = true; /* its tags go first, by a client */
            else TRY(add(run, pending, &manifest, COLLECT_EXPIRED, err));
        }
        TRY(remove_all(run, pending, err));
    }
    return SUCCESS;
}

/* ---- the whole repository ---- */

static int64_t seconds_of(int64_t days, int64_t least_s)
{
    const int64_t age_s = (days < KEPT_DAYS_MAX ? days : KEPT_DAYS_MAX) * DAY_S;

    return age_s > least_s ? age_s : least_s;
}

/* Policies limit the project's rules, and end what the rules keep. *may_go_out false: nothing may be removed. */
static struct result ask_policies(struct collect_run *run, bool *may_go_out, struct error *err)
{
    const struct job_options *options = run->job->options;
    struct policy_retention retention = {.days = 0};

    if (options->retention != NULL) TRY(options->retention(options->context, run->repository.name, &retention, err));
    run->kept_s = seconds_of(retention.days, run->lease_s);
    run->ends_s = retention.has_maximum ? seconds_of(retention.maximum_days, run->lease_s) : RETENTION_ENDS_NEVER;
    run->expires_s =
        run->ends_s > run->kept_s ? run->ends_s : run->kept_s; /* an end can't be undone, so the longer minimum counts */
    *may_go_out = !retention.for_ever && !run->repository.is_held;
    return collect_report_duties(run, &retention, err);
}

static struct result collect_repository(struct collect_run *run, struct pending_removals *pending, struct error *err)
{
    bool may_go = false;

    TRY(ask_policies(run, &may_go, err));
    if (!may_go) return SUCCESS;
    run->gone.from = run->gone.count;
    if (run->ends_s != RETENTION_ENDS_NEVER) TRY(expire(run, pending, err));
    for (int pass = 0; pass < PASSES_MAX; pass++) {
        pending->removed = 0;
        TRY(retain(run, pending, err));
        TRY(remove_untagged(run, pending, err));
        if (pending->removed == 0) break;
    }
    return run->job->job.is_dry_run ? SUCCESS : manifest_uses_clean(run->pg, &run->repository.id, err);
}

static struct result collect_repositories(struct collect_run *run, struct pending_removals *pending, struct error *err)
{
    bool found = true;

    run->repository.path[0] = '\0';
    for (;;) {
        TRY(collect_go_on(run, err));
        TRY(collect_next_repository(run->pg, &run->project.id, run->repository.path, &run->repository, &found, err));
        if (!found) return SUCCESS;
        TRY(collect_repository(run, pending, err));
    }
}

struct result collect_manifests(struct collect_run *run, struct error *err)
{
    const bool has_rules = run->rules->retention_count > 0 || run->rules->untagged_days != RULES_NONE;

    if (!has_rules && run->job->options->retention == NULL) return SUCCESS; /* nor policies, which end retention */
    struct pending_removals *pending = memory_zeroed(1, sizeof *pending);
    if (pending == NULL) return failure(err, ERROR_NO_MEMORY, "no memory to collect");
    const struct result result = collect_repositories(run, pending, err);
    free(pending);
    return result;
}
