#include "authz/persons_entry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "authz/snapshot_priv.h"
#include "authz/trust_rules_priv.h"
#include "base/memory.h"

static const struct uuid registry;

static struct result no_memory(struct error *err)
{
    return failure(err, ERROR_NO_MEMORY, "no memory for documents of persons");
}

static struct result reserve(struct trust_rules *rules, struct error *err)
{
    if (rules->persons == NULL) rules->persons = memory_zeroed(PERSONS_ENTRIES_MAX, sizeof *rules->persons);
    return rules->persons == NULL ? no_memory(err) : SUCCESS;
}

/* sijil-keyd has pinned it, so it was sound. One that this version can't take would let subjects in that it keeps out: then no subject is known to be a person. */
static struct result refuse_all(struct trust_rules *rules)
{
    rules->persons_are_partial = true;
    return SUCCESS;
}

struct result persons_entries_add(void *context, const struct pinned_document *pinned, struct error *err)
{
    const struct document *document = pinned->document;
    struct trust_rules *rules = context;
    struct error refused = {0};
    struct persons_rule rule;

    if (document->is_withdrawn) return SUCCESS;
    if (rules->persons_count == PERSONS_ENTRIES_MAX) return refuse_all(rules);
    if (!persons_rule_read(document, &rule, &refused).ok)
        return refused.kind == ERROR_NO_MEMORY ? no_memory(err) : refuse_all(rules);
    TRY(reserve(rules, err));
    struct persons_entry *entry = &rules->persons[rules->persons_count++];
    (void)snprintf(entry->name, sizeof entry->name, "%.63s", document->name);
    entry->pinned = pinned_entry_of(pinned);
    entry->rule = rule;
    entry_place_init(&entry->place, strcmp(entry->name, PERSONS_REGISTRY) == 0);
    return SUCCESS;
}

void persons_entries_free(struct trust_rules *rules)
{
    for (size_t i = 0; i < rules->persons_count; i++) json_decref(rules->persons[i].pinned.json);
    free(rules->persons);
}

size_t persons_entries_count(const struct trust_rules *rules)
{
    return rules == NULL ? 0 : rules->persons_count;
}

const struct persons_entry *persons_entries_at(const struct trust_rules *rules, size_t number)
{
    return &rules->persons[number];
}

bool persons_entries_are_sound(const struct trust_rules *rules)
{
    return rules == NULL || (rules->kinds[DOCUMENT_PERSONS].is_sound && !rules->persons_are_partial);
}

bool persons_entries_name(const struct trust_rules *rules, const char *issuer, int64_t now_ms)
{
    for (size_t i = 0; i < persons_entries_count(rules); i++)
        if (pinned_entry_is_in_force(&rules->persons[i].pinned, now_ms) && strcmp(rules->persons[i].rule.issuer, issuer) == 0)
            return true;
    return false;
}

static const struct persons_entry *find(const struct trust_rules *rules, const struct uuid *organisation, int64_t now_ms)
{
    for (size_t i = 0; i < persons_entries_count(rules); i++) {
        const struct persons_entry *entry = &rules->persons[i];
        if (entry_place_is(&entry->place, organisation) && pinned_entry_is_in_force(&entry->pinned, now_ms)) return entry;
    }
    return NULL;
}

const struct persons_entry *persons_entry_of(const struct trust_rules *rules, const struct uuid *organisation, int64_t now_ms)
{
    const struct persons_entry *own = find(rules, organisation, now_ms);

    return own != NULL ? own : find(rules, &registry, now_ms);
}

static void list(const struct persons_entry *entry, struct persons_separated *separated)
{
    for (size_t i = 0; entry != NULL && i < entry->rule.separate_count && separated->count < PERSONS_SEPARATED_MAX; i++)
        (void)snprintf(separated->keys[separated->count++], PRINCIPAL_KEY_SIZE, "%s", entry->rule.separate[i]);
}

void persons_separated(const struct persons_scope *scope, struct persons_separated *separated_out)
{
    const struct trust_rules *rules = scope->snapshot->rules;

    separated_out->count = 0;
    if (!persons_entries_are_sound(rules)) return;
    list(find(rules, scope->organisation, scope->now_ms), separated_out);
    if (!uuid_is_nil(scope->organisation)) list(find(rules, &registry, scope->now_ms), separated_out);
}

static bool separates(const struct persons_entry *entry, const char *key)
{
    for (size_t i = 0; entry != NULL && i < entry->rule.separate_count; i++)
        if (strcmp(entry->rule.separate[i], key) == 0) return true;
    return false;
}

bool persons_entry_separates(const struct trust_rules *rules, const struct uuid *organisation, const char *key, int64_t now_ms)
{
    if (!persons_entries_are_sound(rules)) return false;
    return separates(find(rules, organisation, now_ms), key) || separates(find(rules, &registry, now_ms), key);
}
