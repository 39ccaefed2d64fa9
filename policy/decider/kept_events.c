#include "policy/decider/kept_events.h"

#include <stdio.h>
#include <string.h>

#include "audit/query.h"
#include "policy/compiled_priv.h"
#include "policy/decider/decider_priv.h"
#include "policy/evaluate.h"

#define PAGE   500
#define DAY_MS INT64_C(86400000)

/* A duty: for how long the events of a name are kept. */
struct keeping {
    int64_t days;
    char rule[65], policy[80];
};

struct looking {
    const struct decision_context *context;
    const struct kept_query *query;
    struct keeping longest, lifting; /* of the set, and of what its exceptions add */
    struct keeping known;            /* of the name that was asked last */
    char known_name[RESOURCE_NAME_MAX + 1];
    struct kept_events kept;
    int64_t time_ms; /* of the event that was looked at last */
    bool is_over;
};

static void raise_to(struct keeping *keeping, int64_t days, const char *rule, const char *policy)
{
    if (days <= keeping->days) return;
    keeping->days = days;
    (void)snprintf(keeping->rule, sizeof keeping->rule, "%s", rule);
    (void)snprintf(keeping->policy, sizeof keeping->policy, "%s", policy);
}

/* ---- the set ---- */

static void look_at_rules(struct keeping *keeping, const struct policy_document *policy)
{
    for (size_t i = 0; i < policy->rule_count; i++) {
        const struct obligation *oblige = &policy->rules[i].oblige;
        if (oblige->has_audit_retain_min) raise_to(keeping, oblige->audit_retain_min_days, policy->rules[i].id, policy->name);
    }
}

static void look_at_policy(struct looking *looking, const struct policy_document *policy)
{
    look_at_rules(&looking->longest, policy);
    for (size_t i = 0; i < policy->type_count; i++) {
        const struct obligation *adds = &policy->types[i].adds;
        if (!adds->has_audit_retain_min) continue;
        raise_to(&looking->lifting, adds->audit_retain_min_days, policy->types[i].name, policy->name);
        raise_to(&looking->longest, adds->audit_retain_min_days, policy->types[i].name, policy->name);
    }
}

static void look_at_set(struct looking *looking)
{
    const struct policy_documents *documents = policy_set_documents(looking->context->snapshot->set);

    for (size_t i = 0; i < documents->count; i++) look_at_policy(looking, documents->documents[i]);
}

/* ---- a name ---- */

static struct result ask_name(const struct looking *looking, const char *name, struct keeping *keeping_out, struct error *err)
{
    struct keeping keeping = {.days = 0};

    for (unsigned i = 0; i < OP_COUNT; i++) {
        const struct repository_query query = {.name = name, .op = (enum policy_operation)(1U << i)};
        const char *rule = "", *policy = "";
        OWNED(policy_decision) *decision = NULL;
        TRY(evaluate_repository(looking->context, &query, &decision, err));
        const int64_t days = policy_decision_keeps_events(decision, &rule, &policy);
        raise_to(&keeping, days, rule, policy);
    }
    *keeping_out = keeping;
    return SUCCESS;
}

/* Without a label no rule speaks; and what is gone had one that nobody knows any more. Then each rule counts that may have spoken. */
static struct result has_label(const struct looking *looking, const char *name, bool *has_out, struct error *err)
{
    struct label label;

    *has_out = false;
    if (tenancy_project(&looking->context->snapshot->tenancy, name) == NULL) return SUCCESS;
    return evaluate_label_of_repository(looking->context, name, &label, has_out, err);
}

static struct keeping possible_of(const struct looking *looking, const char *name)
{
    const struct policy_documents *documents = policy_set_documents(looking->context->snapshot->set);
    struct bytes segments[SCOPE_SEGMENTS_MAX];
    struct keeping keeping = {.days = 0};
    size_t count = 0;

    if (!scope_cut(name, segments, &count)) return keeping;
    for (size_t i = 0; i < documents->count; i++) {
        const struct policy_document *policy = documents->documents[i];
        if (policy->has_applies_to || scope_matches(&policy->scopes, segments, count)) look_at_rules(&keeping, policy);
    }
    return keeping;
}

/* A person works at one name for many events. */
static struct result keeping_of(struct looking *looking, const char *name, struct error *err)
{
    bool is_labelled = false;

    if (strcmp(looking->known_name, name) == 0) return SUCCESS;
    TRY(has_label(looking, name, &is_labelled, err));
    if (is_labelled) TRY(ask_name(looking, name, &looking->known, err));
    else looking->known = possible_of(looking, name);
    (void)snprintf(looking->known_name, sizeof looking->known_name, "%s", name);
    return SUCCESS;
}

/* ---- events ---- */

static int64_t end_of(int64_t time_ms, int64_t days)
{
    return days > (INT64_MAX - time_ms) / DAY_MS ? INT64_MAX : time_ms + days * DAY_MS;
}

static void note(struct looking *looking, const struct keeping *keeping, const char *name)
{
    const int64_t until_ms = keeping->days == 0 ? 0 : end_of(looking->time_ms, keeping->days);
    struct kept_events *kept = &looking->kept;

    if (until_ms <= kept->until_ms) return;
    kept->until_ms = until_ms;
    (void)snprintf(kept->rule, sizeof kept->rule, "%s", keeping->rule);
    (void)snprintf(kept->policy, sizeof kept->policy, "%s", keeping->policy);
    (void)snprintf(kept->name, sizeof kept->name, "%s", name);
}

/* "acme/models/digits#sha256:...": what policies are about has a project. */
static bool name_of(const struct leaf_target *target, char name_out[RESOURCE_NAME_MAX + 1])
{
    const size_t length = strcspn(target->resource, "#");

    if (length > RESOURCE_NAME_MAX || memchr(target->resource, '/', length) == NULL) return false;
    (void)snprintf(name_out, RESOURCE_NAME_MAX + 1, "%.*s", (int)length, target->resource);
    return true;
}

static struct result look_at_event(struct looking *looking, const struct leaf *leaf, struct error *err)
{
    char name[RESOURCE_NAME_MAX + 1] = "";

    looking->time_ms = leaf->time_ms;
    for (size_t i = 0; i < leaf->target_count; i++) {
        if (!name_of(&leaf->targets[i], name)) continue;
        TRY(keeping_of(looking, name, err));
        note(looking, &looking->known, name);
    }
    if (strncmp(leaf->reason.note, "use", strlen("use")) == 0) note(looking, &looking->lifting, name);
    return SUCCESS;
}

/* Events come with falling times: once the longest duty ends before what is known already, no older one matters. */
static bool can_be_exceeded(const struct looking *looking, const struct leaf *leaf)
{
    const int64_t end_ms = end_of(leaf->time_ms, looking->longest.days);

    return end_ms > looking->query->now_ms && end_ms > looking->kept.until_ms;
}

/* The leaf of an entry may be in a region, where nobody reads it for this: it counts as the event before it, under the longest duty. */
static struct result look_at_page(struct looking *looking, const struct audit_page *page, struct error *err)
{
    for (size_t i = 0; i < audit_page_count(page) && !looking->is_over; i++) {
        struct leaf leaf;
        if (!audit_page_is_readable(page, i)) {
            note(looking, &looking->longest, "");
            continue;
        }
        TRY(leaf_read(audit_page_leaf(page, i), &leaf, err));
        looking->is_over = !can_be_exceeded(looking, &leaf);
        if (!looking->is_over) TRY(look_at_event(looking, &leaf, err));
    }
    return SUCCESS;
}

static struct result look_at_events(struct looking *looking, struct error *err)
{
    const struct kept_query *query = looking->query;
    char key[sizeof "act:" + 64];
    struct audit_filter filter = {.key = key, .until = INT64_MAX, .limit = PAGE};
    size_t looked = 0;

    (void)snprintf(key, sizeof key, "act:%.64s", query->pseudonym);
    while (!looking->is_over && looked < KEPT_LOOKED_AT) {
        OWNED(audit_page) *page = NULL;
        TRY(erasure_person_events(query->permit, query->action, query->pg, &filter, &page, err));
        const size_t count = audit_page_count(page);
        TRY(look_at_page(looking, page, err));
        looked += count;
        if (count < PAGE) return SUCCESS;
        filter.until = audit_page_sequence(page, count - 1);
    }
    if (!looking->is_over) note(looking, &looking->longest, "");
    return SUCCESS;
}

struct result decider_keeps_events(struct decider *decider, const struct kept_query *query, struct kept_events *kept_out,
                                   struct error *err)
{
    OWNED(snapshot) *snapshot = decider_take(decider);
    const struct decision_request request = {.now_ms = query->now_ms};
    const struct decision_context context = decider_context(decider, snapshot, &request);
    struct looking looking = {.context = &context, .query = query, .time_ms = query->now_ms};

    if (context.is_stale) return failure(err, ERROR_UNAVAILABLE, "this gateway can't tell which policies are in force");
    if (snapshot->set != NULL) look_at_set(&looking);
    if (looking.longest.days > 0) TRY(look_at_events(&looking, err));
    looking.kept.are_kept = looking.kept.until_ms > query->now_ms;
    *kept_out = looking.kept;
    return SUCCESS;
}
