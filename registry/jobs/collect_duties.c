/* Duties of policies that a collection finds unmet: content that stays past its end, and copies that are not there (docs/policies.md). */
#include <stdio.h>
#include <string.h>

#include "audit/job_permit.h"
#include "registry/content_hold.h"
#include "registry/jobs/collect_priv.h"

#define UNMET_MAX 250 /* events, and rows of a report, which must stay below JOB_REPORT_MAX; beyond that they are only counted */
#define SITES     1   /* content is in one region, its project's home */

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

static struct result report_copies(struct collect_run *run, const struct policy_retention *retention, struct error *err)
{
    char detail[RESOURCE_DETAIL_MAX + 1];

    run->lacking++;
    if (retention->min_sites > SITES) {
        (void)snprintf(detail, sizeof detail, "min_sites %lld: %d", (long long)retention->min_sites, SITES);
        TRY(record(run, ACTION_DUTY_UNMET, detail, err));
        TRY(report(run, "min_sites", detail, err));
    }
    if (retention->anchors == 0) return SUCCESS;
    (void)snprintf(detail, sizeof detail, "anchor_copy %zu: 0", retention->anchors);
    TRY(record(run, ACTION_DUTY_UNMET, detail, err));
    return report(run, "anchor_copy", detail, err);
}

struct result collect_report_duties(struct collect_run *run, const struct policy_retention *retention, struct error *err)
{
    int64_t manifests = 0;

    if (retention->has_maximum && run->repository.is_held) TRY(report_overdue(run, CONTENT_HOLD_RULE, err));
    else if (retention->has_maximum && (retention->for_ever || run->kept_s > run->ends_s))
        TRY(report_overdue(run, retention->rule, err));
    if (retention->min_sites <= SITES && retention->anchors == 0) return SUCCESS;
    TRY(collect_count_past(run->pg, &run->repository.id, 0, &manifests, err));
    return manifests == 0 ? SUCCESS : report_copies(run, retention, err);
}
