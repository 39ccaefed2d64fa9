#include "policy/decider/restricted.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "authz/restriction_entry.h"
#include "base/json.h"
#include "base/memory.h"
#include "policy/restriction.h"

/* One organisation. Shared by all that were made of the same set and documents. */
struct place {
    _Atomic unsigned holders;
    char organisation[64];
    size_t count;
    char (*signed_digests)[DIGEST_TEXT_SIZE]; /* of the documents */
    struct policy_documents *documents;       /* NULL: they can't be evaluated together */
    char *digests;
    char why[128];
};

struct restricted {
    _Atomic unsigned holders;
    struct policy_set *set; /* kept */
    size_t count;
    struct place **places; /* sorted by organisation */
};

static struct result no_memory(struct error *err)
{
    return failure(err, ERROR_NO_MEMORY, "no memory for restrictions of organisations");
}

static void place_free(struct place *place)
{
    if (place == NULL || atomic_fetch_sub(&place->holders, 1) != 1) return;
    policy_documents_free(place->documents);
    free(place->digests);
    free(place->signed_digests);
    free(place);
}
DEFINE_OWNED(place);

struct restricted *restricted_keep(struct restricted *restricted)
{
    if (restricted != NULL) (void)atomic_fetch_add(&restricted->holders, 1);
    return restricted;
}

void restricted_free(struct restricted *restricted)
{
    if (restricted == NULL || atomic_fetch_sub(&restricted->holders, 1) != 1) return;
    for (size_t i = 0; i < restricted->count; i++) place_free(restricted->places[i]);
    free(restricted->places);
    policy_set_free(restricted->set);
    free(restricted);
}

static struct place *find(const struct restricted *restricted, const char *scope)
{
    const size_t length = strcspn(scope, "/");
    size_t low = 0, high = restricted == NULL ? 0 : restricted->count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        struct place *place = restricted->places[middle];
        int order = strncmp(place->organisation, scope, length);
        if (order == 0 && place->organisation[length] != '\0') order = 1;
        if (order == 0) return place;
        if (order < 0) low = middle + 1;
        else high = middle;
    }
    return NULL;
}

/* ---- making ---- */

/* The entries [from, until) are those of one organisation. */
struct span {
    const struct trust_rules *rules;
    size_t from, until;
};

/* A set that is planned may have a restriction that nobody has signed yet: then it stands for the version that is in force. No set in force has one. */
static bool is_replaced(const struct policy_set *set, const json_t *policy)
{
    const json_t *policies = json_object_get(policy_set_json(set), "policies");
    const char *id = json_text_of(json_object_get(policy, "metadata"), "id");

    for (size_t i = 0; i < json_array_size(policies); i++) {
        const json_t *metadata = json_object_get(json_array_get(policies, i), "metadata");
        const char *other = json_text_of(metadata, "id");
        if (json_object_get(metadata, "organisation") != NULL && other != NULL && id != NULL && strcmp(other, id) == 0)
            return true;
    }
    return false;
}

static struct result gather(const struct policy_set *set, const struct span *span, struct place *place, json_t *policies,
                            struct error *err)
{
    for (size_t i = span->from; i < span->until; i++) {
        const struct restriction_entry *entry = restriction_entries_at(span->rules, i);
        if (is_replaced(set, entry->policy)) continue;
        memcpy(place->signed_digests[place->count++], entry->pinned.digest, DIGEST_TEXT_SIZE);
        if (json_array_append(policies, (json_t *)(uintptr_t)entry->policy) != 0) return no_memory(err);
    }
    return SUCCESS;
}

/* What is too much or unreadable denies there, and nowhere else. */
static struct result compose(const struct policy_set *set, json_t *policies, struct place *place, struct error *err)
{
    struct error why = {0};

    if (policy_restrictions_digests(policies, &place->digests, &why).ok &&
        policy_restrictions_join(set, policies, &place->documents, &why).ok)
        return SUCCESS;
    if (why.kind == ERROR_NO_MEMORY) return failure(err, ERROR_NO_MEMORY, "%s", why.message);
    (void)snprintf(place->why, sizeof place->why, "%.127s", why.message);
    return SUCCESS;
}

NO_LEAK_BEGIN /* its last holder frees it */
    static struct result
    place_new(const struct policy_set *set, const struct span *span, struct place **place_out, struct error *err)
{
    OWNED(place) *place = memory_zeroed(1, sizeof *place);
    OWNED_JSON policies = json_array();

    if (place == NULL || policies == NULL) return no_memory(err);
    atomic_init(&place->holders, 1);
    place->signed_digests = memory_zeroed(span->until - span->from, sizeof *place->signed_digests);
    if (place->signed_digests == NULL) return no_memory(err);
    (void)snprintf(place->organisation, sizeof place->organisation, "%s",
                   restriction_entries_at(span->rules, span->from)->organisation);
    TRY(gather(set, span, place, policies, err));
    TRY(compose(set, policies, place, err));
    *place_out = GIVE(place);
    return SUCCESS;
}
NO_LEAK_END

static bool is_of(const struct place *place, const struct span *span)
{
    if (place == NULL || place->count != span->until - span->from) return false;
    for (size_t i = 0; i < place->count; i++)
        if (strcmp(place->signed_digests[i], restriction_entries_at(span->rules, span->from + i)->pinned.digest) != 0)
            return false;
    return true;
}

/* To compile a set takes long, and any signed document of the registry makes new rules. */
static struct result add_place(const struct span *span, const struct restricted *before, struct restricted *restricted,
                               struct error *err)
{
    struct place *same = NULL;

    if (before != NULL && before->set == restricted->set)
        same = find(before, restriction_entries_at(span->rules, span->from)->organisation);
    if (is_of(same, span)) (void)atomic_fetch_add(&same->holders, 1);
    else TRY(place_new(restricted->set, span, &same, err));
    restricted->places[restricted->count++] = same;
    return SUCCESS;
}

static size_t end_of(const struct trust_rules *rules, size_t from)
{
    size_t until = from + 1;

    while (until < restriction_entries_count(rules) &&
           strcmp(restriction_entries_at(rules, until)->organisation, restriction_entries_at(rules, from)->organisation) == 0)
        until++;
    return until;
}

struct result restricted_new(struct policy_set *set, const struct trust_rules *rules, const struct restricted *before,
                             struct restricted **restricted_out, struct error *err)
{
    const size_t count = restriction_entries_count(rules);

    *restricted_out = NULL;
    if (set == NULL || count == 0) return SUCCESS;
    OWNED(restricted) *restricted = memory_zeroed(1, sizeof *restricted);
    if (restricted == NULL) return no_memory(err);
    atomic_init(&restricted->holders, 1);
    restricted->set = policy_set_keep(set);
    restricted->places = memory_zeroed(count, sizeof(struct place *));
    if (restricted->places == NULL) return no_memory(err);
    for (size_t from = 0; from < count; from = end_of(rules, from)) {
        const struct span span = {rules, from, end_of(rules, from)};
        TRY(add_place(&span, before, restricted, err));
    }
    *restricted_out = GIVE(restricted);
    return SUCCESS;
}

/* ---- looking ---- */

struct result restricted_documents(const struct restricted *restricted, const struct policy_set *set, const char *scope,
                                   const struct policy_documents **documents_out, struct error *err)
{
    const struct place *place = find(restricted, scope);

    if (place != NULL && place->documents == NULL)
        return failure(err, ERROR_LIMIT, "the restrictions of the organisation can't be evaluated: %s", place->why);
    *documents_out = place == NULL ? policy_set_documents(set) : place->documents;
    return SUCCESS;
}

const char *restricted_digests(const struct restricted *restricted, const char *scope)
{
    const struct place *place = find(restricted, scope);

    return place == NULL || place->documents == NULL ? NULL : place->digests;
}

/* FNV-1a. Nobody gains by a collision: a look at what lies where then comes ten minutes later. */
int64_t restricted_mark(const struct restricted *restricted)
{
    uint64_t mark = 14695981039346656037U;

    if (restricted == NULL) return 0;
    for (size_t i = 0; i < restricted->count; i++) {
        const char *digests = restricted->places[i]->digests;
        for (; digests != NULL && *digests != '\0'; digests++) mark = (mark ^ (uint8_t)*digests) * 1099511628211U;
    }
    return (int64_t)(mark >> 1);
}
