#include "policy/set_change.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "crypto/dsse.h"
#include "documents/format/set_exceptions.h"
#include "policy/compare.h"
#include "policy/set_priv.h"

/* ---- what only restricts ---- */

static bool has_id(const struct policy_set *set, const char *id)
{
    for (size_t i = 0; i < set->documents->count; i++)
        if (strcmp(set->documents->documents[i]->id, id) == 0) return true;
    return false;
}

static bool has_document(const struct policy_set *set, const struct policy_document *wanted)
{
    for (size_t i = 0; i < set->documents->count; i++)
        if (strcmp(set->documents->documents[i]->digest, wanted->digest) == 0) return true;
    return false;
}

/* A label would give content that has none a class, and a permit of another policy may ask for one. */
static bool restricts(const struct policy_document *policy)
{
    for (size_t i = 0; i < policy->rule_count; i++)
        if (policy->rules[i].effect != EFFECT_REQUIRE && policy->rules[i].effect != EFFECT_DENY) return false;
    return !policy->has_floor && policy->type_count == 0;
}

/* An absent list is an empty one. */
static bool is_same(const struct policy_set *base, const struct policy_set *next, const char *name)
{
    const json_t *before = json_object_get(base->json, name), *after = json_object_get(next->json, name);

    if (json_array_size(before) + json_object_size(before) + json_array_size(after) + json_object_size(after) == 0) return true;
    return before != NULL && after != NULL && json_equal(before, after) == 1;
}

static bool has_exception(const struct policy_set *set, const struct policy_exception *wanted)
{
    for (size_t i = 0; i < set->exception_count; i++)
        if (memcmp(set->exceptions[i]->key, wanted->key, sizeof wanted->key) == 0) return true;
    return false;
}

static bool shares(const struct text_list *left, const struct text_list *right)
{
    for (size_t i = 0; i < left->count; i++)
        for (size_t j = 0; j < right->count; j++)
            if (strcmp(left->texts[i], right->texts[j]) == 0) return true;
    return false;
}

/* Where one that stays may lift the same rule for the same request, it would be used instead, and may have fewer duties. */
static bool has_substitute(const struct policy_set *set, const struct policy_exception *gone)
{
    for (size_t i = 0; i < set->exception_count; i++) {
        const struct policy_exception *other = set->exceptions[i];
        if (uuid_equal(&other->project, &gone->project) && strcmp(other->policy_id, gone->policy_id) == 0 &&
            (other->operations & gone->operations) != 0 && shares(&other->lifts, &gone->lifts) &&
            shares(&other->targets, &gone->targets) && shares(&other->digests, &gone->digests))
            return true;
    }
    return false;
}

/* *ended_out: how many exceptions of the base end with the next set. */
static bool only_ends_exceptions(const struct policy_set *base, const struct policy_set *next, size_t *ended_out)
{
    size_t ended = 0;

    for (size_t i = 0; i < next->exception_count; i++)
        if (!has_exception(base, next->exceptions[i])) return false;
    for (size_t i = 0; i < base->exception_count; i++) {
        if (has_exception(next, base->exceptions[i])) continue;
        if (has_substitute(next, base->exceptions[i])) return false;
        ended++;
    }
    *ended_out = ended;
    return true;
}

void policy_set_kept_exceptions(const struct policy_set *base, const struct policy_set *next,
                                uint8_t kept_out[SET_EXCEPTIONS_MAX / 8])
{
    const json_t *old = base == NULL ? NULL : json_object_get(base->json, "exceptions");
    const json_t *new = json_object_get(next->json, "exceptions");

    _Static_assert(POLICY_LIST_MAX <= SET_EXCEPTIONS_MAX, "each exception of a set has a bit");
    memset(kept_out, 0, SET_EXCEPTIONS_MAX / 8);
    for (size_t i = 0; i < json_array_size(new); i++)
        for (size_t j = 0; j < json_array_size(old); j++)
            if (json_equal(json_array_get(new, i), json_array_get(old, j)) == 1) set_exception_keep(kept_out, i);
}

bool policy_set_only_restricts(const struct policy_set *base, const struct policy_set *next)
{
    static const char *const others[] = {"regions", "groups", "networks", "declassified"};
    const struct policy_documents *before = base->documents, *after = next->documents;
    size_t ended = 0;

    if (!only_ends_exceptions(base, next, &ended)) return false;
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        if (!is_same(base, next, others[i])) return false;
    for (size_t i = 0; i < before->count; i++)
        if (!has_document(next, before->documents[i])) return false;
    for (size_t i = 0; i < after->count; i++) {
        const struct policy_document *policy = after->documents[i];
        if (!has_document(base, policy) && (has_id(base, policy->id) || !restricts(policy))) return false;
    }
    return after->count > before->count || ended > 0;
}

/* ---- judging ---- */

/* The bits are in the order of the signed document; documents are sorted otherwise. */
static size_t unused_ids(const struct policy_succession *succession, const char *ids_out[POLICY_COUNT_MAX])
{
    const json_t *policies = json_object_get(succession->next->json, "policies");
    size_t count = 0;

    _Static_assert(POLICY_COUNT_MAX <= SET_POLICIES_MAX, "each policy of a set has a bit");
    for (size_t i = 0; i < json_array_size(policies) && i < POLICY_COUNT_MAX; i++)
        if ((succession->unused >> i & 1) != 0)
            ids_out[count++] = json_text_of(json_object_get(json_array_get(policies, i), "metadata"), "id");
    return count;
}

static bool is_among(const char *id, const char *const *ids, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(ids[i], id) == 0) return true;
    return false;
}

static bool adds_new_ids(const struct policy_succession *succession, const char *const *unused, size_t count)
{
    const struct policy_documents *after = succession->next->documents;

    if (!policy_set_only_restricts(succession->base, succession->next)) return false;
    for (size_t i = 0; i < after->count; i++)
        if (!has_id(succession->base, after->documents[i]->id) && !is_among(after->documents[i]->id, unused, count)) return false;
    return true;
}

static void tell(const struct policy_difference *difference, struct set_change_found *found)
{
    const bool has_rule = difference->old_rule[0] != '\0';

    (void)snprintf(found->why, sizeof found->why, "%s%s%.60s%s%.40s%s%.60s", policy_change_name(difference->change),
                   difference->scope[0] == '\0' ? "" : " on ", difference->scope, has_rule ? ", until now by " : "",
                   has_rule ? difference->old_rule : "", difference->detail[0] == '\0' ? "" : ": ", difference->detail);
}

static struct result compare(const struct policy_succession *succession, const char *const *unused, size_t count,
                             struct set_change_found *found, struct error *err)
{
    const struct policy_compared compared = {.old_set = succession->base,
                                             .new_set = succession->next,
                                             .now_us = succession->now_ms * 1000,
                                             .unused_id_count = count,
                                             .unused_ids = unused,
                                             .steps_max = SET_CHANGE_STEPS_MAX};
    OWNED(policy_comparison) *comparison = NULL;

    TRY(policy_compare(&compared, &comparison, err));
    for (size_t i = 0; i < policy_comparison_count(comparison) && found->change != SET_LOOSENS; i++) {
        const struct policy_difference *difference = policy_comparison_at(comparison, i);
        const bool was_no_loosening = succession->was_pinned && difference->change == POLICY_RECORD_DEMANDS_LESS;
        if (!policy_change_loosens(difference->change) || was_no_loosening) continue;
        found->change = SET_LOOSENS;
        tell(difference, found);
    }
    return SUCCESS;
}

/* Also one that allows what another one did, which goes: that one may have ended, or its uses may be used up. */
static void find_new_exception(const struct policy_succession *succession, struct set_change_found *found)
{
    const struct policy_set *next = succession->next;

    for (size_t i = 0; i < next->exception_count && found->change != SET_LOOSENS; i++) {
        const struct policy_exception *exception = next->exceptions[i];
        if (exception->is_revoked || has_exception(succession->base, exception)) continue;
        found->change = SET_LOOSENS;
        (void)snprintf(found->why, sizeof found->why, "it brings the exception %.64s", exception->id);
    }
}

struct result policy_succession_judge(const struct policy_succession *succession, struct set_change_found *found_out,
                                      struct error *err)
{
    const char *unused[POLICY_COUNT_MAX];
    const size_t count = unused_ids(succession, unused);
    struct set_change_found found = {.change = SET_CHANGES};

    if (adds_new_ids(succession, unused, count)) {
        *found_out = (struct set_change_found){SET_RESTRICTS, "it only adds policies that restrict, or ends exceptions", {0}};
        return SUCCESS;
    }
    TRY(compare(succession, unused, count, &found, err));
    find_new_exception(succession, &found);
    *found_out = found;
    return SUCCESS;
}

/* Its signatures are old ones: that it is the set that sijil-keyd has pinned is enough. */
static struct result read_base(const struct set_change_query *query, struct policy_set **set_out, struct error *err)
{
    OWNED(policy_set) *set = NULL;
    OWNED(dsse) *dsse = NULL;
    uint8_t digest[DOCUMENT_DIGEST_SIZE];

    TRY(dsse_read(query->base, POLICY_SET_ENVELOPE_MAX, &dsse, err));
    TRY(policy_set_compile(buffer_bytes(&dsse->payload), &set, err));
    if (policy_set_epoch(set) != query->pinned.epoch ||
        !text_from_hex(bytes_of_text(policy_set_digest(set) + strlen("sha256:")), digest, sizeof digest) ||
        memcmp(digest, query->pinned.digest, sizeof digest) != 0)
        return failure(err, ERROR_DENIED, "the set that was given as the one before is of epoch %llu, and another one is pinned",
                       (unsigned long long)policy_set_epoch(set));
    *set_out = GIVE(set);
    return SUCCESS;
}

static struct result change_of(const struct set_change_query *query, bool was_pinned, struct set_change_found *found_out,
                               struct error *err)
{
    OWNED(policy_set) *base = NULL;
    OWNED(policy_set) *next = NULL;

    TRY(read_base(query, &base, err));
    TRY(policy_set_compile(query->payload, &next, err));
    if (!was_pinned) TRY(policy_set_check_evidence(next, base, err));
    const struct policy_succession succession = {base, next, query->unused, query->now_ms, was_pinned};
    struct set_change_found found = {.change = SET_LOOSENS};
    if (!query->is_about_exceptions) TRY(policy_succession_judge(&succession, &found, err));
    policy_set_kept_exceptions(base, next, found.kept);
    *found_out = found;
    return SUCCESS;
}

struct result policy_set_change(const struct set_change_query *query, struct set_change_found *found_out, struct error *err)
{
    return change_of(query, true, found_out, err);
}

struct result policy_set_change_to_pin(const struct set_change_query *query, struct set_change_found *found_out,
                                       struct error *err)
{
    return change_of(query, false, found_out, err);
}
