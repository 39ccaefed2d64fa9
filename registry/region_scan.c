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
    bool is_early;  /* another gateway begins the region now: nothing is concluded, and the next look is soon */
    bool is_silent; /* there is nothing to ask */
    struct driver_survey survey;
};

static struct registry_store *store_of(struct registry *registry, const char *region)
{
    for (size_t i = 0; i < registry->region_count; i++)
        if (strcmp(registry->regions[i].id, region) == 0) return &registry->regions[i];
    return NULL;
}

struct region_record region_record_of(const struct policy_set *set, const char *region)
{
    const json_t *store = set == NULL ? NULL : policy_set_region_store(set, region);
    const json_t *key = set == NULL ? NULL : policy_set_region_key(set, region);

    return (struct region_record){.is_signed = store != NULL,
                                  .driver = json_text_of(store, "driver"),
                                  .mark = json_text_of(store, "mark"),
                                  .file_system = json_text_of(store, "file_system"),
                                  .endpoint = json_text_of(store, "endpoint"),
                                  .bucket = json_text_of(store, "bucket"),
                                  .bucket_location = json_text_of(store, "bucket_location"),
                                  .prefix = json_text_of(store, "prefix"),
                                  .keyd = set == NULL ? NULL : policy_set_region_keyd(set, region),
                                  .key_ring = json_text_of(key, "ring"),
                                  .key_geo = json_text_of(key, "geo"),
                                  .key_control = json_text_of(key, "control")};
}

/* ---- Consequences ---- */

/* Another gateway may be first; then its record stands. */
struct result region_record_step(struct registry *registry, const char *region, struct region_step *step, const char *note,
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
    return region_record_step(look->registry, look->store->id, &step, text, err);
}

struct result region_record_opening(struct registry *registry, const struct region *region, struct error *err)
{
    struct region_step step;

    region_step_prepare(ACTION_REGION_OPEN, &step);
    step.opened = region;
    return region_record_step(registry, region->id, &step, "named by the policy set", err);
}

/* A region is begun by the gateway that records its mark. Another one may have another store, so it looks again when it knows what was recorded. */
static struct result record_mark(struct look *look, const char *mark, struct error *err)
{
    struct region_step step;

    region_step_prepare(ACTION_REGION_MARK, &step);
    step.text = mark;
    TRY(region_record_step(look->registry, look->store->id, &step, mark, err));
    look->is_early = !step.is_done;
    if (step.is_done) (void)text_copy(look->state.mark, sizeof look->state.mark, mark);
    return SUCCESS;
}

/* All gateways know the mark of a record, so it tells nothing before the database says which of them writes it: else each could write it into a folder of
 * its own. */
static struct result begin_recorded(struct look *look, struct error *err)
{
    if (look->state.mark[0] != '\0' || look->record->mark == NULL) return SUCCESS;
    TRY(record_mark(look, look->record->mark, err));
    atomic_store(&look->store->is_marking, !look->is_early);
    return SUCCESS;
}

/* The mark of a store that has none: that of the record, or a new one. A region that had a mark gets it again only if a person says that this is the
 * right store. */
static struct result write_mark(struct look *look, struct driver_survey *survey, struct error *err)
{
    uint8_t random[16];
    char made[DRIVER_MARK_SIZE];

    if (survey->mark[0] != '\0') return SUCCESS;
    TRY(begin_recorded(look, err));
    const bool is_begun = look->state.mark[0] != '\0' && !look->adopts && !atomic_load(&look->store->is_marking);
    if (look->is_early || is_begun) return SUCCESS;
    const char *mark = look->record->mark != NULL ? look->record->mark : look->state.mark;
    if (mark[0] == '\0') {
        random_bytes(random, sizeof random);
        text_hex(random, sizeof random, made);
        mark = made;
    }
    const struct result marked = blob_store_mark(look->store->blobs, mark, err);
    if (!marked.ok && err->kind != ERROR_CONFLICT) return marked;
    TRY(blob_store_survey(look->store->blobs, survey, err)); /* perhaps another gateway was first */
    if (survey->mark[0] != '\0') atomic_store(&look->store->is_marking, false);
    return SUCCESS;
}

static struct result note_mark(struct look *look, const struct driver_survey *survey, struct error *err)
{
    const char *wanted = look->record->mark;

    if (look->state.mark[0] != '\0' || strlen(survey->mark) != DRIVER_MARK_SIZE - 1) return SUCCESS;
    if (wanted != NULL && strcmp(wanted, survey->mark) != 0) return SUCCESS; /* another store: a finding */
    return record_mark(look, survey->mark, err);
}

/* Whoever has recorded the mark may not have written it yet. A person who asks is answered at once. */
static void await_mark(struct look *look)
{
    const bool lacks = look->state.mark[0] != '\0' && look->survey.mark[0] == '\0';

    if (look->is_wanted) return;
    if (lacks && !look->store->lacked_mark) look->is_early = true;
    look->store->lacked_mark = lacks;
}

/* Whoever owns the bucket could take the right to ask from us: what it was quarantined for is not told any more, and may be so. */
static bool is_unanswered(const struct look *look)
{
    return (strstr(look->state.why, "replication: ") != NULL && look->survey.copies.told == RULES_NOT_TOLD) ||
           (strstr(look->state.why, "lifecycle: ") != NULL && look->survey.expiry.told == RULES_NOT_TOLD);
}

/* A quarantine ends when a person has the region looked at again, or when another policy set is in force; never by itself, because what was wrong for
 * a minute may have taken bytes elsewhere. */
static struct result conclude(struct look *look, const struct region_report *report, struct error *err)
{
    const bool is_closed = look->state.why[0] != '\0';
    char why[REGION_WHY_SIZE];

    if (region_report_is_grave(report)) {
        blob_store_close(look->store->blobs, true); /* here at once, whether or not it can be recorded now */
        region_report_text(report, why, sizeof why);
        return is_closed ? SUCCESS : take_step(look, ACTION_REGION_QUARANTINE, why, err);
    }
    if (!is_closed || (!look->is_wanted && (look->epoch <= look->state.quarantined_epoch || is_unanswered(look)))) return SUCCESS;
    TRY(take_step(look, ACTION_REGION_RELEASE, "the store agrees with its record", err));
    blob_store_close(look->store->blobs, false); /* other gateways look at theirs within seconds */
    look->state.why[0] = '\0';
    return SUCCESS;
}

/* ---- Looking ---- */

static struct result survey(struct look *look, struct region_report *report, struct error *err)
{
    struct error why = {0};

    if (!blob_store_survey(look->store->blobs, &look->survey, &why).ok || !write_mark(look, &look->survey, &why).ok) {
        (void)snprintf(report->trouble, sizeof report->trouble, "%s",
                       why.kind == ERROR_NOT_FOUND ? "its store tells nothing about itself" : why.message);
        look->is_silent = why.kind == ERROR_NOT_FOUND;
        return SUCCESS;
    }
    if (!look->is_early) TRY(note_mark(look, &look->survey, err));
    await_mark(look);
    report->is_told = !look->is_early;
    if (look->is_early) (void)snprintf(report->trouble, sizeof report->trouble, "another gateway begins it now: look again");
    memcpy(report->mark, look->survey.mark, sizeof report->mark);
    memcpy(report->place, look->survey.place, sizeof report->place);
    return SUCCESS;
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

static void compare_keys(const struct look *look, struct region_report *report)
{
    struct region_keys keys;

    if (registry_region_keys(look->registry, look->store->id, &keys)) region_compare_keys(&keys, report);
}

static struct result look_at(struct look *look, struct region_report *report, struct error *err)
{
    const struct region_place place = place_of(look->store);

    report->is_served = true;
    TRY(survey(look, report, err));
    if (!report->is_told) return SUCCESS;
    region_compare(look->record, &place, look->state.mark, &look->survey, report);
    compare_keys(look, report);
    keep(look, report);
    return conclude(look, report, err);
}

static struct result look_with_set(struct look *look, struct decider *decider, struct region_report *report, struct error *err)
{
    struct policy_set *set = decider_policy_set(decider);
    const struct region_record record = region_record_of(set, look->state.id);

    look->record = &record;
    look->epoch = set == NULL ? 0 : policy_set_epoch(set);
    const struct result looked = look_at(look, report, err);
    policy_set_free(set);
    return looked;
}

/* No gateway has opened it. If the policy set has its record, a gateway lacks the place for it. */
static struct result no_region(struct decider *decider, const char *region, struct error *err)
{
    struct policy_set *set = decider_policy_set(decider);
    const bool is_recorded = set != NULL && policy_set_region_store(set, region) != NULL;

    policy_set_free(set);
    if (!is_recorded) return failure(err, ERROR_NOT_FOUND, "there is no region %.63s", region);
    return failure(err, ERROR_NOT_FOUND,
                   "no gateway has opened the region %.63s of the policy set: its folder or bucket, or the setting "
                   "region_folder or region_key_folder, is missing (docs/regions.md)",
                   region);
}

struct result registry_region_check(const struct permit *permit, struct registry *registry, struct decider *decider,
                                    const struct region_question *question, struct region_report *report_out, struct error *err)
{
    const char *region = question->region;
    struct look look = {.registry = registry, .store = store_of(registry, region), .is_wanted = true, .adopts = question->adopts};
    struct region_report report = {.count = 0};

    (void)permit_resource(permit, ACTION_REGION_CHECK);
    if (!decider_region_state(decider, region, &look.state)) return no_region(decider, region, err);
    if (look.store == NULL) (void)snprintf(report.trouble, sizeof report.trouble, "this gateway does not serve the region");
    else if (look.state.is_retired) (void)snprintf(report.trouble, sizeof report.trouble, "the region is retired");
    else {
        TRY(registry_ask_keys(registry, decider, region, err));
        TRY(look_with_set(&look, decider, &report, err));
    }
    *report_out = report;
    return SUCCESS;
}

/* ---- The scan ---- */

static bool is_due(const struct registry_store *store, uint64_t epoch, int64_t interval_ms)
{
    return store->scanned_ms == 0 || atomic_load(&store->wants_look) || store->scanned_epoch != epoch ||
           clock_monotonic_ms() - store->scanned_ms >= interval_ms;
}

static uint64_t epoch_of_set(struct decider *decider)
{
    struct policy_set *set = decider_policy_set(decider);
    const uint64_t epoch = set == NULL ? 0 : policy_set_epoch(set);

    policy_set_free(set);
    return epoch;
}

static bool is_forbidden(const struct region_state *state)
{
    return state->is_retired || state->why[0] != '\0';
}

/* When another gateway has quarantined or released the region, this one looks at once: it may see something else. It opens its store only then. */
static void close_store(struct registry_store *store, const struct region_state *state)
{
    if (blob_store_is_closed(store->blobs) != is_forbidden(state)) store->scanned_ms = 0;
    if (is_forbidden(state)) blob_store_close(store->blobs, true);
}

/* A store that did not answer is asked again soon, and one about which something could not be recorded at the next round. */
static void note_scan(const struct look *look, const struct region_report *report, bool is_recorded, int64_t interval_ms)
{
    struct registry_store *store = look->store;
    const int64_t early_ms = report->is_told || interval_ms < RETRY_MS ? 0 : interval_ms - RETRY_MS;

    store->scanned_ms = is_recorded && !look->is_early ? clock_monotonic_ms() - early_ms : 0;
    store->scanned_epoch = look->epoch;
}

static struct result scan(struct look *look, struct decider *decider, int64_t interval_ms, struct error *err)
{
    struct region_report report = {.count = 0};

    atomic_store(&look->store->wants_look, false);
    const struct result looked = look_with_set(look, decider, &report, err);
    if (look->is_early && look->survey.mark[0] == '\0') blob_store_close(look->store->blobs, true);
    else if ((report.is_told || look->is_silent) && !region_report_is_grave(&report) && !is_forbidden(&look->state))
        blob_store_close(look->store->blobs, false);
    note_scan(look, &report, looked.ok, interval_ms);
    return looked;
}

struct result registry_scan_regions(struct registry *registry, struct decider *decider, int64_t interval_ms, struct error *err)
{
    const uint64_t epoch = epoch_of_set(decider);
    struct result result = SUCCESS;
    struct error later = {0};

    for (size_t i = 0; i < registry->region_count; i++) {
        struct look look = {.registry = registry, .store = &registry->regions[i]};
        if (!decider_region_state(decider, look.store->id, &look.state)) continue;
        close_store(look.store, &look.state);
        if (look.state.is_retired || !is_due(look.store, epoch, interval_ms)) continue;
        const struct result scanned = scan(&look, decider, interval_ms, result.ok ? err : &later);
        if (result.ok) result = scanned;
    }
    return result;
}
