#include "documents/format/restriction.h"

#include <string.h>

#include "base/json.h"
#include "base/text.h"
#include "crypto/digest.h"
#include "documents/format/document_priv.h"
#include "documents/format/signing_key.h"

#define EARLY_MS     60000 /* difference between the clocks of a person's machine and keyd's */
#define NAME_LETTERS "abcdefghijklmnopqrstuvwxyz0123456789._-"

/* ---- the policy ---- */

/* "acme" and "/": what a scope begins with; "acme" and ".": an id. */
static bool begins_with(const char *text, const char *organisation, char mark)
{
    const size_t length = strlen(organisation);

    return text != NULL && strncmp(text, organisation, length) == 0 && text[length] == mark && text[length + 1] != '\0';
}

static bool is_within(const json_t *scopes, const char *organisation)
{
    for (size_t i = 0; i < json_array_size(scopes); i++)
        if (!begins_with(json_string_value(json_array_get(scopes, i)), organisation, '/')) return false;
    return json_array_size(scopes) > 0;
}

static bool only_restricts(const json_t *policy)
{
    const json_t *rules = json_object_get(policy, "rules");

    for (size_t i = 0; i < json_array_size(rules); i++) {
        const char *effect = json_text_of(json_array_get(rules, i), "effect");
        if (effect == NULL || (strcmp(effect, "require") != 0 && strcmp(effect, "deny") != 0)) return false;
    }
    return json_array_size(rules) > 0 && json_is_false(json_object_get(policy, "closed"));
}

static bool has_what_reaches_further(const json_t *policy)
{
    return json_object_get(policy, "labels") != NULL || json_object_get(policy, "exception_types") != NULL ||
           json_object_get(json_object_get(policy, "metadata"), "applies_to_labels") != NULL;
}

struct result restriction_check_policy(const json_t *policy, const char *organisation, struct error *err)
{
    const json_t *metadata = json_object_get(policy, "metadata");
    const char *stated = json_text_of(metadata, "organisation");

    if (stated == NULL || strcmp(stated, organisation) != 0 || organisation[0] == '\0' ||
        !text_consists_of(bytes_of_text(organisation), NAME_LETTERS))
        return failure(err, ERROR_INVALID, "policy.metadata.organisation: the organisation whose officers sign the policy");
    if (!is_within(json_object_get(metadata, "scope"), organisation))
        return failure(err, ERROR_INVALID,
                       "policy.metadata.scope: a policy of an organisation is about names that begin with %.63s/", organisation);
    if (!begins_with(json_text_of(metadata, "id"), organisation, '.'))
        return failure(err, ERROR_INVALID,
                       "policy.metadata.id: that of an organisation's policy begins with its name and a dot: %.63s.NAME",
                       organisation);
    if (only_restricts(policy) && !has_what_reaches_further(policy)) return SUCCESS;
    return failure(
        err, ERROR_INVALID,
        "a policy of an organisation only restricts: \"closed\" is false, its rules are of require and deny, and it has neither "
        "labels, nor applies_to_labels, nor exception_types");
}

/* ---- the document ---- */

static struct result check_head(const struct document *document, struct error *err)
{
    if (document->scope[0] == '\0' || strchr(document->scope, '/') != NULL)
        return failure(err, ERROR_INVALID, "the scope of a restriction is an organisation");
    if (strlen(document->name) > RESTRICTION_NAME_MAX || !text_consists_of(bytes_of_text(document->name), NAME_LETTERS))
        return failure(err, ERROR_INVALID,
                       "the name of a restriction is the id of its policy, at most %d small letters, digits, '.', '_' and '-'",
                       RESTRICTION_NAME_MAX);
    if (document->expires_ms == 0) return SUCCESS;
    return failure(err, ERROR_INVALID, "a restriction has no end: withdraw it when it shall count no more");
}

struct result restriction_read(const struct document *document, const json_t **policy_out, struct error *err)
{
    const json_t *policy = NULL;
    const char *plan = NULL;
    struct digest digest;

    TRY(check_head(document, err));
    TRY(document_unpack(json_object_get(document->json, "body"), "the body of a restriction", err, "{s:o, s?:s}", "policy",
                        &policy, "plan", &plan));
    if (plan != NULL) TRY(digest_parse(bytes_of_text(plan), &digest, err));
    TRY(restriction_check_policy(policy, document->scope, err));
    if (strcmp(json_text_of(json_object_get(policy, "metadata"), "id"), document->name) != 0)
        return failure(err, ERROR_INVALID, "the name of a restriction is the id of its policy");
    *policy_out = policy;
    return SUCCESS;
}

/* Without an end, and a withdrawal signed a week ago may have been meant for an earlier version. */
static struct result check_time(const struct document *document, int64_t now_ms, struct error *err)
{
    if (document->effective_ms > now_ms + EARLY_MS)
        return failure(err, ERROR_DENIED, "the document is from the future: look at the clock");
    if (now_ms - document->effective_ms <= SIGNING_KEY_WAIT_MS) return SUCCESS;
    return failure(err, ERROR_DENIED, "the first officer signed more than a week ago: sign and approve it anew");
}

struct result document_check_restriction(const struct document *document, const struct document_trust *trust, struct error *err)
{
    const json_t *policy = NULL;

    TRY(check_head(document, err));
    if (document->is_withdrawn) TRY(document_check_empty(document, "a restriction", err));
    else TRY(restriction_read(document, &policy, err));
    return check_time(document, trust->now_ms, err);
}

/* ---- who has signed ---- */

unsigned restriction_needs(const struct document *document, const struct restriction_officers *officers, bool is_first)
{
    return officers->number + (is_first && !document->is_withdrawn ? 0 : 1);
}

static bool is_counted(const struct restriction_officers *officers, const bool *has_signed, size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (has_signed[i] && memcmp(officers->each[i].principal, officers->each[at].principal, DOCUMENT_DIGEST_SIZE) == 0)
            return true;
    return false;
}

struct result restriction_count(const struct document *document, const struct restriction_officers *officers,
                                unsigned *persons_out, struct error *err)
{
    bool has_signed[RESTRICTION_OFFICERS_MAX] = {false};
    unsigned persons = 0;

    for (size_t i = 0; i < officers->count; i++) {
        TRY(document_is_signed_by(document, officers->each[i].point, &has_signed[i], err));
        if (has_signed[i] && !is_counted(officers, has_signed, i)) persons++;
    }
    *persons_out = persons;
    return SUCCESS;
}

struct result restriction_check_signers(const struct document *document, const struct restriction_officers *officers,
                                        bool is_first, struct error *err)
{
    const unsigned needed = restriction_needs(document, officers, is_first);
    unsigned persons = 0;

    TRY(restriction_count(document, officers, &persons, err));
    if (persons >= needed) return SUCCESS;
    return failure(err, ERROR_DENIED,
                   "%s of the organisation %.63s needs the signatures of %u of its security officers, and has %u",
                   document->is_withdrawn ? "the end of a restriction" : "a restriction", document->scope, needed, persons);
}
