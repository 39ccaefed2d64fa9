#include "detection/detective.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "audit/archive.h"
#include "audit/audit_store.h"
#include "audit/first_place.h"
#include "audit/follow.h"
#include "audit/job_permit.h"
#include "base/memory.h"
#include "crypto/hmac.h"
#include "crypto/random.h"
#include "detection/copies_priv.h"
#include "detection/detection_store_priv.h"
#include "detection/event_known_priv.h"

#define PAGE       256
#define REPLAY_MAX 1000000 /* events from which the state of the rules is made again */
#define LOOK_MS    1000    /* until the next look for new events */
#define OTHER_MS   3000    /* until the next try for the lock that another gateway has */

/* Events of a page that are read together, so that one statement asks for the blobs of all. */
struct event_batch {
    size_t from, count; /* of the page */
    struct leaf leaves[DETECTION_TOGETHER];
    struct event_known known[DETECTION_TOGETHER];
};

struct detective {
    struct detective_options options;
    struct pg *pg;
    struct detection_rules rules; /* of the engine */
    struct engine *engine;        /* NULL: none yet */
    struct first_place_memo *places;
    struct detection_position position;
    int32_t raised; /* alarms of the event that is being fed */
    uint64_t alarms;
    bool is_holder, is_replaying;
    uint8_t hash_key[TABLE_KEY_SIZE];
    struct known_sizes sizes;
    struct event_batch batch;
};

struct result detective_new(const struct detective_options *options, struct detective **detective_out, struct error *err)
{
    static const struct pg_table *const tables[] = {&detection_table,
                                                    &audit_query_table,
                                                    &audit_tree_table,
                                                    &audit_subject_table,
                                                    &first_place_table,
                                                    &audit_archive_table,
                                                    NULL};
    OWNED(detective) *detective = memory_zeroed(1, sizeof *detective);

    if (detective == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for detection");
    detective->options = *options;
    random_bytes(detective->hash_key, sizeof detective->hash_key);
    detective->places = first_place_memo_new();
    if (detective->places == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for detection");
    TRY(pg_open_lazily(options->conninfo, tables, &detective->pg, err));
    *detective_out = GIVE(detective);
    return SUCCESS;
}

void detective_free(struct detective *detective)
{
    if (detective == NULL) return;
    engine_free(detective->engine);
    first_place_memo_free(detective->places);
    pg_free(detective->pg);
    free(detective);
}

void alarm_text(const struct alarm *alarm, char text_out[ALARM_TEXT_SIZE])
{
    int length = snprintf(
        text_out, ALARM_TEXT_SIZE, "%s detector=%s severity=%d actor=%s count=%" PRIu64 "%s%s events=", alarm->rule->name,
        detector_name(alarm->rule->detector), (int)alarm->rule->severity, alarm->actor[0] == '\0' ? "-" : alarm->actor,
        alarm->count, alarm->about[0] == '\0' ? "" : " ", alarm->about);

    for (size_t i = 0; i < alarm->event_count && length < ALARM_TEXT_SIZE; i++)
        length +=
            snprintf(text_out + length, (size_t)(ALARM_TEXT_SIZE - length), "%s%" PRIu64, i == 0 ? "" : ",", alarm->events[i]);
}

/* ---- alarms ---- */

static struct result record(struct detective *detective, const struct alarm *alarm, struct error *err)
{
    const struct action_pair pair = {.action = ACTION_ALARM_RAISE, .resource.kind = RESOURCE_SYSTEM};
    const struct detection_position position = {detective->position.at, detective->raised};
    struct alarm_change change;
    struct record record;

    alarm_change_init(&change, &position, alarm);
    TRY(record_prepare_for_job(&pair, &change.change, &record, err));
    sequencer_submit_and_wait(detective->options.sequencer, &record);
    const enum record_status status = record.status;
    const struct error why = record.error;
    record_done(&record);
    if (status == RECORD_DONE || (status == RECORD_REFUSED && why.kind == ERROR_CONFLICT)) return SUCCESS;
    return failure(err, ERROR_UNAVAILABLE, "an alarm can't be recorded: %.200s", why.message);
}

/* Alarms of an event come in the order of the rules, so their number tells which ones an earlier life has recorded. */
static struct result raise(void *context, const struct alarm *alarm, struct error *err)
{
    struct detective *detective = context;

    if (detective->is_replaying) return SUCCESS;
    if (detective->raised >= detective->position.done) {
        TRY(record(detective, alarm, err));
        detective->alarms++;
    }
    detective->raised++;
    return SUCCESS;
}

/* ---- events ---- */

/* A place makes an alarm by itself, so it counts for nothing when the state is made again. Neither does a copy: its alarm is in the log. */
static struct result look_up(struct detective *detective, struct audit_page *page, size_t index, const struct leaf *leaf,
                             struct event_known *known, struct error *err)
{
    const struct first_place_source source = {detective->pg, detective->options.keyd, detective->options.origin,
                                              detective->places};
    struct first_place first = {false, false};

    if (!detective->is_replaying && engine_wants_place(detective->engine, leaf))
        TRY(first_place_of(&source, page, index, leaf, &first, err));
    known->is_new_network = first.is_new_network;
    known->is_new_country = first.is_new_country;
    const struct copy_source copies = {detective->pg, &detective->options.labels};
    if (!detective->is_replaying && engine_wants_copies(detective->engine, leaf)) TRY(known_copy_of(&copies, leaf, known, err));
    if (!detective->is_replaying && engine_wants_told(detective->engine, leaf)) known_told_of(page, index, known);
    return engine_wants_person(detective->engine, leaf) ? known_persons_of(&source, page, index, known, err) : SUCCESS;
}

static struct result read_batch(struct event_batch *batch, const struct audit_page *page, struct error *err)
{
    for (size_t i = 0; i < batch->count; i++) {
        batch->known[i] = (struct event_known){.size_bytes = 0};
        if (audit_page_is_readable(page, batch->from + i))
            TRY(leaf_read(audit_page_leaf(page, batch->from + i), &batch->leaves[i], err));
    }
    return SUCCESS;
}

static struct result ask_sizes(struct detective *detective, const struct audit_page *page, struct error *err)
{
    struct event_batch *batch = &detective->batch;
    struct wanted_sizes wanted = {.count = 0};
    size_t places[DETECTION_TOGETHER];

    for (size_t i = 0; i < batch->count; i++) {
        if (!audit_page_is_readable(page, batch->from + i) || !engine_wants_size(detective->engine, &batch->leaves[i])) continue;
        places[wanted.count] = i;
        wanted.each[wanted.count++].leaf = &batch->leaves[i];
    }
    TRY(known_sizes_of(&detective->sizes, detective->hash_key, detective->pg, &wanted, err));
    for (size_t i = 0; i < wanted.count; i++) batch->known[places[i]].size_bytes = wanted.each[i].size_bytes;
    return SUCCESS;
}

static struct result feed(struct detective *detective, struct audit_page *page, size_t place, struct error *err)
{
    struct event_batch *batch = &detective->batch;
    const size_t index = batch->from + place;

    if (!detective->is_replaying && audit_page_sequence(page, index) != detective->position.at)
        detective->position = (struct detection_position){audit_page_sequence(page, index), 0};
    if (!audit_page_is_readable(page, index)) return SUCCESS;
    TRY(look_up(detective, page, index, &batch->leaves[place], &batch->known[place], err));
    detective->raised = 0;
    return engine_feed(detective->engine, &batch->leaves[place], &batch->known[place], raise, detective, err);
}

/* The engine has taken part of the page after a failure, so its state is made again. */
static struct result feed_page(struct detective *detective, const struct signed_checkpoint *checkpoint,
                               const struct audit_span *span, struct error *err)
{
    struct event_batch *batch = &detective->batch;
    OWNED(audit_page) *page = NULL;

    first_place_memo_begin(detective->places);
    TRY(audit_follow(detective->pg, checkpoint, span, &page, err));
    if (!detective->is_replaying) TRY(audit_page_load_facts(page, detective->pg, err));
    for (batch->from = 0; batch->from < audit_page_count(page); batch->from += batch->count) {
        const size_t left = audit_page_count(page) - batch->from;
        batch->count = left < DETECTION_TOGETHER ? left : DETECTION_TOGETHER;
        TRY(read_batch(batch, page, err));
        TRY(ask_sizes(detective, page, err));
        for (size_t i = 0; i < batch->count; i++) TRY(feed(detective, page, i, err));
    }
    return SUCCESS;
}

/* ---- the state ---- */

/* The first event with a time of at least `from_ms`, of those before `until`: times never fall. */
static struct result find_time(struct detective *detective, const struct signed_checkpoint *checkpoint, int64_t from_ms,
                               uint64_t *number, uint64_t until, struct error *err)
{
    uint64_t low = *number, high = until;

    while (low < high) {
        const uint64_t middle = low + (high - low) / 2;
        int64_t time_ms = 0;
        TRY(audit_follow_time(detective->pg, checkpoint, middle, &time_ms, err));
        if (time_ms < from_ms) low = middle + 1;
        else high = middle;
    }
    *number = low;
    return SUCCESS;
}

static struct result replay(struct detective *detective, const struct signed_checkpoint *checkpoint, struct error *err)
{
    const uint64_t at = detective->position.at;
    uint64_t from = at > REPLAY_MAX ? at - REPLAY_MAX : 0;
    int64_t now_ms = 0;

    if (at == 0) return SUCCESS;
    TRY(audit_follow_time(detective->pg, checkpoint, at - 1, &now_ms, err));
    TRY(find_time(detective, checkpoint, now_ms - engine_window_ms(detective->engine), &from, at, err));
    detective->is_replaying = true;
    struct result replayed = SUCCESS;
    for (; from < at && replayed.ok; from += PAGE) {
        if (atomic_load(detective->options.gives_up)) {
            replayed = failure(err, ERROR_UNAVAILABLE, "the server ends");
            break;
        }
        const struct audit_span span = {from, at - from > PAGE ? from + PAGE : at};
        replayed = feed_page(detective, checkpoint, &span, err);
    }
    detective->is_replaying = false;
    return replayed;
}

static bool are_same(const struct detection_rules *one, const struct detection_rules *other)
{
    bool same = one->count == other->count;

    for (size_t i = 0; i < one->count && same; i++) {
        const struct detection_rule *a = &one->each[i], *b = &other->each[i];
        same = strcmp(a->name, b->name) == 0 && a->detector == b->detector && a->threshold == b->threshold &&
               a->window_s == b->window_s && a->severity == b->severity;
    }
    return same;
}

static void forget(struct detective *detective)
{
    engine_free(detective->engine);
    detective->engine = NULL;
}

static struct result prepare(struct detective *detective, const struct detection_rules *rules,
                             const struct signed_checkpoint *checkpoint, struct error *err)
{
    if (detective->engine != NULL && are_same(&detective->rules, rules)) return SUCCESS;
    forget(detective);
    detective->rules = *rules;
    TRY(detection_open(detective->pg, checkpoint->size, &detective->position, err));
    if (detective->position.at > checkpoint->size) return failure(err, ERROR_UNAVAILABLE, "detection is ahead of the signed log");
    TRY(engine_new(&detective->rules, detective->hash_key, &detective->engine, err));
    const struct result replayed = replay(detective, checkpoint, err);
    if (!replayed.ok) forget(detective);
    return replayed;
}

/* ---- steps ---- */

static struct result hold(struct detective *detective, struct error *err)
{
    if (pg_is_broken(detective->pg)) {
        detective->is_holder = false;
        forget(detective);
        TRY(pg_reopen(detective->pg, err));
    }
    return detective->is_holder ? SUCCESS : detection_lock(detective->pg, &detective->is_holder, err);
}

static struct result look(struct detective *detective, const struct signed_checkpoint *checkpoint, struct error *err)
{
    uint64_t known = 0;

    TRY(first_place_known(detective->pg, &known, err));
    const uint64_t end = known < checkpoint->size ? known : checkpoint->size, at = detective->position.at;
    if (at >= end) return SUCCESS;
    const struct audit_span span = {at, end - at > PAGE ? at + PAGE : end};
    const struct result fed = feed_page(detective, checkpoint, &span, err);
    if (!fed.ok) {
        forget(detective);
        return fed;
    }
    detective->position = (struct detection_position){span.until, 0};
    return detection_advance(detective->pg, span.until, err);
}

static struct result watch(struct detective *detective, const struct detection_rules *rules, struct detective_report *report,
                           struct error *err)
{
    struct signed_checkpoint checkpoint;

    TRY(sequencer_checkpoint(detective->options.sequencer, &checkpoint, err));
    report->lag = checkpoint.size > detective->position.at ? checkpoint.size - detective->position.at : 0;
    TRY(prepare(detective, rules, &checkpoint, err));
    detective->alarms = 0;
    const uint64_t before = detective->position.at;
    TRY(look(detective, &checkpoint, err));
    report->alarms = detective->alarms;
    report->lag = checkpoint.size - detective->position.at;
    report->wait_ms = detective->position.at > before && report->lag > 0 ? 0 : LOOK_MS;
    return SUCCESS;
}

void detective_forget_keys(struct detective *detective)
{
    first_place_memo_begin(detective->places);
}

struct result detective_step(struct detective *detective, const struct detection_rules *rules,
                             struct detective_report *report_out, struct error *err)
{
    struct detective_report report = {.wait_ms = OTHER_MS};

    struct result stepped = hold(detective, err);

    report.is_holder = detective->is_holder;
    if (stepped.ok && detective->is_holder) stepped = watch(detective, rules, &report, err);
    *report_out = report;
    return stepped;
}
