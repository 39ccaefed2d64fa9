#include <string.h>

#include "base/text.h"
#include "documents/format/document_priv.h"
#include "documents/format/signing_key.h"

#define EARLY_MS 60000 /* difference between the clocks of a person's machine and keyd's */
#define DAY_MS   86400000

#define ISSUER_MAX    255 /* bytes: as long as a trusted issuer can have */
#define SCHEME        "https://"
#define SCHEME_LENGTH (sizeof SCHEME - 1)

static document_checker *const checkers[DOCUMENT_KIND_COUNT] = {
#define KIND(constant, number, name, type, bytes, signers, action, withdrawers, withdrawal, head, check) [constant] = check,
#include "documents/format/kinds.def"
#undef KIND
};

unsigned document_signers_needed(const struct document *document)
{
    const struct document_kind_row *row = document_kind(document->kind);

    return document->is_withdrawn ? row->withdrawers : row->signers;
}

bool document_approver_counts(const struct document_approver *approver, int64_t now_ms)
{
    return approver->point[0] != 0 && !approver->is_revoked && approver->expires_ms > now_ms;
}

static bool counts(const struct document_approver *approver, const struct document_own *but, int64_t now_ms)
{
    return document_approver_counts(approver, now_ms) && memcmp(approver->point, but->point, sizeof approver->point) != 0 &&
           memcmp(approver->principal, but->principal, sizeof approver->principal) != 0;
}

/* Several keys of one person count once. */
static bool is_counted(const struct document_trust *trust, const bool signers[DOCUMENT_APPROVERS_MAX], size_t at)
{
    for (size_t i = 0; i < at; i++)
        if (signers[i] && memcmp(trust->approvers[i].principal, trust->approvers[at].principal, DOCUMENT_DIGEST_SIZE) == 0)
            return true;
    return false;
}

struct result document_count_approvers(const struct document *document, const struct document_trust *trust,
                                       const struct document_own *but, unsigned *count_out, struct error *err)
{
    bool signers[DOCUMENT_APPROVERS_MAX] = {false};
    unsigned count = 0;

    for (size_t i = 0; i < DOCUMENT_APPROVERS_MAX; i++) {
        if (counts(&trust->approvers[i], but, trust->now_ms))
            TRY(document_is_signed_by(document, trust->approvers[i].point, &signers[i], err));
        if (signers[i] && !is_counted(trust, signers, i)) count++;
    }
    *count_out = count;
    return SUCCESS;
}

/* Whether the holder of the root's key has signed with an approver's key as well, or is the one whose approval does not count. */
static struct result is_counted_already(const struct document *document, const struct document_trust *trust,
                                        const struct document_own *but, bool *is_counted_out, struct error *err)
{
    const uint8_t *holder = trust->terms.holder;
    bool is_signed = memcmp(holder, but->principal, DOCUMENT_DIGEST_SIZE) == 0 && trust->terms.root > 1;

    for (size_t i = 0; i < DOCUMENT_APPROVERS_MAX && !is_signed; i++) {
        const struct document_approver *approver = &trust->approvers[i];
        if (counts(approver, but, trust->now_ms) && memcmp(approver->principal, holder, DOCUMENT_DIGEST_SIZE) == 0)
            TRY(document_is_signed_by(document, approver->point, &is_signed, err));
    }
    *is_counted_out = is_signed;
    return SUCCESS;
}

struct result document_count_persons(const struct document *document, const struct document_trust *trust,
                                     const struct document_own *but, unsigned *count_out, struct error *err)
{
    bool has_root = false, is_counted = false;
    unsigned persons = 0;

    TRY(document_count_approvers(document, trust, but, &persons, err));
    TRY(document_is_signed_by(document, trust->root, &has_root, err));
    TRY(is_counted_already(document, trust, but, &is_counted, err));
    *count_out = has_root && !is_counted ? persons + 1 : persons;
    return SUCCESS;
}

struct result document_check_time(const struct document *document, int64_t now_ms, struct error *err)
{
    if (document->effective_ms > now_ms + EARLY_MS)
        return failure(err, ERROR_DENIED, "the document is from the future: look at the clock");
    if (document->expires_ms <= now_ms) return failure(err, ERROR_DENIED, "the document has expired");
    if (!document->is_withdrawn && now_ms - document->effective_ms > SIGNING_KEY_WAIT_MS)
        return failure(err, ERROR_DENIED, "the holder signed more than a week ago: sign and approve it anew");
    return SUCCESS;
}

struct result document_check_life(const struct document *document, struct error *err)
{
    if (document->version != (document->is_withdrawn ? 2U : 1U))
        return failure(err, ERROR_INVALID, "version 1 enrols a key, version 2 withdraws it");
    if (document->expires_ms == 0 || document->expires_ms - document->effective_ms > (int64_t)SIGNING_KEY_DAYS_MAX * DAY_MS)
        return failure(err, ERROR_INVALID, "a key expires, within %d days", SIGNING_KEY_DAYS_MAX);
    return SUCCESS;
}

struct result document_read_key(const char *text, uint8_t point_out[ECDSA_PUBLIC_SIZE], struct error *err)
{
    OWNED(ecdsa_key) *key = NULL;
    uint8_t point[ECDSA_PUBLIC_SIZE];

    if (!text_from_base64_exactly(BASE64_URL, bytes_of_text(text), point, sizeof point))
        return failure(err, ERROR_INVALID, "public_key: base64url of an uncompressed point of P-256");
    TRY(ecdsa_key_from_public(point, &key, err));
    memcpy(point_out, point, sizeof point);
    return SUCCESS;
}

struct result document_read_point(const struct document *document, const char *text, uint8_t point_out[ECDSA_PUBLIC_SIZE],
                                  struct error *err)
{
    uint8_t point[ECDSA_PUBLIC_SIZE];
    char name[ECDSA_THUMBPRINT_SIZE];

    TRY(document_read_key(text, point, err));
    ecdsa_thumbprint(point, name);
    if (strcmp(name, document->name) != 0)
        return failure(err, ERROR_INVALID, "the name of a key's document is its RFC 7638 thumbprint");
    memcpy(point_out, point, sizeof point);
    return SUCCESS;
}

struct result document_check_empty(const struct document *document, const char *what, struct error *err)
{
    if (json_object_size(json_object_get(document->json, "body")) == 0) return SUCCESS;
    return failure(err, ERROR_INVALID, "the withdrawal of %s has an empty body", what);
}

struct result document_check_issuer(const char *issuer, struct error *err)
{
    if (strncmp(issuer, SCHEME, SCHEME_LENGTH) == 0 && issuer[SCHEME_LENGTH] != '\0' && strlen(issuer) <= ISSUER_MAX &&
        text_is_visible(bytes_of_text(issuer)) && strchr(issuer, ' ') == NULL)
        return SUCCESS;
    return failure(err, ERROR_INVALID, "issuer: the exact `iss` of the tokens, which begins with https://");
}

bool document_root_is_one(const struct document_trust *trust)
{
    return trust->terms.root <= 1;
}

/* The root appoints the approvers, so it may also sign alone, as long as it is one person. */
struct result document_check_persons(const struct document *document, const struct document_trust *trust, const char *what,
                                     struct error *err)
{
    static const uint8_t no_key[ECDSA_PUBLIC_SIZE], nobody[DOCUMENT_DIGEST_SIZE];
    const struct document_own own = {no_key, nobody};
    bool has_root = false;
    unsigned persons = 0;

    TRY(document_check_time(document, trust->now_ms, err));
    TRY(document_is_signed_by(document, trust->root, &has_root, err));
    TRY(document_count_persons(document, trust, &own, &persons, err));
    if ((has_root && document_root_is_one(trust)) || persons >= document_signers_needed(document)) return SUCCESS;
    return failure(err, ERROR_DENIED, "%s needs the signatures of %u approvers or of the root, and there are %u", what,
                   document_signers_needed(document), persons);
}

struct result document_check(const struct document *document, const struct document_trust *trust, struct error *err)
{
    return checkers[document->kind](document, trust, err);
}
