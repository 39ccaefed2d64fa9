#include "authz/officer_entry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "authz/trust_rules_priv.h"
#include "base/clock.h"
#include "base/memory.h"
#include "documents/format/signing_key.h"

static struct result no_memory(struct error *err)
{
    return failure(err, ERROR_NO_MEMORY, "no memory for documents of officers");
}

static struct result add(struct trust_rules *rules, const struct pinned_document *pinned, const struct officer *officer,
                         struct error *err)
{
    if (rules->officers == NULL) rules->officers = memory_zeroed(OFFICER_ENTRIES_MAX, sizeof *rules->officers);
    if (rules->officers == NULL) return no_memory(err);
    struct officer_entry *entry = &rules->officers[rules->officer_count++];
    (void)snprintf(entry->name, sizeof entry->name, "%.63s", pinned->document->name);
    entry->pinned = pinned_entry_of(pinned);
    entry->officer = *officer;
    entry_place_init(&entry->place, officer->on[0] == '\0');
    return SUCCESS;
}

/* sijil-keyd has pinned it, so it was sound. If this version demands more, it does not count. What has ended before now never counts again. */
struct result officer_entries_add(void *context, const struct pinned_document *pinned, struct error *err)
{
    const struct document *document = pinned->document;
    struct trust_rules *rules = context;
    struct error refused = {0};
    struct officer officer;

    if (officer_document_is_of(document, OFFICERS_ADMINISTRATORS)) rules->officers_are_demanded = true;
    if (document->is_withdrawn || document->expires_ms <= clock_wall_ms() || rules->officer_count == OFFICER_ENTRIES_MAX)
        return SUCCESS;
    if (!officer_read(document, &officer, &refused).ok) return refused.kind == ERROR_NO_MEMORY ? no_memory(err) : SUCCESS;
    return add(rules, pinned, &officer, err);
}

/* A withdrawal in one scope is one in all. The owner of a key never changes, and sijil-keyd has compared it. */
struct result officer_entries_note_key(void *context, const struct pinned_document *pinned, struct error *err)
{
    const struct document *key = pinned->document;
    struct trust_rules *rules = context;

    (void)err;
    for (size_t i = 0; i < rules->officer_count; i++) {
        struct officer_entry *entry = &rules->officers[i];
        if (strcmp(entry->officer.key, key->name) != 0) continue;
        entry->key_is_withdrawn = entry->key_is_withdrawn || key->is_withdrawn || key->is_withdrawn_elsewhere;
        if (entry->key_expires_ms < key->expires_ms) entry->key_expires_ms = key->expires_ms;
    }
    return SUCCESS;
}

void officer_entries_free(struct trust_rules *rules)
{
    for (size_t i = 0; i < rules->officer_count; i++) json_decref(rules->officers[i].pinned.json);
    free(rules->officers);
}

size_t officer_entries_count(const struct trust_rules *rules)
{
    return rules == NULL ? 0 : rules->officer_count;
}

const struct officer_entry *officer_entries_at(const struct trust_rules *rules, size_t number)
{
    return &rules->officers[number];
}

/* Where the database lacks documents, the view has the pin of none: only sijil-keyd knows that there are some. */
bool officers_are_demanded(const struct trust_rules *rules)
{
    return rules != NULL &&
           (rules->officers_are_demanded || (!rules->kinds[DOCUMENT_OFFICERS].is_sound && rules->officers_pinned != 0));
}

/* It counts from its approval on, also while `effective_from` is ahead of this machine's clock: the version before has ended already. */
static int64_t end_of(const struct officer_entry *entry)
{
    if (entry->key_is_withdrawn) return 0;
    return entry->pinned.expires_ms < entry->key_expires_ms ? entry->pinned.expires_ms : entry->key_expires_ms;
}

size_t officers_in_force(const struct trust_rules *rules, int64_t now_ms)
{
    size_t count = 0;

    for (size_t i = 0; i < officer_entries_count(rules); i++)
        if (now_ms < end_of(&rules->officers[i])) count++;
    return count;
}

static bool is_about(const struct officer_entry *entry, const char *principal, const struct authz_binding *binding)
{
    return strcmp(entry->officer.principal, principal) == 0 &&
           strcmp(entry->officer.role, role_name(binding_given(binding))) == 0 &&
           entry_place_is(&entry->place, &binding->organisation);
}

const struct officer_entry *officer_entry_of(const struct trust_rules *rules, const struct authz_binding *binding, int64_t now_ms)
{
    struct principal principal = {.kind = binding->kind, .id = binding->robot};
    const struct officer_entry *found = NULL;
    char key[PRINCIPAL_KEY_SIZE];

    if (officer_entries_count(rules) == 0 || !role_is_of_officers(binding_given(binding))) return NULL;
    (void)snprintf(principal.issuer, sizeof principal.issuer, "%s", binding->issuer);
    (void)snprintf(principal.subject, sizeof principal.subject, "%s", binding->subject);
    principal_key(&principal, key);
    for (size_t i = 0; i < rules->officer_count; i++) {
        const struct officer_entry *entry = &rules->officers[i];
        if (now_ms < end_of(entry) && (found == NULL || end_of(found) < end_of(entry)) && is_about(entry, key, binding))
            found = entry;
    }
    return found;
}

void officers_judge(const struct trust_rules *rules, struct authz_binding *binding, int64_t now_ms)
{
    if (!role_is_of_officers(binding->role) || !officers_are_demanded(rules)) return;
    const struct officer_entry *entry = officer_entry_of(rules, binding, now_ms);
    if (entry == NULL) {
        binding->is_unsigned = true;
        binding->bound_as = binding->role;
        binding->role = ROLE_UNSIGNED_OFFICER;
    } else if (binding->expires_ms == 0 || end_of(entry) < binding->expires_ms) {
        binding->expires_ms = end_of(entry);
    }
}
