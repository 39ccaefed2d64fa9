#include "authz/group_entry.h"

#include <assert.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "authz/trust_rules_priv.h"
#include "base/memory.h"
#include "crypto/digest.h"

static struct result no_memory(struct error *err)
{
    return failure(err, ERROR_NO_MEMORY, "no memory for roles of groups");
}

static struct result reserve(struct trust_rules *rules, struct error *err)
{
    if (rules->groups == NULL) rules->groups = memory_zeroed(GROUP_ENTRIES_MAX, sizeof *rules->groups);
    return rules->groups == NULL ? no_memory(err) : SUCCESS;
}

/* sijil-keyd has pinned it, so it was sound. If this version demands more, it does not count. */
struct result group_entries_add(void *context, const struct pinned_document *pinned, struct error *err)
{
    const struct document *document = pinned->document;
    struct trust_rules *rules = context;
    struct error refused = {0};
    struct group_roles roles;

    if (document->is_withdrawn || rules->group_count == GROUP_ENTRIES_MAX) return SUCCESS;
    if (!group_roles_read(document, &roles, &refused).ok) return refused.kind == ERROR_NO_MEMORY ? no_memory(err) : SUCCESS;
    TRY(reserve(rules, err));
    struct group_entry *entry = &rules->groups[rules->group_count++];
    (void)snprintf(entry->name, sizeof entry->name, "%.63s", document->name);
    entry->pinned = pinned_entry_of(pinned);
    entry->roles = roles;
    return SUCCESS;
}

void group_entries_free(struct trust_rules *rules)
{
    for (size_t i = 0; i < rules->group_count; i++) json_decref(rules->groups[i].pinned.json);
    free(rules->groups);
}

const char *group_giver(const char *granted_by)
{
    if (strncmp(granted_by, GROUP_GIVER, sizeof GROUP_GIVER - 1) == 0) return granted_by + sizeof GROUP_GIVER - 1;
    return strncmp(granted_by, GROUP_GIVER_SCIM, sizeof GROUP_GIVER_SCIM - 1) == 0 ? granted_by + sizeof GROUP_GIVER_SCIM - 1
                                                                                   : NULL;
}

size_t group_entries_count(const struct trust_rules *rules)
{
    return rules == NULL ? 0 : rules->group_count;
}

const struct group_entry *group_entries_at(const struct trust_rules *rules, size_t number)
{
    return &rules->groups[number];
}

static struct group_entry *shared_of(const struct group_entry *entry)
{
    return (struct group_entry *)(uintptr_t)entry;
}

/* A place is always in the same organisation: one of its name that is made later is no place of this document. So its id is written once, by one of the threads
   that load a snapshot; it may go, and be there again for a thread with an older moment. */
void group_entry_place(const struct group_entry *entry, size_t grant, const struct uuid *organisation)
{
    struct group_entry *shared = shared_of(entry);
    unsigned expected = GROUP_UNPLACED;

    if (atomic_compare_exchange_strong(&shared->places[grant], &expected, GROUP_PLACING)) {
        shared->organisations[grant] = *organisation;
        atomic_store(&shared->places[grant], GROUP_PLACED);
        return;
    }
    while (atomic_load(&shared->places[grant]) == GROUP_PLACING) (void)sched_yield(); /* a copy of 16 bytes */
    atomic_store(&shared->places[grant], GROUP_PLACED);
}

void group_entry_forget(const struct group_entry *entry, size_t grant)
{
    unsigned expected = GROUP_PLACED;

    (void)atomic_compare_exchange_strong(&shared_of(entry)->places[grant], &expected, GROUP_GONE);
}

bool group_entry_is_placed(const struct group_entry *entry, size_t grant)
{
    return atomic_load(&entry->places[grant]) == GROUP_PLACED;
}

const struct uuid *group_entry_organisation(const struct group_entry *entry, size_t grant)
{
    assert(atomic_load(&entry->places[grant]) >= GROUP_PLACED);
    return &entry->organisations[grant];
}

struct uuid group_binding_id(const struct group_entry *entry, size_t grant, const char *subject)
{
    struct buffer OWNED_BUFFER text = BUFFER(4096);
    uint8_t hash[SHA256_SIZE];
    struct error ignored = {0};
    struct uuid id = {{0}};

    /* Without memory the id is nil, which no binding has twice: the rows are then refused, and read again. */
    if (!buffer_format(&text, &ignored, "group\n%s\n%s\n%zu\n%s", entry->name, entry->pinned.digest, grant, subject).ok)
        return id;
    sha256_of(buffer_bytes(&text), hash);
    memcpy(id.bytes, hash, sizeof id.bytes);
    return id;
}
