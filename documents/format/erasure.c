#include "documents/format/erasure.h"

#include <string.h>

#include "base/text.h"
#include "documents/format/document_priv.h"

#define DAY_MS     INT64_C(86400000)
#define HEX_DIGITS "0123456789abcdef"
#define LETTERS    "abcdefghijklmnopqrstuvwxyz0123456789._-/"

bool erasure_pseudonym_is_valid(const char *text)
{
    return strlen(text) == ERASURE_PSEUDONYM_SIZE - 1 && text_consists_of(bytes_of_text(text), HEX_DIGITS);
}

static bool is_reason(const char *text)
{
    const size_t length = strlen(text);

    return length > 0 && length <= ERASURE_REASON_MAX;
}

static struct result check_head(const struct document *document, const char *what, int64_t days_max, struct error *err)
{
    if (document->scope[0] != '\0')
        return failure(err, ERROR_INVALID, "%s concerns the whole log: its scope is the registry", what);
    if (document->expires_ms == 0 || document->expires_ms - document->effective_ms > days_max * DAY_MS)
        return failure(err, ERROR_INVALID, "%s expires, within %lld days", what, (long long)days_max);
    return SUCCESS;
}

struct result erasure_read(const struct document *document, const char **reason_out, struct error *err)
{
    const char *reason = NULL;

    TRY(check_head(document, "an erasure", ERASURE_DAYS_MAX, err));
    if (!erasure_pseudonym_is_valid(document->name))
        return failure(err, ERROR_INVALID, "the name of an erasure is the pseudonym of the person: 64 hexadecimal digits");
    TRY(document_unpack(json_object_get(document->json, "body"), "the body of an erasure", err, "{s:s}", "reason", &reason));
    if (!is_reason(reason)) return failure(err, ERROR_INVALID, "reason: 1 to %d bytes, without a name", ERASURE_REASON_MAX);
    *reason_out = reason;
    return SUCCESS;
}

static bool is_content(const char *text)
{
    const size_t length = strlen(text);

    return length > 0 && length <= HOLD_CONTENT_MAX && text[0] != '/' && text[length - 1] != '/' && strstr(text, "//") == NULL &&
           text_consists_of(bytes_of_text(text), LETTERS);
}

static struct result check_content(const struct legal_hold *hold, struct error *err)
{
    struct digest digest;
    struct error wrong = {0};

    if (!is_content(hold->content))
        return failure(err, ERROR_INVALID, "content: organisation, organisation/project or organisation/project/repository");
    if (hold->digest == NULL || digest_parse(bytes_of_text(hold->digest), &digest, &wrong).ok) return SUCCESS;
    return failure(err, ERROR_INVALID, "digest: that of a manifest, such as sha256: and 64 hexadecimal digits");
}

static struct result check_held(const struct legal_hold *hold, struct error *err)
{
    if ((hold->subject == NULL) == (hold->content == NULL))
        return failure(err, ERROR_INVALID, "a hold is of persons (subject) or of content, and not of both");
    if (hold->content != NULL) return check_content(hold, err);
    if (hold->digest != NULL) return failure(err, ERROR_INVALID, "a digest goes with content");
    if (strcmp(hold->subject, HOLD_OF_ALL) == 0 || erasure_pseudonym_is_valid(hold->subject)) return SUCCESS;
    return failure(err, ERROR_INVALID, "subject: the pseudonym of a person, or %s for all", HOLD_OF_ALL);
}

struct result legal_hold_read(const struct document *document, struct legal_hold *hold_out, struct error *err)
{
    struct legal_hold hold = {.subject = NULL};

    TRY(check_head(document, "a hold", HOLD_DAYS_MAX, err));
    TRY(document_unpack(json_object_get(document->json, "body"), "the body of a hold", err, "{s?s, s?s, s?s, s:s}", "subject",
                        &hold.subject, "content", &hold.content, "digest", &hold.digest, "reason", &hold.reason));
    TRY(check_held(&hold, err));
    if (!is_reason(hold.reason)) return failure(err, ERROR_INVALID, "reason: 1 to %d bytes, without a name", ERASURE_REASON_MAX);
    *hold_out = hold;
    return SUCCESS;
}

bool legal_hold_covers(const struct legal_hold *hold, const char *pseudonym)
{
    if (hold->subject == NULL) return false;
    return strcmp(hold->subject, HOLD_OF_ALL) == 0 || strcmp(hold->subject, pseudonym) == 0;
}

static struct result count_persons(const struct document *document, const struct document_trust *trust, unsigned *persons_out,
                                   struct error *err)
{
    static const uint8_t no_key[ECDSA_PUBLIC_SIZE], nobody[DOCUMENT_DIGEST_SIZE];
    const struct document_own own = {no_key, nobody};

    TRY(document_check_time(document, trust->now_ms, err));
    return document_count_approvers(document, trust, &own, persons_out, err);
}

/* Two persons, so the root does not count: nobody knows how many persons hold it. */
struct result document_check_erasure(const struct document *document, const struct document_trust *trust, struct error *err)
{
    const char *reason = NULL;
    unsigned persons = 0;

    TRY(erasure_read(document, &reason, err));
    TRY(count_persons(document, trust, &persons, err));
    if (persons >= document_signers_needed(document)) return SUCCESS;
    return failure(err, ERROR_DENIED, "an erasure needs the signatures of %u approvers, and there are %u",
                   document_signers_needed(document), persons);
}

static struct result check_hold_body(const struct document *document, struct error *err)
{
    struct legal_hold hold;

    if (!document->is_withdrawn) return legal_hold_read(document, &hold, err);
    TRY(check_head(document, "a hold", HOLD_DAYS_MAX, err));
    if (json_object_size(json_object_get(document->json, "body")) == 0) return SUCCESS;
    return failure(err, ERROR_INVALID, "the release of a hold has an empty body");
}

unsigned legal_hold_persons(const struct document *document)
{
    return document->is_withdrawn || document->version > 1 ? HOLD_PERSONS : document_signers_needed(document);
}

/* One signature keeps, also that of the root. To let go takes two persons, so the root does not count then. */
struct result document_check_legal_hold(const struct document *document, const struct document_trust *trust, struct error *err)
{
    const unsigned needed = legal_hold_persons(document);
    bool has_root = false;
    unsigned persons = 0;

    TRY(check_hold_body(document, err));
    TRY(count_persons(document, trust, &persons, err));
    TRY(document_is_signed_by(document, trust->root, &has_root, err));
    if ((has_root && needed == 1) || persons >= needed) return SUCCESS;
    if (needed == 1) return failure(err, ERROR_DENIED, "a hold needs the signature of an approver or of the root");
    return failure(err, ERROR_DENIED, "%s of a hold needs the signatures of %u approvers, and there are %u",
                   document->is_withdrawn ? "the release" : "a later version", needed, persons);
}
