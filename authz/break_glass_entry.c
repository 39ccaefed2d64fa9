#include "authz/break_glass_entry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "authz/trust_rules_priv.h"
#include "base/clock.h"
#include "base/memory.h"

static struct result no_memory(struct error *err)
{
    return failure(err, ERROR_NO_MEMORY, "no memory for broken glasses");
}

/* sijil-keyd has pinned it, so it was sound. If this version demands more, it does not count. What has ended before now never counts again. */
struct result glass_entries_add(void *context, const struct pinned_document *pinned, struct error *err)
{
    const struct document *document = pinned->document;
    struct trust_rules *rules = context;
    struct error refused = {0};
    struct break_glass glass;

    if (break_glass_has_ended(document, clock_wall_ms()) || rules->glass_count == GLASS_ENTRIES_MAX) return SUCCESS;
    if (!break_glass_read(document, &glass, &refused).ok) return refused.kind == ERROR_NO_MEMORY ? no_memory(err) : SUCCESS;
    if (rules->glasses == NULL) rules->glasses = memory_zeroed(GLASS_ENTRIES_MAX, sizeof *rules->glasses);
    if (rules->glasses == NULL) return no_memory(err);
    struct glass_entry *entry = &rules->glasses[rules->glass_count++];
    (void)snprintf(entry->name, sizeof entry->name, "%.63s", document->name);
    entry->pinned = pinned_entry_of(pinned);
    entry->glass = glass;
    return SUCCESS;
}

void glass_entries_free(struct trust_rules *rules)
{
    for (size_t i = 0; i < rules->glass_count; i++) json_decref(rules->glasses[i].pinned.json);
    free(rules->glasses);
}

const char *glass_giver(const char *granted_by)
{
    return strncmp(granted_by, GLASS_GIVER, sizeof GLASS_GIVER - 1) == 0 ? granted_by + sizeof GLASS_GIVER - 1 : NULL;
}

size_t glass_entries_count(const struct trust_rules *rules)
{
    return rules == NULL ? 0 : rules->glass_count;
}

const struct glass_entry *glass_entries_at(const struct trust_rules *rules, size_t number)
{
    return &rules->glasses[number];
}
