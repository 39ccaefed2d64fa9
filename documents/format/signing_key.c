#include "documents/format/signing_key.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "crypto/digest.h"
#include "documents/format/document_priv.h"

#define PRINCIPAL_LETTERS "abcdefghijklmnopqrstuvwxyz0123456789:-"

static const char *const purposes[SIGNING_PURPOSES] = {[SIGNING_APPROVE] = "approve", [SIGNING_SIGN] = "sign"};

bool signing_purpose_find(const char *name, enum signing_purpose *purpose_out)
{
    for (enum signing_purpose purpose = 0; purpose < SIGNING_PURPOSES; purpose++)
        if (strcmp(purposes[purpose], name) == 0) {
            *purpose_out = purpose;
            return true;
        }
    return false;
}

void signing_key_name(const struct signing_key *key, char name_out[ECDSA_THUMBPRINT_SIZE])
{
    ecdsa_thumbprint(key->point, name_out);
}

bool signing_key_has_old(const struct signing_key *key)
{
    return key->replaces[0] != 0;
}

json_t *signing_key_body(const struct signing_key *key)
{
    char point[ECDSA_POINT_TEXT_SIZE], replaces[ECDSA_POINT_TEXT_SIZE];
    struct error ignored;

    if (!ecdsa_point_text(key->point, point, &ignored).ok) return NULL;
    if (signing_key_has_old(key) && !ecdsa_point_text(key->replaces, replaces, &ignored).ok) return NULL;
    return json_pack("{s:s, s:s, s:s, s:s*}", "principal", key->principal, "public_key", point, "purpose", purposes[key->purpose],
                     "replaces", signing_key_has_old(key) ? replaces : NULL);
}

static bool is_principal(const char *text)
{
    const size_t length = strlen(text);

    return length > 0 && length < SIGNING_PRINCIPAL_SIZE && text_consists_of(bytes_of_text(text), PRINCIPAL_LETTERS) &&
           (strncmp(text, "robot:", 6) == 0 || strncmp(text, "ext:", 4) == 0);
}

static struct result read_body(const struct document *document, struct signing_key *key, struct error *err)
{
    const char *principal = NULL, *point = NULL, *purpose = NULL, *replaces = NULL;

    TRY(document_unpack(json_object_get(document->json, "body"), "the body of a signing key", err, "{s:s, s:s, s:s, s?:s}",
                        "principal", &principal, "public_key", &point, "purpose", &purpose, "replaces", &replaces));
    if (!is_principal(principal)) return failure(err, ERROR_INVALID, "principal: robot:ID or ext:DIGEST");
    if (!signing_purpose_find(purpose, &key->purpose)) return failure(err, ERROR_INVALID, "purpose: approve or sign");
    TRY(document_read_point(document, point, key->point, err));
    if (replaces != NULL) TRY(document_read_key(replaces, key->replaces, err));
    (void)snprintf(key->principal, sizeof key->principal, "%s", principal);
    return SUCCESS;
}

struct result signing_key_read(const struct document *document, struct signing_key *key_out, struct error *err)
{
    struct signing_key key = {0};

    TRY(read_body(document, &key, err));
    TRY(document_check_life(document, err));
    *key_out = key;
    return SUCCESS;
}

/* Without a signature the name of the other key would say nothing. */
static struct result check_old(const struct document *document, const struct signing_key *key, struct error *err)
{
    bool has_signed = false;

    if (!signing_key_has_old(key)) return SUCCESS;
    TRY(document_is_signed_by(document, key->replaces, &has_signed, err));
    return has_signed ? SUCCESS : failure(err, ERROR_DENIED, "the key that the document names in \"replaces\" has not signed it");
}

/* An approver signs for all organisations. sijil-keyd keeps the approver's key, and knows no organisations. */
static struct result check_scope(const struct document *document, const struct signing_key *key, struct error *err)
{
    if (key->purpose != SIGNING_APPROVE || document->scope[0] == '\0') return SUCCESS;
    return failure(err, ERROR_INVALID, "a key of the purpose approve counts for the whole registry: leave its scope out");
}

struct result signing_key_check_holder(const struct document *document, int64_t now_ms, struct signing_key *key_out,
                                       struct error *err)
{
    struct signing_key key;
    bool has_signed = false;

    TRY(signing_key_read(document, &key, err));
    if (document->is_withdrawn) return failure(err, ERROR_INVALID, "this withdraws a signing key, and enrols none");
    TRY(check_scope(document, &key, err));
    TRY(document_check_time(document, now_ms, err));
    TRY(document_is_signed_by(document, key.point, &has_signed, err));
    if (!has_signed) return failure(err, ERROR_DENIED, "the key that is to be enrolled has not signed the document");
    TRY(check_old(document, &key, err));
    *key_out = key;
    return SUCCESS;
}

static void principal_digest(const struct signing_key *key, uint8_t digest_out[DOCUMENT_DIGEST_SIZE])
{
    sha256_of(bytes_of_text(key->principal), digest_out);
}

/*
 * Only the root approves a key that may approve, so approvers can't add further approvers. If the root is several persons, others sign with
 * it; its key then belongs to one of them, and does not approve that person's own keys.
 */
static struct result is_approved(const struct document *document, const struct document_trust *trust,
                                 const struct signing_key *key, bool *is_approved_out, struct error *err)
{
    uint8_t principal[DOCUMENT_DIGEST_SIZE];
    const struct document_own own = {key->point, principal};
    const bool appoints = key->purpose == SIGNING_APPROVE && !document->is_withdrawn;
    bool has_root = false;
    unsigned persons = 0;

    *is_approved_out = false;
    if (memcmp(key->point, trust->root, sizeof trust->root) == 0) return SUCCESS;
    principal_digest(key, principal);
    TRY(document_is_signed_by(document, trust->root, &has_root, err));
    TRY(document_count_persons(document, trust, &own, &persons, err));
    if (appoints) *is_approved_out = has_root && (document_root_is_one(trust) || persons >= trust->terms.officers);
    else *is_approved_out = persons > 0;
    return SUCCESS;
}

bool signing_key_approves(const struct document_approver approvers[DOCUMENT_APPROVERS_MAX],
                          const uint8_t point[ECDSA_PUBLIC_SIZE], const char *principal, int64_t now_ms)
{
    uint8_t owner[DOCUMENT_DIGEST_SIZE];

    sha256_of(bytes_of_text(principal), owner);
    for (size_t i = 0; i < DOCUMENT_APPROVERS_MAX; i++)
        if (document_approver_counts(&approvers[i], now_ms) && memcmp(approvers[i].point, point, ECDSA_PUBLIC_SIZE) == 0 &&
            memcmp(approvers[i].principal, owner, sizeof owner) == 0)
            return true;
    return false;
}

static const struct document_approver *known_approver(const struct document_trust *trust, const struct signing_key *key)
{
    for (size_t i = 0; i < DOCUMENT_APPROVERS_MAX; i++)
        if (memcmp(trust->approvers[i].point, key->point, sizeof key->point) == 0) return &trust->approvers[i];
    return NULL;
}

struct result signing_key_is_approved(const struct document *document, const struct document_trust *trust, bool *is_approved_out,
                                      struct error *err)
{
    struct signing_key key;

    TRY(signing_key_read(document, &key, err));
    return is_approved(document, trust, &key, is_approved_out, err);
}

/*
 * A withdrawal must repeat the purpose of the enrolment: with another purpose it would be pinned, and the approver would stay in
 * its slot. A withdrawal needs only a signature by the key itself, so holders of unknown keys could otherwise fill all slots.
 */
static struct result check_withdrawal(const struct document *document, const struct document_trust *trust,
                                      const struct signing_key *key, bool has_approval, struct error *err)
{
    const struct document_approver *approver = known_approver(trust, key);
    uint8_t principal[DOCUMENT_DIGEST_SIZE];

    if (!document->is_withdrawn) return SUCCESS;
    principal_digest(key, principal);
    if (approver != NULL && (key->purpose != SIGNING_APPROVE || memcmp(approver->principal, principal, sizeof principal) != 0))
        return failure(err, ERROR_INVALID, "a withdrawal names principal and purpose as the enrolment does");
    if (approver != NULL || key->purpose != SIGNING_APPROVE || has_approval || signing_key_has_old(key)) return SUCCESS;
    return failure(err, ERROR_DENIED, "this key does not approve: its holder has nothing to withdraw");
}

struct result document_check_signing_key(const struct document *document, const struct document_trust *trust, struct error *err)
{
    const unsigned needed = document_signers_needed(document);
    bool has_holder = false, has_approval = false;
    struct signing_key key;

    TRY(signing_key_read(document, &key, err));
    TRY(check_scope(document, &key, err));
    TRY(document_check_time(document, trust->now_ms, err));
    TRY(document_is_signed_by(document, key.point, &has_holder, err));
    if (!has_holder && !document->is_withdrawn)
        return failure(err, ERROR_DENIED, "the key that is to be enrolled has not signed the document");
    TRY(check_old(document, &key, err));
    has_holder = has_holder || (document->is_withdrawn && signing_key_has_old(&key)); /* sijil-keyd asks whether it waits */
    TRY(is_approved(document, trust, &key, &has_approval, err));
    const unsigned signers = (has_holder ? 1U : 0U) + (has_approval ? 1U : 0U);
    if (signers >= needed) return check_withdrawal(document, trust, &key, has_approval, err);
    if (document->is_withdrawn)
        return failure(err, ERROR_DENIED,
                       "the key itself, the root or an approver signs a withdrawal, and none of them has signed this one");
    return failure(err, ERROR_DENIED,
                   "%u signatures that count are needed, and there are %u: one must be another person's approval", needed,
                   signers);
}

/* What has expired keeps its place while there is an empty one: by it sijil-keyd knows that its owner's next key is another one. */
static struct document_approver *slot_of(const struct signing_key *key, struct document_approver *approvers, int64_t now_ms)
{
    struct document_approver *empty = NULL, *ended = NULL;

    for (size_t i = DOCUMENT_APPROVERS_MAX; i-- > 0;) {
        if (memcmp(approvers[i].point, key->point, sizeof key->point) == 0) return &approvers[i];
        if (approvers[i].point[0] == 0) empty = &approvers[i];
        else if (approvers[i].expires_ms <= now_ms) ended = &approvers[i];
    }
    return empty == NULL ? ended : empty;
}

struct result signing_key_note(const struct document *document, struct document_approver approvers[DOCUMENT_APPROVERS_MAX],
                               int64_t now_ms, struct error *err)
{
    struct document_approver approver = {.expires_ms = document->expires_ms, .is_revoked = document->is_withdrawn};
    struct signing_key key;

    TRY(signing_key_read(document, &key, err));
    if (key.purpose != SIGNING_APPROVE) return SUCCESS;
    struct document_approver *slot = slot_of(&key, approvers, now_ms);
    if (slot == NULL)
        return failure(err, ERROR_LIMIT, "there are %d approvers, live or revoked: one must expire first",
                       DOCUMENT_APPROVERS_MAX);
    const bool is_known = memcmp(slot->point, key.point, sizeof key.point) == 0;
    if (is_known && slot->is_revoked && !document->is_withdrawn) return failure(err, ERROR_DENIED, "this key was revoked");
    if (is_known && slot->expires_ms > approver.expires_ms) approver.expires_ms = slot->expires_ms;
    memcpy(approver.point, key.point, sizeof key.point);
    principal_digest(&key, approver.principal);
    *slot = approver;
    return SUCCESS;
}
