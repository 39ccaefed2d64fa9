#include "policy/decider/restricted.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "authz/restriction_entry.h"
#include "base/memory.h"
#include "policy/decider/snapshot_priv.h"
#include "policy/restriction.h"

/* One organisation. */
struct place {
    const char *organisation;           /* a view of the rules */
    struct policy_documents *documents; /* NULL: they can't be evaluated together */
    char *digests;
    char why[128];
};

struct restricted {
    _Atomic unsigned holders;
    struct trust_rules *rules; /* kept */
    size_t count;
    struct place *places; /* sorted by organisation */
};

static struct result no_memory(struct error *err)
{
    return failure(err, ERROR_NO_MEMORY, "no memory for restrictions of organisations");
}

struct restricted *restricted_keep(struct restricted *restricted)
{
    if (restricted != NULL) (void)atomic_fetch_add(&restricted->holders, 1);
    return restricted;
}

void restricted_free(struct restricted *restricted)
{
    if (restricted == NULL || atomic_fetch_sub(&restricted->holders, 1) != 1) return;
    for (size_t i = 0; i < restricted->count; i++) {
        policy_documents_free(restricted->places[i].documents);
        free(restricted->places[i].digests);
    }
    free(restricted->places);
    trust_rules_free(restricted->rules);
    free(restricted);
}

/* ---- making ---- */

/* The entries [from, until) are those of one organisation. Of a deleted one of this name none counts. */
static struct result gather(const struct trust_rules *rules, size_t from, size_t until, const struct tenancy *tenancy,
                            json_t *policies, struct error *err)
{
    const struct tenant_organisation *organisation =
        tenancy_organisation(tenancy, restriction_entries_at(rules, from)->organisation);

    for (size_t i = from; i < until && organisation != NULL; i++) {
        const struct restriction_entry *entry = restriction_entries_at(rules, i);
        if (!entry_place_is(&entry->place, &organisation->id)) continue;
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

static struct result add_place(const struct policy_set *set, size_t from, size_t until, const struct tenancy *tenancy,
                               struct restricted *restricted, struct error *err)
{
    OWNED_JSON policies = json_array();
    struct place *place = &restricted->places[restricted->count];

    if (policies == NULL) return no_memory(err);
    TRY(gather(restricted->rules, from, until, tenancy, policies, err));
    if (json_array_size(policies) == 0) return SUCCESS;
    place->organisation = restriction_entries_at(restricted->rules, from)->organisation;
    restricted->count++;
    return compose(set, policies, place, err);
}

static size_t end_of(const struct trust_rules *rules, size_t from)
{
    size_t until = from + 1;

    while (until < restriction_entries_count(rules) &&
           strcmp(restriction_entries_at(rules, until)->organisation, restriction_entries_at(rules, from)->organisation) == 0)
        until++;
    return until;
}

struct result restricted_new(const struct policy_set *set, const struct trust_rules *rules, const struct tenancy *tenancy,
                             struct restricted **restricted_out, struct error *err)
{
    const size_t count = restriction_entries_count(rules);

    *restricted_out = NULL;
    if (set == NULL || count == 0) return SUCCESS;
    OWNED(restricted) *restricted = memory_zeroed(1, sizeof *restricted);
    if (restricted == NULL) return no_memory(err);
    atomic_init(&restricted->holders, 1);
    restricted->rules = trust_rules_keep(rules);
    restricted->places = memory_zeroed(count, sizeof *restricted->places);
    if (restricted->places == NULL) return no_memory(err);
    for (size_t from = 0; from < count; from = end_of(rules, from))
        TRY(add_place(set, from, end_of(rules, from), tenancy, restricted, err));
    *restricted_out = GIVE(restricted);
    return SUCCESS;
}

/* ---- looking ---- */

static const struct place *find(const struct restricted *restricted, const char *scope)
{
    const size_t length = strcspn(scope, "/");
    size_t low = 0, high = restricted == NULL ? 0 : restricted->count;

    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        const struct place *place = &restricted->places[middle];
        int order = strncmp(place->organisation, scope, length);
        if (order == 0 && place->organisation[length] != '\0') order = 1;
        if (order == 0) return place;
        if (order < 0) low = middle + 1;
        else high = middle;
    }
    return NULL;
}

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
