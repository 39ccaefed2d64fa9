#include "authz/restriction_entry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "authz/trust_rules_priv.h"
#include "base/memory.h"

static struct result no_memory(struct error *err)
{
    return failure(err, ERROR_NO_MEMORY, "no memory for restrictions of organisations");
}

static struct result reserve(struct trust_rules *rules, struct error *err)
{
    const size_t capacity = rules->restriction_capacity == 0 ? 16 : 2 * rules->restriction_capacity;

    if (rules->restriction_count < rules->restriction_capacity) return SUCCESS;
    struct restriction_entry *entries = memory_zeroed(capacity, sizeof *entries);
    if (entries == NULL) return no_memory(err);
    for (size_t i = 0; i < rules->restriction_count; i++) entries[i] = rules->restrictions[i];
    free(rules->restrictions);
    rules->restrictions = entries;
    rules->restriction_capacity = capacity;
    return SUCCESS;
}

/* The view has them by scope and name. sijil-keyd has pinned it, so its form was sound; a policy that can't be read denies everything there (policy/decider/restricted.h). */
struct result restriction_entries_add(void *context, const struct pinned_document *pinned, struct error *err)
{
    const struct document *document = pinned->document;
    struct trust_rules *rules = context;

    if (document->is_withdrawn) return SUCCESS;
    TRY(reserve(rules, err));
    struct restriction_entry *entry = &rules->restrictions[rules->restriction_count++];
    (void)snprintf(entry->organisation, sizeof entry->organisation, "%.63s", document->scope);
    entry->pinned = pinned_entry_of(pinned);
    entry->policy = json_object_get(json_object_get(entry->pinned.json, "body"), "policy");
    return SUCCESS;
}

void restriction_entries_free(struct trust_rules *rules)
{
    for (size_t i = 0; i < rules->restriction_count; i++) json_decref(rules->restrictions[i].pinned.json);
    free(rules->restrictions);
}

size_t restriction_entries_count(const struct trust_rules *rules)
{
    return rules == NULL ? 0 : rules->restriction_count;
}

const struct restriction_entry *restriction_entries_at(const struct trust_rules *rules, size_t number)
{
    return &rules->restrictions[number];
}
