#include <assert.h>
#include <string.h>

#include "audit/decision_priv.h"
#include "base/memory.h"

/* An event has ordinals under its organisation and its project, and its readers see them. A reader of one organisation
 * must not see ordinals of another. */
static bool is_of_one_organisation(const struct decision_parts *parts)
{
    const char *first = "";

    for (size_t i = 0; i < parts->pair_count; i++) {
        const char *name = parts->pairs[i].resource.name;
        const size_t length = strcspn(name, "/");
        if (first[0] == '\0') first = name;
        if (length > 0 && (length != strcspn(first, "/") || strncmp(name, first, length) != 0)) return false;
    }
    return true;
}

static size_t facts_length(const struct decision_parts *parts)
{
    size_t length = 0;

    for (size_t i = 0; i < parts->pair_count; i++) {
        assert((parts->facts[i].length > 0) == (parts->facts[0].length > 0));
        length += parts->facts[i].length;
    }
    return length;
}

static void keep_facts(struct decision *decision)
{
    uint8_t *destination = decision->facts_text;

    for (size_t i = 0; i < decision_facts_count(decision); i++) {
        struct bytes *facts = &decision->parts.facts[i];
        memcpy(destination, facts->data, facts->length);
        facts->data = destination;
        sha256_of(*facts, decision->facts_digests[i]);
        destination += facts->length;
    }
}

size_t decision_facts_count(const struct decision *decision)
{
    return decision->parts.facts[0].length > 0 ? decision->parts.pair_count : 0;
}

bool decision_is_of_server(const struct decision *decision)
{
    return decision->parts.epoch == EPOCH_OF_JOBS || decision->parts.is_of_server;
}

struct result decision_make(const struct decision_parts *parts, struct decision **decision_out, struct error *err)
{
    assert(parts->pair_count >= 1 && parts->pair_count <= ACTION_PAIRS_MAX && parts->denial_count <= DENIALS_MAX);
    assert((parts->verdict == VERDICT_ALLOW) == (parts->denial_count == 0));
    assert(is_of_one_organisation(parts));
    struct decision *decision = memory_zeroed(1, sizeof *decision + facts_length(parts));

    if (decision == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a decision");
    decision->parts = *parts;
    keep_facts(decision);
    atomic_init(&decision->holders, 1);
    *decision_out = decision;
    return SUCCESS;
}

struct decision *decision_hold(struct decision *decision)
{
    (void)atomic_fetch_add(&decision->holders, 1);
    return decision;
}

enum verdict decision_verdict(const struct decision *decision)
{
    return decision->parts.verdict;
}

const char *decision_id(const struct decision *decision)
{
    return decision->parts.id;
}

const char *decision_policy_digest(const struct decision *decision)
{
    return decision->parts.policy_digest;
}

uint64_t decision_epoch(const struct decision *decision)
{
    return decision->parts.epoch;
}

size_t decision_pair_count(const struct decision *decision)
{
    return decision->parts.pair_count;
}

const struct action_pair *decision_pair(const struct decision *decision, size_t index)
{
    assert(index < decision->parts.pair_count);
    return &decision->parts.pairs[index];
}

size_t decision_denial_count(const struct decision *decision)
{
    return decision->parts.denial_count;
}

const struct denial *decision_denial(const struct decision *decision, size_t index)
{
    assert(index < decision->parts.denial_count);
    return &decision->parts.denials[index];
}

void decision_free(struct decision *decision)
{
    if (decision != NULL && atomic_fetch_sub(&decision->holders, 1) == 1) free(decision);
}
