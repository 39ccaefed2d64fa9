#include "authz/trust_login.h"

#include <stdio.h>
#include <string.h>

#include "authz/scim_entry.h"
#include "base/json.h"

bool trust_is_rule(const struct principal *principal)
{
    return principal->kind == PRINCIPAL_EXTERNAL && strcmp(principal->issuer, TRUST_ISSUER) == 0;
}

static bool entry_is_live(const struct authz_snapshot *snapshot, const struct trust_entry *entry, int64_t now_ms)
{
    return pinned_entry_is_in_force(&entry->pinned, now_ms) && authz_snapshot_issuer(snapshot, entry->rule.issuer) != NULL;
}

bool trust_rule_is_live(const struct authz_snapshot *snapshot, const char *key, int64_t now_ms)
{
    const struct trust_entry *entry = trust_rules_find(authz_snapshot_rules(snapshot), key);

    return entry != NULL && entry_is_live(snapshot, entry, now_ms);
}

/* A rule of a deleted organisation has no role left, and must not match in place of others. */
static bool has_role(const struct authz_snapshot *snapshot, const struct trust_entry *entry, int64_t now_ms)
{
    struct principal principal = {.kind = PRINCIPAL_EXTERNAL, .issuer = TRUST_ISSUER};

    (void)snprintf(principal.subject, sizeof principal.subject, "%s", entry->key);
    return authz_snapshot_has_role(snapshot, &principal, now_ms);
}

static const struct trust_entry *next_match(const struct trust_login *login, size_t *at)
{
    const struct trust_rules *rules = authz_snapshot_rules(login->snapshot);
    const struct trust_entry *entry = NULL;

    do entry = trust_rules_match(rules, login->payload, login->now_ms, at);
    while (entry != NULL && !has_role(login->snapshot, entry, login->now_ms));
    return entry;
}

/* One that is to come gives its role from then on. */
bool trust_rule_meets_another(const struct authz_snapshot *snapshot, const struct trust_rule *rule, const char *scope,
                              int64_t now_ms)
{
    const struct trust_entry *entry = NULL;
    size_t at = 0;

    while ((entry = trust_rules_meeting(authz_snapshot_rules(snapshot), rule, scope, now_ms, &at)) != NULL)
        if (has_role(snapshot, entry, entry->pinned.effective_ms > now_ms ? entry->pinned.effective_ms : now_ms)) return true;
    return false;
}

static struct result choose(const struct trust_login *login, const struct trust_entry **entry_out, struct error *err)
{
    size_t at = 0;
    const struct trust_entry *first = next_match(login, &at);
    const struct trust_entry *second = first == NULL ? NULL : next_match(login, &at);

    if (second != NULL && second->rule.priority == first->rule.priority)
        return failure(err, ERROR_DENIED,
                       "the trust rules %.60s and %.60s both match, with one priority: give them different ones", first->key,
                       second->key);
    *entry_out = first;
    return SUCCESS;
}

static struct result check_client(const struct trust_entry *entry, const struct sockaddr *client, const char *thumbprint,
                                  struct error *err)
{
    if (trust_rule_permits_client(&entry->rule, client, thumbprint)) return SUCCESS;
    return failure(err, ERROR_DENIED, "the trust rule %.100s is for other networks, or for another client certificate",
                   entry->key);
}

static struct result check_use(const struct trust_login *login, const struct trust_entry *entry, bool is_at_token,
                               struct error *err)
{
    if (!is_at_token)
        return failure(err, ERROR_DENIED, "a trust rule matches this token, so only /token takes it: exchange it there");
    TRY(check_client(entry, login->client, login->thumbprint, err));
    if (!entry->rule.single_use || login->claims->id != NULL) return SUCCESS;
    return failure(err, ERROR_DENIED, "the trust rule %.100s lets a token be used once, and this one has no jti", entry->key);
}

/* A value with a fraction, or a text that is too long, leaves it "". */
static void keep_claims(const struct trust_login *login, struct trust_use *use)
{
    struct buffer OWNED_BUFFER text = BUFFER(TRUST_CLAIMS_SIZE - 1);
    struct error ignored = {0};

    if (!json_write_canonical(&text, login->payload, &ignored).ok) return;
    memcpy(use->claims, text.data, text.length);
    use->claims[text.length] = '\0';
}

static void fill_use(const struct trust_login *login, const struct trust_entry *entry, struct trust_use *use)
{
    struct buffer OWNED_BUFFER text = BUFFER(JWS_SIZE_MAX);
    struct error ignored = {0};

    *use = (struct trust_use){.ttl_max_s = entry->rule.ttl_max_s, .single_use = entry->rule.single_use};
    (void)snprintf(use->key, sizeof use->key, "%s", entry->key);
    (void)snprintf(use->digest, sizeof use->digest, "%s", entry->pinned.digest);
    use->spent_until_ms = (login->claims->expires_s + CLAIMS_SKEW_S + TRUST_SPENT_MORE_S) * 1000;
    (void)buffer_format(&text, &ignored, "%s\n%s", login->claims->issuer, login->claims->id == NULL ? "" : login->claims->id).ok;
    sha256_of(buffer_bytes(&text), use->spent);
    keep_claims(login, use);
}

static void fill_principal(const struct trust_entry *entry, struct principal *principal)
{
    (void)snprintf(principal->issuer, sizeof principal->issuer, "%s", TRUST_ISSUER);
    (void)snprintf(principal->subject, sizeof principal->subject, "%s", entry->key);
    if (entry->pinned.expires_ms < principal->expires_ms) principal->expires_ms = entry->pinned.expires_ms;
}

/* Groups that the token names anew are sealed beside the event, with the rest of its claims. */
static struct result log_in_person(const struct trust_login *login, struct trust_use *use, struct error *err)
{
    const struct group_login person = {login->snapshot, login->payload, login->claims, login->now_ms, login->is_undated};

    const struct scim_login entering = {login->snapshot, login->payload, login->claims, login->now_ms, use != NULL};
    char external_id[SCIM_SERVICE_TEXT_SIZE];

    TRY(scim_login(&entering, external_id, err));
    TRY(group_login(&person, use == NULL ? NULL : &use->groups, err));
    if (use == NULL) return SUCCESS;
    group_login_link(&person, external_id, &use->groups);
    if (group_use_changes(&use->groups)) keep_claims(login, use);
    return SUCCESS;
}

struct result trust_login(const struct trust_login *login, struct principal *principal, struct trust_use *use, struct error *err)
{
    const struct trust_entry *entry = NULL;

    TRY(choose(login, &entry, err));
    if (entry == NULL) {
        TRY(log_in_person(login, use, err));
        principal->is_joining = use != NULL && use->groups.external_id[0] != '\0';
        return SUCCESS;
    }
    TRY(check_use(login, entry, use != NULL, err));
    fill_use(login, entry, use);
    fill_principal(entry, principal);
    return SUCCESS;
}

struct result trust_resume(const struct trust_resumption *resumption, struct error *err)
{
    const struct trust_entry *entry = trust_rules_find(authz_snapshot_rules(resumption->snapshot), resumption->key);

    if (entry == NULL || !entry_is_live(resumption->snapshot, entry, resumption->now_ms))
        return failure(err, ERROR_DENIED,
                       "the trust rule behind this token was withdrawn or has expired, or its issuer is not trusted");
    return check_client(entry, resumption->client, resumption->thumbprint, err);
}
