/* Counts requests without an event of their own in bursts: one burst for requests without a valid credential, and one for each
 * organisation or issuer. */
#include <stdio.h>
#include <string.h>

#include "audit/sequencer_priv.h"
#include "base/clock.h"

#define BURST_OF_UNAUTHENTICATED 0
#define BURST_OF_OTHERS          1 /* while all bursts of organisations and issuers are in use */
#define BURSTS_FIXED             2

/* The names can't collide: an issuer's URL has "://", and the name of an organisation can't have it. */
static const char *realm_of(const struct record *record, const char *issuer)
{
    return record->refusal->organisation[0] != '\0' ? record->refusal->organisation : issuer;
}

static struct burst *burst_of_realm(struct sequencer *sequencer, const char *realm)
{
    struct burst *unused = NULL;

    for (size_t i = BURSTS_FIXED; i < BURSTS_MAX; i++) {
        struct burst *burst = &sequencer->bursts[i];
        if (burst->is_used && strcmp(burst->realm, realm) == 0) return burst;
        if (!burst->is_used && unused == NULL) unused = burst;
    }
    if (unused == NULL) return &sequencer->bursts[BURST_OF_OTHERS];
    unused->is_used = true;
    if (strcmp(unused->realm, realm) != 0) unused->early = 0;
    (void)snprintf(unused->realm, sizeof unused->realm, "%s", realm);
    return unused;
}

static struct burst *burst_of(struct sequencer *sequencer, const struct record *record)
{
    char anonymous[ANONYMOUS_NAME_SIZE];
    const char *names[2];

    if (record->context.subject == NULL) return &sequencer->bursts[BURST_OF_UNAUTHENTICATED];
    record_subject(record, anonymous, names);
    struct burst *burst = burst_of_realm(sequencer, realm_of(record, names[0]));
    const bool is_of_one = burst != &sequencer->bursts[BURST_OF_OTHERS];
    if (is_of_one) (void)snprintf(burst->organisation, sizeof burst->organisation, "%s", record->refusal->organisation);
    return burst;
}

/* A request at /token names no resource; the name that came with the wrong secret is its target. */
static const char *target_of(const struct record *record)
{
    const char *target = record->refusal != NULL ? record->refusal->target : decision_pair(record->decision, 0)->resource.name;

    return target[0] == '\0' && record->context.tried != NULL ? record->context.tried : target;
}

static const char *action_of(const struct record *record)
{
    return action_name(record->refusal != NULL ? record->refusal->action : decision_pair(record->decision, 0)->action);
}

static const char *actor_of(const struct record *record)
{
    return record->context.subject == NULL ? "anonymous" : record->resolved->pseudonym;
}

static void count_in(struct burst *burst, const struct record *record)
{
    burst->count++;
    tally_add(&burst->tally, action_of(record), actor_of(record), record->context.client_address, target_of(record));
}

static bool may_end_early(struct burst *burst, int64_t now_ms)
{
    if (now_ms - burst->minute_ms >= BURST_MINUTE_MS) {
        burst->minute_ms = now_ms;
        burst->early = 0;
    }
    return burst->early < BURST_EARLY_MAX;
}

/* Whether this burst counts the request. A burst without a row for the request's target ends early, and then the next burst
 * counts the request. Only a few bursts a minute may end early; the others count the request without naming its target. */
static bool takes(struct burst *burst, const struct record *record, int64_t now_ms)
{
    if (!burst->is_open || burst->count == BURST_BOUND) return false;
    if (tally_names(&burst->tally, action_of(record), actor_of(record), record->context.client_address, target_of(record)))
        return true;
    if (!burst->is_full && !may_end_early(burst, now_ms)) return true;
    burst->early += !burst->is_full;
    burst->is_full = true;
    return false;
}

/* The first record that waits for a burst provides the subject. The subject's key seals the burst's row. */
static void want(struct burst *burst, struct record *record)
{
    struct audit_subject **day = record->context.subject == NULL ? &record->resolved : &record->day;

    burst->is_wanted = true;
    if (burst->next_day != NULL) return;
    burst->next_day = *day;
    *day = NULL;
}

void bursts_release(struct sequencer *sequencer, struct record_queue *released)
{
    const int64_t now_ms = clock_monotonic_ms();
    struct record_queue waiting;

    queue_init(&waiting);
    for (struct record *record; (record = queue_take(&sequencer->joining)) != NULL;) {
        struct burst *burst = burst_of(sequencer, record);
        if (takes(burst, record, now_ms)) {
            count_in(burst, record);
            queue_add(released, record);
        } else {
            want(burst, record);
            queue_add(&waiting, record);
        }
    }
    for (struct record *record; (record = queue_take(&waiting)) != NULL;) queue_add(&sequencer->joining, record);
}

static struct event *add_event(struct group *group, enum own_event own, struct burst *burst)
{
    struct event *event = &group->events[group->count++];

    *event = (struct event){.own = own, .action = ACTION_DENIED_BURST, .burst = burst, .organisation = burst->organisation};
    return event;
}

static void collect(struct sequencer *sequencer, struct burst *burst, int64_t now_ms)
{
    const bool is_over = burst->is_open && (burst->count == BURST_BOUND || burst->is_full || sequencer->is_stopping ||
                                            now_ms - burst->opened_ms >= BURST_WINDOW_MS);

    if (is_over) {
        struct event *closing = add_event(sequencer->group, OWN_BURST_CLOSE, burst);
        closing->outcome = OUTCOME_COMPLETED;
        closing->count = burst->count;
        closing->opened = burst->opened;
        closing->tally = &burst->tally;
        closing->sealer = burst->day;
    }
    if (burst->is_wanted && (!burst->is_open || is_over)) {
        struct event *opening = add_event(sequencer->group, OWN_BURST_OPEN, burst);
        opening->outcome = OUTCOME_DENIED;
        opening->count = BURST_BOUND;
    }
}

void bursts_collect(struct sequencer *sequencer, int64_t now_ms)
{
    for (size_t i = 0; i < BURSTS_MAX; i++) collect(sequencer, &sequencer->bursts[i], now_ms);
}

int64_t bursts_due_ms(const struct sequencer *sequencer)
{
    int64_t due_ms = INT64_MAX;

    for (size_t i = 0; i < BURSTS_MAX; i++) {
        const struct burst *burst = &sequencer->bursts[i];
        if (burst->is_open && burst->opened_ms + BURST_WINDOW_MS < due_ms) due_ms = burst->opened_ms + BURST_WINDOW_MS;
    }
    return due_ms;
}

static void close_burst(struct sequencer *sequencer, struct burst *burst)
{
    subject_cache_release(sequencer->subjects, burst->day);
    burst->day = NULL;
    burst->is_open = false;
    burst->is_used = burst->is_wanted;
}

static void open_burst(struct burst *burst, uint64_t sequence)
{
    burst->is_used = burst->is_open = true;
    burst->is_wanted = false;
    burst->opened = sequence;
    burst->opened_ms = clock_monotonic_ms();
    burst->day = burst->next_day;
    burst->next_day = NULL;
    burst->count = 0;
    burst->is_full = false;
    burst->tally = (struct tally){.rest = 0};
}

void bursts_apply(struct sequencer *sequencer, const struct event *event)
{
    if (event->own == OWN_BURST_CLOSE) close_burst(sequencer, event->burst);
    else open_burst(event->burst, event->sequence);
}
