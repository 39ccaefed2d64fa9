/* The persons behind an act, with the signers of a trust rule, whom its document tells. */
#include <stdio.h>
#include <string.h>

#include "authz/persons_entry.h"
#include "authz/trust_login.h"
#include "base/clock.h"
#include "documents/approver_keys.h"
#include "policy/decider/decider_priv.h"

/* A rule whose signers are looked for. */
struct signed_rule {
    const struct persons_scope *scope;
    const struct approver_keys *approvers;
    uint64_t sequence; /* of the event of the version in force */
    struct persons persons;
};

static struct result note_signers(void *context, const struct pinned_document *pinned, struct error *err)
{
    struct signed_rule *rule = context;

    if (pinned->sequence != rule->sequence) return failure(err, ERROR_CONFLICT, "the rule has another version now");
    for (size_t i = 0; i < rule->approvers->count; i++) {
        const struct signing_key *key = &rule->approvers->keys[i];
        bool is_signed = false;
        TRY(document_is_signed_by(pinned->document, key->point, &is_signed, err));
        if (!is_signed) continue;
        const struct persons behind = persons_of_key(rule->scope, key->principal);
        for (size_t k = 0; k < behind.count; k++) persons_add(&rule->persons, &behind.each[k]);
    }
    return SUCCESS;
}

static struct result find_signers(struct document_view *view, const struct trust_entry *entry, struct signed_rule *rule,
                                  struct error *err)
{
    OWNED_APPROVER_KEYS approvers = APPROVER_KEYS;
    const char *name = strrchr(entry->key, ':') + 1;
    char scope[TRUST_KEY_SIZE];

    (void)snprintf(scope, sizeof scope, "%.*s", (int)(name - 1 - entry->key), entry->key);
    const struct document_scope any = {scope, 0};
    const struct view_range one = {DOCUMENT_TRUST_RULE, &any, name, 1};
    rule->approvers = &approvers;
    TRY(approver_keys_read(view, &approvers, err));
    return document_view_find(view, &one, note_signers, rule, err);
}

static const struct trust_entry *rule_of_key(const struct trust_rules *rules, const char *key)
{
    for (size_t i = 0; i < trust_rules_count(rules); i++) {
        struct principal subject = {.kind = PRINCIPAL_EXTERNAL, .issuer = TRUST_ISSUER};
        char other[PRINCIPAL_KEY_SIZE];
        (void)snprintf(subject.subject, sizeof subject.subject, "%s", trust_rules_at(rules, i)->key);
        principal_key(&subject, other);
        if (strcmp(other, key) == 0) return trust_rules_at(rules, i);
    }
    return NULL;
}

/* Nobody tells who has started the job, so the set is never complete. */
static struct persons of_rule(const struct decider *decider, const struct persons_scope *scope, const struct trust_entry *entry)
{
    struct signed_rule rule = {.scope = scope, .sequence = entry->pinned.sequence, .persons.has_unknown = true};
    struct error none = {0};

    if (decider->documents == NULL || !find_signers(decider->documents, entry, &rule, &none).ok) rule.persons.cannot_tell = true;
    return rule.persons;
}

struct persons decider_persons(struct decider *decider, const struct principal *principal, const struct uuid *organisation)
{
    OWNED(snapshot) *snapshot = decider_take(decider);
    const struct persons_scope scope = {snapshot->authz, organisation, clock_wall_ms()};

    return persons_of(&scope, principal);
}

struct persons decider_persons_of_key(struct decider *decider, const char *principal, const struct uuid *organisation)
{
    OWNED(snapshot) *snapshot = decider_take(decider);
    const struct persons_scope scope = {snapshot->authz, organisation, clock_wall_ms()};
    const struct trust_entry *rule =
        strncmp(principal, "ext:", 4) == 0 ? rule_of_key(authz_snapshot_rules(snapshot->authz), principal) : NULL;

    return rule == NULL ? persons_of_key(&scope, principal) : of_rule(decider, &scope, rule);
}

struct persons decider_persons_now(struct decider *decider, const struct persons *stored, const struct uuid *organisation)
{
    OWNED(snapshot) *snapshot = decider_take(decider);
    const struct persons_scope scope = {snapshot->authz, organisation, clock_wall_ms()};

    return persons_as_of_now(&scope, stored);
}

bool decider_persons_come_from(struct decider *decider, const char *issuer)
{
    OWNED(snapshot) *snapshot = decider_take(decider);

    return persons_entries_name(authz_snapshot_rules(snapshot->authz), issuer, clock_wall_ms());
}

void decider_separated(struct decider *decider, const struct uuid *organisation, struct persons_separated *separated_out)
{
    OWNED(snapshot) *snapshot = decider_take(decider);
    const struct persons_scope scope = {snapshot->authz, organisation, clock_wall_ms()};

    persons_separated(&scope, separated_out);
}

struct token_demand decider_token_demand(struct decider *decider, const struct uuid *organisation, int64_t now_ms)
{
    OWNED(snapshot) *snapshot = decider_take(decider);

    return token_demand_of(authz_snapshot_rules(snapshot->authz), organisation, now_ms);
}

unsigned decider_shortest_token(struct decider *decider, int64_t now_ms)
{
    OWNED(snapshot) *snapshot = decider_take(decider);

    return token_demand_shortest(authz_snapshot_rules(snapshot->authz), now_ms);
}
