#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "audit/permit_priv.h"
#include "base/memory.h"

static const char mark[] = "permit"; /* known by its address */

struct result permit_make(struct decision *decision, struct permit **permit_out, struct error *err)
{
    assert(decision->parts.verdict == VERDICT_ALLOW);
    struct permit *permit = memory_zeroed(1, sizeof *permit);

    if (permit == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a permit");
    permit->mark = mark;
    permit->decision = decision_hold(decision);
    *permit_out = permit;
    return SUCCESS;
}

static bool ids_agree(const struct uuid *a, const struct uuid *b)
{
    return uuid_is_nil(a) || uuid_is_nil(b) || uuid_equal(a, b);
}

static bool is_same_resource(const struct resource *a, const struct resource *b)
{
    return a->kind == b->kind && strcmp(a->name, b->name) == 0 && ids_agree(&a->organisation, &b->organisation) &&
           ids_agree(&a->project, &b->project) && ids_agree(&a->repository, &b->repository);
}

/* A mismatch means that code is about to do something that was not decided on, so the process must not continue. */
static _Noreturn void refuse(const struct permit *permit, enum action action, const char *name)
{
    (void)fprintf(stderr, "permit of event %llu does not allow %s on \"%s\": a bug; stopping\n",
                  (unsigned long long)permit->sequence, action_name(action), name);
    abort();
}

static const struct decision_parts *parts_of(const struct permit *permit, enum action action)
{
    if (permit != NULL && permit->mark == mark) return &permit->decision->parts;
    (void)fprintf(stderr, "there is %s for %s: a bug; stopping\n", permit == NULL ? "no permit" : "something else than a permit",
                  action_name(action));
    abort();
}

void permit_require(const struct permit *permit, enum action action, const struct resource *resource)
{
    const struct decision_parts *parts = parts_of(permit, action);

    for (size_t i = 0; i < parts->pair_count; i++)
        if (parts->pairs[i].action == action && is_same_resource(&parts->pairs[i].resource, resource)) return;
    refuse(permit, action, resource->name);
}

const struct resource *permit_resource(const struct permit *permit, enum action action)
{
    const struct decision_parts *parts = parts_of(permit, action);

    for (size_t i = 0; i < parts->pair_count; i++)
        if (parts->pairs[i].action == action) return &parts->pairs[i].resource;
    refuse(permit, action, "(any)");
}

void permit_require_detail(const struct permit *permit, enum action action, const char *detail)
{
    const char *allowed = permit_resource(permit, action)->detail;
    const size_t length = strlen(detail);

    if (length == 0 || strncmp(allowed, detail, length) != 0 || (allowed[length] != '\0' && allowed[length] != ' '))
        refuse(permit, action, detail);
}

static bool is_same_node(const struct uuid *above, const struct uuid *below)
{
    return !uuid_is_nil(above) && uuid_equal(above, below);
}

void permit_require_above(const struct permit *permit, enum action action, const struct resource *below)
{
    const struct resource *above = permit_resource(permit, action);

    if (above->kind == RESOURCE_SYSTEM) return;
    if (above->kind == RESOURCE_ORGANISATION && is_same_node(&above->organisation, &below->organisation)) return;
    if (above->kind == RESOURCE_PROJECT && is_same_node(&above->project, &below->project)) return;
    refuse(permit, action, below->name);
}

bool permit_has_use(const struct permit *permit, const uint8_t key[32])
{
    const struct decision_parts *parts = permit == NULL ? NULL : &permit->decision->parts;

    for (size_t i = 0; parts != NULL && i < parts->use_count; i++)
        if (memcmp(parts->uses[i].key, key, sizeof parts->uses[i].key) == 0) return true;
    return false;
}

uint64_t permit_sequence(const struct permit *permit)
{
    return permit->sequence;
}

uint64_t permit_epoch(const struct permit *permit)
{
    return permit->epoch;
}

void permit_free(struct permit *permit)
{
    if (permit != NULL) decision_free(permit->decision);
    free(permit);
}
