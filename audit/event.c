#include "audit/event_priv.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

const char *outcome_name(enum outcome outcome)
{
    static const char *const names[] = {"allowed", "denied", "failed", "completed"};

    assert((unsigned)outcome < sizeof names / sizeof names[0]);
    return names[outcome];
}

struct result event_of_record(struct record *record, struct event *event_out, struct error *err)
{
    assert((record->decision == NULL) != (record->under == NULL));
    struct event event = {.record = record};

    if (record->under != NULL) {
        assert(record->outcome == OUTCOME_COMPLETED || record->outcome == OUTCOME_FAILED);
        event.outcome = record->outcome;
        event.action = record->under->decision->parts.pairs[0].action;
    } else {
        event.outcome = decision_verdict(record->decision) == VERDICT_ALLOW ? OUTCOME_ALLOWED : OUTCOME_DENIED;
        event.action = record->decision->parts.pairs[0].action;
        if (event.outcome == OUTCOME_ALLOWED) TRY(permit_make(record->decision, &event.permit, err));
    }
    *event_out = event;
    return SUCCESS;
}

void event_done(struct event *event)
{
    permit_free(event->permit);
    event->permit = NULL;
}

size_t event_plain_text(char *destination, size_t room, const char *text)
{
    size_t length = 0;

    for (; text[length] != '\0' && length + 1 < room; length++) {
        const char letter = text[length];
        const bool is_plain = letter >= 0x20 && letter < 0x7f && letter != '"' && letter != '\\';
        destination[length] = '?';
        if (is_plain) destination[length] = letter;
    }
    destination[length] = '\0';
    return length;
}

/* "name#detail". A '#' inside the name would make its key ambiguous. */
static void put_resource(char destination[LEAF_RESOURCE_MAX + 1], const struct resource *resource)
{
    size_t length = event_plain_text(destination, LEAF_NAME_MAX + 1, resource->name);

    for (size_t i = 0; i < length; i++)
        if (destination[i] == '#') destination[i] = '?';
    if (resource->detail[0] == '\0') return;
    destination[length++] = '#';
    (void)event_plain_text(destination + length, LEAF_RESOURCE_MAX + 1 - length, resource->detail);
}

static void put_targets(struct leaf *leaf, const struct decision_parts *parts)
{
    leaf->target_count = parts->pair_count;
    for (size_t i = 0; i < parts->pair_count; i++) {
        const struct action_pair *pair = &parts->pairs[i];
        (void)event_plain_text(leaf->targets[i].action, sizeof leaf->targets[i].action, action_name(pair->action));
        put_resource(leaf->targets[i].resource, &pair->resource);
        (void)event_plain_text(leaf->targets[i].region, sizeof leaf->targets[i].region, pair->resource.region);
    }
}

static void put_detail_of_change(struct leaf *leaf, const struct event *event)
{
    struct leaf_target *target = &leaf->targets[0];
    const struct record *record = event->record;
    const struct change *change = event->outcome == OUTCOME_DENIED ? NULL : record->change;
    char *const end = target->resource + sizeof target->resource;

    if (change == NULL || change->detail == NULL) return;
    assert(leaf->target_count == 1 && strlen(change->detail) <= CHANGE_DETAIL_MAX); /* so the leaf has room for it */
    char *destination = target->resource + strcspn(target->resource, "#");
    *destination++ = '#';
    destination += event_plain_text(destination, (size_t)(end - destination), change->detail);
    if (record->concerned != NULL) (void)snprintf(destination, (size_t)(end - destination), " %s", record->concerned->pseudonym);
}

static void put_reason(struct leaf_reason *reason, const struct decision_parts *parts, const char *note)
{
    (void)event_plain_text(reason->decision, sizeof reason->decision, parts->id);
    (void)event_plain_text(reason->policy, sizeof reason->policy, parts->policy_digest);
    (void)event_plain_text(reason->note, sizeof reason->note, note);
    for (size_t i = 0; i < parts->denial_count && i < LEAF_RULES_MAX; i++)
        (void)event_plain_text(reason->rules[reason->rule_count++], sizeof reason->rules[0], parts->denials[i].rule);
}

/* "use 3 of ID"; "uses 3 and 7" of several, in the order of the facts, which name them. */
static void put_uses(struct leaf_reason *reason, const struct event *event, const struct decision_parts *parts)
{
    char note[sizeof reason->note];
    size_t counted = 0;
    int at = 0;

    for (size_t i = 0; i < parts->use_count; i++) counted += event->uses[i] > 0;
    for (size_t i = 0; i < parts->use_count && at >= 0 && (size_t)at < sizeof note; i++) {
        const unsigned long long number = event->uses[i];
        if (number == 0) continue;
        if (counted == 1) at = snprintf(note, sizeof note, "use %llu of %s", number, parts->uses[i].id);
        else at += snprintf(note + at, sizeof note - (size_t)at, "%s%llu", at == 0 ? "uses " : " and ", number);
    }
    if (counted > 0) (void)event_plain_text(reason->note, sizeof reason->note, note);
}

static void put_facts(struct leaf *leaf, const struct decision *decision)
{
    leaf->facts_count = decision_facts_count(decision);
    for (size_t i = 0; i < leaf->facts_count; i++) memcpy(leaf->facts[i], decision->facts_digests[i], sizeof leaf->facts[i]);
    leaf->reason.has_decided = leaf->facts_count > 0;
    leaf->reason.decided_ms = (uint64_t)decision->parts.decided_ms;
}

static const char *actor_of(const struct event *event)
{
    const struct record *record = event->record;

    if (record->context.subject == NULL && record->under != NULL) return record->under->actor;
    if (record->decision != NULL && decision_is_of_server(record->decision)) return "system";
    return record->context.subject == NULL || record->resolved == NULL ? "anonymous" : record->resolved->pseudonym;
}

void event_name_permit(struct event *event)
{
    (void)event_plain_text(event->permit->actor, sizeof event->permit->actor, actor_of(event));
    (void)event_plain_text(event->permit->request, sizeof event->permit->request, event->record->context.request_id);
}

static void fill_from_record(const struct event *event, struct leaf *leaf)
{
    const struct record *record = event->record;
    const struct decision *decision = record->decision != NULL ? record->decision : record->under->decision;
    const bool has_own_id = record->context.request_id[0] != '\0' || record->under == NULL;

    put_targets(leaf, &decision->parts);
    put_detail_of_change(leaf, event);
    put_reason(&leaf->reason, &decision->parts, record->note);
    put_uses(&leaf->reason, event, &decision->parts);
    put_facts(leaf, decision);
    (void)event_plain_text(leaf->actor, sizeof leaf->actor, actor_of(event));
    (void)event_plain_text(leaf->request, sizeof leaf->request, has_own_id ? record->context.request_id : record->under->request);
}

static void fill_own(const struct event *event, struct leaf *leaf)
{
    struct leaf_reason *reason = &leaf->reason;

    leaf->target_count = 1;
    leaf->targets[0] = (struct leaf_target){.resource = ""};
    if (event->organisation != NULL) (void)event_plain_text(leaf->targets[0].resource, LEAF_NAME_MAX + 1, event->organisation);
    (void)event_plain_text(leaf->targets[0].action, sizeof leaf->targets[0].action, action_name(event->action));
    (void)event_plain_text(leaf->actor, sizeof leaf->actor, "system");
    leaf->request[0] = '\0';
    reason->has_bound = event->own == OWN_BURST_OPEN;
    reason->has_count = !reason->has_bound;
    *(reason->has_bound ? &reason->bound : &reason->count) = event->count;
    if (event->own == OWN_CLOCK_STEP) (void)snprintf(reason->note, sizeof reason->note, "%+lld ms", (long long)event->stepped_ms);
    reason->has_opened = event->own == OWN_BURST_CLOSE;
    reason->opened = event->opened;
}

void event_fill_leaf(const struct event *event, struct leaf *leaf_out)
{
    const enum outcome outcome = event->has_failed ? OUTCOME_FAILED : event->outcome;

    leaf_out->version = LEAF_VERSION;
    leaf_out->facts_count = 0;
    leaf_out->reason = (struct leaf_reason){.rule_count = 0};
    if (event->record != NULL) fill_from_record(event, leaf_out);
    else fill_own(event, leaf_out);
    (void)event_plain_text(leaf_out->outcome, sizeof leaf_out->outcome, outcome_name(outcome));
    leaf_out->class_uid = action_ocsf_type(event->action);
    leaf_out->source = event->source;
    leaf_out->has_payload = event->has_payload;
    memcpy(leaf_out->payload, event->commitment, sizeof leaf_out->payload);
    leaf_fill_keys(leaf_out);
}
