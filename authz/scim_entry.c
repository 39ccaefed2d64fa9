#include "authz/scim_entry.h"

#include <stdio.h>
#include <string.h>

#include "authz/trust_rules_priv.h"
#include "base/text.h"

/* sijil-keyd has pinned it, so it was sound. If this version demands more, it does not count. */
struct result scim_entries_add(void *context, const struct pinned_document *pinned, struct error *err)
{
    const struct document *document = pinned->document;
    struct trust_rules *rules = context;
    struct error refused = {0};
    struct scim_service service;

    if (document->is_withdrawn || rules->service_count == SCIM_ENTRIES_MAX) return SUCCESS;
    if (!scim_service_read(document, &service, &refused).ok)
        return refused.kind == ERROR_NO_MEMORY ? failure(err, ERROR_NO_MEMORY, "no memory for SCIM services") : SUCCESS;
    struct scim_entry *entry = &rules->services[rules->service_count++];
    (void)snprintf(entry->name, sizeof entry->name, "%.63s", document->name);
    entry->pinned = pinned_entry_of(pinned);
    entry->service = service;
    return SUCCESS;
}

void scim_entries_free(struct trust_rules *rules)
{
    for (size_t i = 0; i < rules->service_count; i++) json_decref(rules->services[i].pinned.json);
}

size_t scim_entries_count(const struct trust_rules *rules)
{
    return rules == NULL ? 0 : rules->service_count;
}

const struct scim_entry *scim_entries_at(const struct trust_rules *rules, size_t number)
{
    return &rules->services[number];
}

const struct scim_entry *scim_entry_of_issuer(const struct trust_rules *rules, const char *issuer, int64_t now_ms)
{
    for (size_t i = 0; i < scim_entries_count(rules); i++)
        if (pinned_entry_is_in_force(&rules->services[i].pinned, now_ms) &&
            strcmp(rules->services[i].service.issuer, issuer) == 0)
            return &rules->services[i];
    return NULL;
}

/* The next one after *at that names this principal as its client. */
static const struct scim_entry *next_of_client(const struct trust_rules *rules, const struct principal *principal, size_t *at)
{
    char key[PRINCIPAL_KEY_SIZE];

    if (scim_entries_count(rules) == 0 || principal->kind != PRINCIPAL_ROBOT) return NULL;
    principal_key(principal, key);
    while (*at < rules->service_count) {
        const struct scim_entry *entry = &rules->services[(*at)++];
        if (strcmp(entry->service.client, key) == 0) return entry;
    }
    return NULL;
}

const struct scim_entry *scim_entry_of_client(const struct trust_rules *rules, const struct principal *principal, int64_t now_ms)
{
    const struct scim_entry *entry;
    size_t at = 0;

    while ((entry = next_of_client(rules, principal, &at)) != NULL)
        if (pinned_entry_is_in_force(&entry->pinned, now_ms)) return entry;
    return NULL;
}

bool scim_entry_names(const struct trust_rules *rules, const struct principal *principal, int64_t now_ms)
{
    const struct scim_entry *entry;
    size_t at = 0;

    while ((entry = next_of_client(rules, principal, &at)) != NULL)
        if (now_ms < entry->pinned.expires_ms) return true;
    return false;
}

/* ---- persons ---- */

/* A service that has begun decides until it is withdrawn; of several of one issuer, one that refuses others is enough. */
static const struct scim_entry *deciding(const struct trust_rules *rules, const char *issuer, int64_t now_ms)
{
    const struct scim_entry *found = NULL;

    for (size_t i = 0; i < scim_entries_count(rules); i++) {
        const struct scim_entry *entry = &rules->services[i];
        if (entry->pinned.effective_ms > now_ms + PINNED_EARLY_MS || strcmp(entry->service.issuer, issuer) != 0) continue;
        if (found == NULL || found->service.admits_others) found = entry;
    }
    return found;
}

bool scim_admits(const struct authz_snapshot *snapshot, const char *issuer, const char *subject, int64_t now_ms)
{
    const struct scim_person *person = scim_persons_of_subject(authz_snapshot_persons(snapshot), issuer, subject);

    if (person != NULL) return person->is_active;
    const struct scim_entry *entry = deciding(authz_snapshot_rules(snapshot), issuer, now_ms);
    return entry == NULL || entry->service.admits_others;
}

/* `sijil` finds by the last words that another login does not help. */
static struct result not_active(const struct scim_person *person, struct error *err)
{
    return failure(err, ERROR_DENIED, "the directory of the token's issuer has %s: ask who keeps the directory",
                   person == NULL ? "not provisioned this person here" : "deactivated this person");
}

/* NULL with success: the person was never provisioned, and the service admits others. */
static struct result find_person(const struct scim_login *login, const struct scim_entry *entry, const char *external_id,
                                 const struct scim_person **person_out, struct error *err)
{
    const struct scim_persons *persons = authz_snapshot_persons(login->snapshot);
    const char *issuer = login->claims->issuer;
    const struct scim_person *known = scim_persons_of_subject(persons, issuer, login->claims->subject);
    const struct scim_person *found = external_id == NULL ? NULL : scim_persons_of_external(persons, issuer, external_id);

    if (known != NULL && external_id != NULL && strcmp(known->external_id, external_id) != 0)
        return failure(err, ERROR_DENIED, "the subject of the token belonged to another person: %s differs",
                       entry->service.claim);
    if (known == NULL && external_id == NULL) /* it may be of a person that was deactivated before its first login */
        return failure(err, ERROR_DENIED, "the token has no %s, which tells whose it is, and its subject is not known",
                       entry->service.claim);
    if (known != NULL) found = known;
    if (found != NULL ? !found->is_active : !entry->service.admits_others) return not_active(found, err);
    *person_out = found;
    return SUCCESS;
}

/* The token shows what no event tells yet. */
static bool is_to_tell(const struct scim_person *person, const char *external_id)
{
    return person->is_untold && external_id != NULL;
}

struct result scim_login(const struct scim_login *login, char external_id_out[SCIM_SERVICE_TEXT_SIZE], struct error *err)
{
    const struct scim_entry *entry = deciding(authz_snapshot_rules(login->snapshot), login->claims->issuer, login->now_ms);
    const struct scim_person *person = NULL;

    external_id_out[0] = '\0';
    if (entry == NULL) {
        person = scim_persons_of_subject(authz_snapshot_persons(login->snapshot), login->claims->issuer, login->claims->subject);
        return person == NULL || person->is_active ? SUCCESS : not_active(person, err);
    }
    if (!login->is_at_token)
        return failure(err, ERROR_DENIED, "a token of this issuer, whose persons are provisioned, is accepted at /token only");
    const char *external_id = json_string_value(claim_find(login->payload, entry->service.claim));
    TRY(find_person(login, entry, external_id, &person, err));
    if (person == NULL || (strcmp(person->subject, login->claims->subject) == 0 && !is_to_tell(person, external_id)))
        return SUCCESS;
    const bool is_linked =
        scim_persons_of_subject(authz_snapshot_persons(login->snapshot), login->claims->issuer, login->claims->subject) != NULL;
    if (!is_linked || is_to_tell(person, external_id))
        (void)text_copy(external_id_out, SCIM_SERVICE_TEXT_SIZE, person->external_id);
    return SUCCESS;
}
