/* Asks stores what they are, and draws the consequences. */
#include <stdio.h>
#include <string.h>

#include "audit/job_permit.h"
#include "base/clock.h"
#include "base/terminal_text.h"
#include "base/text.h"
#include "crypto/random.h"
#include "policy/decider/decider.h"
#include "policy/set.h"
#include "registry/maintenance.h"
#include "registry/recorder.h"
#include "registry/region_scan_priv.h"
#include "registry/registry_priv.h"

#define RETRY_MS 30000

/* One look at a region: what is known of it, and what was found. */
struct look {
    struct registry *registry;
    struct registry_store *store;
    struct region_state state;
    const struct region_record *record;
    uint64_t epoch; /* of the policy set */
    bool is_wanted; /* by a person: what agrees is released */
    bool adopts;    /* a store without a mark gets it */
    struct driver_survey survey;
};

static struct registry_store *store_of(struct registry *registry, const char *region)
{
    for (size_t i = 0; i < registry->region_count; i++)
        if (strcmp(registry->regions[i].id, region) == 0) return &registry->regions[i];
    return NULL;
}

static struct region_record record_of(const struct policy_set *set, const char *region)
{
    const json_t *store = set == NULL ? NULL : policy_set_region_store(set, region);

    return (struct region_record){.is_signed = store != NULL,
                                  .driver = json_text_of(store, "driver"),
                                  .mark = json_text_of(store, "mark"),
                                  .file_system = json_text_of(store, "file_system"),
                                  .endpoint = json_text_of(store, "endpoint"),
                                  .bucket = json_text_of(store, "bucket"),
                                  .bucket_location = json_text_of(store, "bucket_location"),
                                  .prefix = json_text_of(store, "prefix")};
}

/* ---- Consequences ---- */

/* Another gateway may be first; then its record stands. */
static struct result record_step(struct registry *registry, const char *region, struct region_step *step, const char *note,
                                 struct error *err)
{
    struct action_pair pair = {.action = step->action, .resource = {.kind = RESOURCE_SYSTEM}};
    struct job_recorder recorder;
    OWNED(permit) *permit = NULL;
    char cut[72];

    (void)snprintf(pair.resource.region, sizeof pair.resource.region, "%s", region);
    (void)snprintf(pair.resource.detail, sizeof pair.resource.detail, "%s", region);
    (void)snprintf(cut, sizeof cut, "%s", note);
    terminal_sanitize(cut);
    step->where = pair.resource;
    TRY(permit_for_job(registry->sequencer, &pair, &permit, err));
    job_recorder_init(&recorder, registry->sequencer, permit);
    const struct result recorded = recorder.recorder.record(&recorder.recorder, OUTCOME_COMPLETED, cut, &step->change, err);
    if (!recorded.ok && err->kind == ERROR_CONFLICT) return SUCCESS;
    return recorded; /* cppcheck-suppress returnDanglingLifetime ; a result is a truth value, and keeps no address */
}

static struct result take_step(const struct look *look, enum action action, const char *text, struct error *err)
{
    struct region_step step;

    region_step_prepare(action, &step);
    step.text = text;
    step.epoch = look->epoch;
    return record_step(look->registry, look->store->id, &step, text, err);
}

struct result region_record_opening(struct registry *registry, const struct region *region, struct error *err)
{
    struct region_step step;

    region_step_prepare(ACTION_REGION_OPEN, &step);
    step.opened = region;
    return record_step(registry, region->id, &step, "named by the policy set", err);
}

/* The mark of a store that has none: that of the record, or a new one. A region that had a mark gets it again only if a person says that this is the
 * right store. */
static struct result write_mark(const struct look *look, struct driver_survey *survey, struct error *err)
{
    uint8_t random[16];
    char made[DRIVER_MARK_SIZE];
    const char *mark = look->record->mark != NULL ? look->record->mark : look->state.mark;

    if (survey->mark[0] != '\0' || (look->state.mark[0] != '\0' && !look->adopts)) return SUCCESS;
    if (mark[0] == '\0') {
        random_bytes(random, sizeof random);
        text_hex(random, sizeof random, made);
        mark = made;
    }
    const struct result marked = blob_store_mark(look->store->blobs, mark, err);
    if (!marked.ok && err->kind != ERROR_CONFLICT) return marked;
    return blob_store_survey(look->store->blobs, survey, err); /* perhaps another gateway was first */
}

static struct result note_mark(struct look *look, const struct driver_survey *survey, struct error *err)
{
    const char *wanted = look->record->mark;

    if (look->state.mark[0] != '\0' || strlen(survey->mark) != DRIVER_MARK_SIZE - 1) return SUCCESS;
    if (wanted != NULL && strcmp(wanted, survey->mark) != 0) return SUCCESS; /* another store: a finding */
    TRY(take_step(look, ACTION_REGION_MARK, survey->mark, err));
    memcpy(look->state.mark, survey->mark, sizeof look->state.mark);
    return SUCCESS;
}

/* A quarantine ends when a person has the region looked at again, or when another policy set is in force; never by itself, because what was wrong for
 * a minute may have taken bytes elsewhere. */
static struct result conclude(const struct look *look, const struct region_report *report, struct error *err)
{
    const bool is_closed = look->state.why[0] != '\0';
    char why[REGION_WHY_SIZE];

    if (region_report_is_grave(report)) {
        region_report_text(report, why, sizeof why);
        return is_closed ? SUCCESS : take_step(look, ACTION_REGION_QUARANTINE, why, err);
    }
    if (!is_closed || (!look->is_wanted && look->epoch <= look->state.quarantined_epoch)) return SUCCESS;
    TRY(take_step(look, ACTION_REGION_RELEASE, "the store agrees with its record", err));
    blob_store_close(look->store->blobs, false); /* other gateways open theirs within seconds */
    return SUCCESS;
}

/* ---- Looking ---- */

static struct result survey(struct look *look, struct region_report *report, struct error *err)
{
    struct error why = {0};

    if (!blob_store_survey(look->store->blobs, &look->survey, &why).ok || !write_mark(look, &look->survey, &why).ok) {
        (void)snprintf(report->trouble, sizeof report->trouble, "%s",
                       why.kind == ERROR_NOT_FOUND ? "its store tells nothing about itself" : why.message);
        return SUCCESS;
    }
    report->is_told = true;
    memcpy(report->mark, look->survey.mark, sizeof report->mark);
    memcpy(report->place, look->survey.place, sizeof report->place);
    return note_mark(look, &look->survey, err);
}

static struct region_place place_of(const struct registry_store *store)
{
    return (struct region_place){store->driver, store->endpoint, store->bucket, store->bucket_location, store->prefix};
}

static void keep(struct look *look, const struct region_report *report)
{
    char text[sizeof look->store->disagreement];

    region_report_text(report, text, sizeof text);
    (void)pthread_mutex_lock(&look->registry->problem_lock);
    (void)snprintf(look->store->disagreement, sizeof look->store->disagreement, "%s", text);
    (void)pthread_mutex_unlock(&look->registry->problem_lock);
}

static struct result look_at(struct look *look, struct region_report *report, struct error *err)
{
    const struct region_place place = place_of(look->store);

    report->is_served = true;
    TRY(survey(look, report, err));
    if (!report->is_told) return SUCCESS;
    region_compare(look->record, &place, look->state.mark, &look->survey, report);
    keep(look, report);
    return conclude(look, report, err);
}

static struct result look_with_set(struct look *look, struct decider *decider, struct region_report *report, struct error *err)
{
    struct policy_set *set = decider_policy_set(decider);
    const struct region_record record = record_of(set, look->state.id);

    look->record = &record;
    look->epoch = set == NULL ? 0 : policy_set_epoch(set);
    const struct result looked = look_at(look, report, err);
    policy_set_free(set);
    return looked;
}

struct result registry_region_check(const struct permit *permit, struct registry *registry, struct decider *decider,
                                    const struct region_question *question, struct region_report *report_out, struct error *err)
{
    const char *region = question->region;
    struct look look = {.registry = registry, .store = store_of(registry, region), .is_wanted = true, .adopts = question->adopts};
    struct region_report report = {.count = 0};

    (void)permit_resource(permit, ACTION_REGION_CHECK);
    if (!decider_region_state(decider, region, &look.state))
        return failure(err, ERROR_NOT_FOUND, "there is no region %.63s", region);
    if (look.store == NULL) (void)snprintf(report.trouble, sizeof report.trouble, "this gateway does not serve the region");
    else if (look.state.is_retired) (void)snprintf(report.trouble, sizeof report.trouble, "the region is retired");
    else TRY(look_with_set(&look, decider, &report, err));
    *report_out = report;
    return SUCCESS;
}

/* ---- The scan ---- */

static bool is_due(const struct registry_store *store, uint64_t epoch, int64_t interval_ms)
{
    return store->scanned_ms == 0 || store->scanned_epoch != epoch || clock_monotonic_ms() - store->scanned_ms >= interval_ms;
}

static uint64_t epoch_of_set(struct decider *decider)
{
    struct policy_set *set = decider_policy_set(decider);
    const uint64_t epoch = set == NULL ? 0 : policy_set_epoch(set);

    policy_set_free(set);
    return epoch;
}

/* When another gateway has quarantined or released the region, this one looks at once: it may see something else. */
static void close_store(struct registry_store *store, const struct region_state *state)
{
    const bool is_closed = state->is_retired || state->why[0] != '\0';

    if (blob_store_is_closed(store->blobs) != is_closed) store->scanned_ms = 0;
    blob_store_close(store->blobs, is_closed);
}

/* A store that did not answer is asked again soon. */
static void note_scan(struct registry_store *store, const struct region_report *report, uint64_t epoch, int64_t interval_ms)
{
    const int64_t early_ms = report->is_told || interval_ms < RETRY_MS ? 0 : interval_ms - RETRY_MS;

    store->scanned_ms = clock_monotonic_ms() - early_ms;
    store->scanned_epoch = epoch;
}

struct result registry_scan_regions(struct registry *registry, struct decider *decider, int64_t interval_ms, struct error *err)
{
    const uint64_t epoch = epoch_of_set(decider);
    struct result result = SUCCESS;

    for (size_t i = 0; i < registry->region_count && result.ok; i++) {
        struct look look = {.registry = registry, .store = &registry->regions[i]};
        struct region_report report = {.count = 0};
        if (!decider_region_state(decider, look.store->id, &look.state)) continue;
        close_store(look.store, &look.state);
        if (look.state.is_retired || !is_due(look.store, epoch, interval_ms)) continue;
        result = look_with_set(&look, decider, &report, err);
        note_scan(look.store, &report, epoch, interval_ms);
    }
    return result;
}
