#include "authz/person.h"

#include <stdio.h>
#include <string.h>

#include "authz/persons_entry.h"
#include "authz/scim_entry.h"
#include "authz/snapshot_priv.h"
#include "authz/trust_login.h"
#include "base/text.h"

static const uint8_t no_issuer[PERSON_ISSUER_SIZE];

static bool is_one(const struct person *one, const struct person *other)
{
    if (strcmp(one->key, other->key) == 0) return true;
    return memcmp(one->provisioned, no_issuer, sizeof no_issuer) != 0 &&
           memcmp(one->provisioned, other->provisioned, sizeof no_issuer) == 0;
}

struct person person_new(const char *key, const char *issuer)
{
    struct person person = {.key = ""};
    uint8_t hash[SHA256_SIZE];

    (void)snprintf(person.key, sizeof person.key, "%s", key);
    if (issuer == NULL || issuer[0] == '\0') return person;
    sha256_of(bytes_of_text(issuer), hash);
    memcpy(person.issuer, hash, sizeof person.issuer);
    return person;
}

/* ---- sets ---- */

void persons_add(struct persons *persons, const struct person *person)
{
    for (size_t i = 0; i < persons->count; i++) {
        struct person *each = &persons->each[i];
        if (!is_one(each, person)) continue;
        if (memcmp(each->issuer, no_issuer, sizeof no_issuer) == 0) memcpy(each->issuer, person->issuer, sizeof each->issuer);
        return;
    }
    if (persons->count < PERSONS_MAX) persons->each[persons->count++] = *person;
    else persons->has_unknown = persons->cannot_tell = true;
}

void persons_add_text(struct persons *persons, struct bytes text)
{
    char key[PRINCIPAL_KEY_SIZE], issuer[256];
    struct bytes left = text;
    const struct bytes first = text_cut(&left, ' ');

    if (first.length >= sizeof key || left.length >= sizeof issuer || bytes_equal(first, bytes_of_text(PERSON_UNKNOWN)) ||
        first.length == 0) {
        persons->has_unknown = true;
        return;
    }
    (void)snprintf(key, sizeof key, "%.*s", (int)first.length, (const char *)first.data);
    (void)snprintf(issuer, sizeof issuer, "%.*s", (int)left.length, left.length == 0 ? "" : (const char *)left.data);
    const struct person person = person_new(key, issuer);
    persons_add(persons, &person);
}

void persons_add_lines(struct persons *persons, const char *lines)
{
    struct bytes left = bytes_of_text(lines);

    do persons_add_text(persons, text_cut(&left, '\n'));
    while (left.length > 0);
}

/* ---- today's documents ---- */

/* An issuer that makes pairwise subjects gives a person one for each client. SCIM knows by the externalId that they are one. */
static void find_provisioned(const struct persons_scope *scope, struct person *person)
{
    const struct scim_person *found = scim_persons_of_key(authz_snapshot_persons(scope->snapshot), person->key);
    char text[2 * SCIM_SERVICE_TEXT_SIZE];
    uint8_t hash[SHA256_SIZE];

    if (found == NULL) return;
    (void)snprintf(text, sizeof text, "%s\n%s", found->issuer, found->external_id);
    sha256_of(bytes_of_text(text), hash);
    memcpy(person->provisioned, hash, sizeof person->provisioned);
}

/* False: the document says that the persons come from another issuer. */
static bool is_person(const struct persons_scope *scope, struct person *person)
{
    const struct trust_rules *rules = scope->snapshot->rules;
    const struct persons_entry *entry = persons_entry_of(rules, scope->organisation, scope->now_ms);

    if (strcmp(person->key, PERSON_ADMINISTRATOR) == 0) return true;
    find_provisioned(scope, person);
    person->is_separate = persons_entry_separates(rules, scope->organisation, person->key, scope->now_ms);
    if (person->is_separate) return true;
    if (!persons_entries_are_sound(rules)) return false;
    if (entry == NULL) return true;
    const struct person of_issuer = person_new("", entry->rule.issuer);
    return memcmp(of_issuer.issuer, person->issuer, sizeof person->issuer) == 0;
}

struct persons persons_as_of_now(const struct persons_scope *scope, const struct persons *stored)
{
    struct persons now = {.has_unknown = stored->has_unknown || stored->count == 0, .cannot_tell = stored->cannot_tell};

    for (size_t i = 0; i < stored->count; i++) {
        struct person person = stored->each[i];
        if (is_person(scope, &person)) persons_add(&now, &person);
        else now.has_unknown = true;
    }
    return now;
}

/* ---- of principals ---- */

static struct persons just(const struct persons_scope *scope, const char *key, const char *issuer)
{
    const struct person person = person_new(key, issuer);
    struct persons persons = {.count = 0};

    persons_add(&persons, &person);
    return persons_as_of_now(scope, &persons);
}

static struct persons unknown(void)
{
    return (struct persons){.has_unknown = true};
}

struct persons persons_of(const struct persons_scope *scope, const struct principal *principal)
{
    char key[PRINCIPAL_KEY_SIZE];

    principal_key(principal, key);
    if (principal->kind == PRINCIPAL_EXTERNAL && !trust_is_rule(principal)) return just(scope, key, principal->issuer);
    if (principal->kind != PRINCIPAL_ROBOT) return unknown();
    const struct authz_robot *robot = authz_snapshot_robot(scope->snapshot, &principal->id);
    return robot == NULL ? unknown() : persons_as_of_now(scope, &robot->persons);
}

/* A key is a hash, so only a live role tells the issuer. */
static const char *issuer_of(const struct authz_snapshot *snapshot, const char *key)
{
    for (size_t i = 0; i < snapshot->part_count; i++) {
        const struct authz_binding *binding = part_binding_of_key(snapshot->parts[i], key);
        if (binding != NULL) return binding->issuer;
    }
    return "";
}

struct persons persons_of_key(const struct persons_scope *scope, const char *principal)
{
    struct principal robot = {.kind = PRINCIPAL_ROBOT};

    if (strncmp(principal, "ext:", 4) == 0) {
        const char *issuer = issuer_of(scope->snapshot, principal);
        return strcmp(issuer, TRUST_ISSUER) == 0 ? unknown() : just(scope, principal, issuer);
    }
    if (strncmp(principal, "robot:", 6) != 0 || !uuid_parse(bytes_of_text(principal + 6), &robot.id)) return unknown();
    return persons_of(scope, &robot);
}

/* ---- comparisons ---- */

bool persons_are_known(const struct persons *persons)
{
    return persons->count > 0 && !persons->has_unknown;
}

bool persons_are_one(const struct persons *persons)
{
    return persons_are_known(persons) && persons->count == 1;
}

static bool is_subject(const struct person *person)
{
    return strcmp(person->key, PERSON_ADMINISTRATOR) != 0;
}

/* The administrator of an embedded registry is no subject of an issuer, so no issuer gives it a second account. */
static bool is_another(const struct person *one, const struct person *other)
{
    if (is_one(one, other)) return false;
    if (!is_subject(one) || !is_subject(other) || one->is_separate || other->is_separate) return true;
    return memcmp(one->issuer, other->issuer, sizeof one->issuer) == 0 && memcmp(one->issuer, no_issuer, sizeof no_issuer) != 0;
}

bool persons_are_none_of(const struct persons *one, const struct persons *other)
{
    if (!persons_are_known(one) || other->cannot_tell) return false;
    for (size_t i = 0; i < one->count; i++)
        for (size_t k = 0; k < other->count; k++)
            if (!is_another(&one->each[i], &other->each[k])) return false;
    return true;
}

bool persons_are_others(const struct persons *one, const struct persons *other)
{
    return persons_are_known(other) && persons_are_none_of(one, other);
}

bool persons_meet(const struct persons *one, const struct persons *other)
{
    for (size_t i = 0; i < one->count; i++)
        for (size_t k = 0; k < other->count; k++)
            if (is_one(&one->each[i], &other->each[k])) return true;
    return false;
}
