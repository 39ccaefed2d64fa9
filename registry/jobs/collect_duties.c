/* Duties of policies that a collection finds unmet: content that stays past its end, and copies that are not there (docs/policies.md). */
#include <stdio.h>
#include <string.h>

#include "audit/job_permit.h"
#include "registry/content_hold.h"
#include "registry/jobs/collect_priv.h"

#define UNMET_MAX 250 /* events, and rows of a report, which must stay below JOB_REPORT_MAX; beyond that they are only counted */

static struct result record(struct collect_run *run, enum action action, const char *detail, struct error *err)
{
    struct action_pair pair = {.action = action,
                               .resource = {.kind = RESOURCE_REPOSITORY,
                                            .organisation = run->project.organisation,
                                            .project = run->project.id,
                                            .repository = run->repository.id}};
    OWNED(permit) *permit = NULL;

    if (run->job->job.is_dry_run || json_array_size(run->unmet) == UNMET_MAX) return SUCCESS;
    memcpy(pair.resource.name, run->repository.name, sizeof pair.resource.name);
    memcpy(pair.resource.region, run->project.region, sizeof pair.resource.region);
    (void)snprintf(pair.resource.detail, sizeof pair.resource.detail, "%s", detail);
    return permit_for_job(run->job->registry->sequencer, &pair, &permit, err);
}

static struct result report(struct collect_run *run, const char *duty, const char *detail, struct error *err)
{
    if (json_array_size(run->unmet) == UNMET_MAX) {
        run->is_cut = true;
        return SUCCESS;
    }
    json_t *entry = json_pack("{s:s, s:s, s:s}", "repository", run->repository.name, "duty", duty, "why", detail);
    if (entry != NULL && json_array_append_new(run->unmet, entry) == 0) return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for a report");
}

static struct result report_overdue(struct collect_run *run, const char *keeps, struct error *err)
{
    char detail[RESOURCE_DETAIL_MAX + 1];
    int64_t count = 0;

    TRY(collect_count_past(run->pg, &run->repository.id, run->ends_s, &count, err));
    if (count == 0) return SUCCESS;
    run->overdue += count;
    (void)snprintf(detail, sizeof detail, "%lld %s", (long long)count, keeps);
    TRY(record(run, ACTION_RETENTION_OVERDUE, detail, err));
    return report(run, "retain_max_days", detail, err);
}

/* One demand that is not met. */
static struct result lacks(struct collect_run *run, const char *duty, int64_t wanted, int64_t found, struct error *err)
{
    char detail[RESOURCE_DETAIL_MAX + 1];

    if (found >= wanted) return SUCCESS;
    (void)snprintf(detail, sizeof detail, "%s %lld: %lld", duty, (long long)wanted, (long long)found);
    TRY(record(run, ACTION_DUTY_UNMET, detail, err));
    return report(run, duty, detail, err);
}

/* The home region, and those with copies (docs/replication.md). */
static struct result report_copies(struct collect_run *run, struct error *err)
{
    struct placed_region regions[COLLECT_REGIONS_MAX];
    struct placed_copies copies;
    size_t count = 0;

    TRY(collect_placed(run->pg, &run->project, &run->repository.id, regions, &count, err));
    const struct placed_query query = {.name = run->repository.name, .regions = regions, .count = count};
    TRY(run->job->options->placed(run->job->options->context, &query, &copies, err));
    run->lacking += copies.sites < copies.min_sites || copies.met < copies.anchors;
    TRY(lacks(run, "min_sites", copies.min_sites, copies.sites, err));
    return lacks(run, "anchor_copy", (int64_t)copies.anchors, (int64_t)copies.met, err);
}

struct result collect_report_duties(struct collect_run *run, const struct policy_retention *retention, struct error *err)
{
    int64_t manifests = 0;

    if (retention->has_maximum && run->repository.is_held) TRY(report_overdue(run, CONTENT_HOLD_RULE, err));
    else if (retention->has_maximum && (retention->for_ever || run->kept_s > run->ends_s))
        TRY(report_overdue(run, retention->rule, err));
    if ((retention->min_sites <= 1 && retention->anchors == 0) || run->job->options->placed == NULL) return SUCCESS;
    TRY(collect_count_past(run->pg, &run->repository.id, 0, &manifests, err));
    return manifests == 0 ? SUCCESS : report_copies(run, err);
}
