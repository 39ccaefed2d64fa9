#include "documents/format/break_glass.h"

#include <string.h>

#include "base/text.h"
#include "crypto/digest.h"
#include "crypto/dsse.h"
#include "documents/format/document_priv.h"

#define DAY_MS        INT64_C(86400000)
#define HEX_DIGITS    "0123456789abcdef"
#define PLACE_LETTERS "abcdefghijklmnopqrstuvwxyz0123456789._-"

/* ---- the body ---- */

static struct result check_head(const struct document *document, const char *what, int64_t longest_ms, struct error *err)
{
    if (strlen(document->name) > BREAK_GLASS_NAME_MAX)
        return failure(err, ERROR_INVALID, "the name of %s has at most %d characters", what, BREAK_GLASS_NAME_MAX);
    if (document->scope[0] != '\0') return failure(err, ERROR_INVALID, "%s is of the registry: its scope is \"\"", what);
    if (document->expires_ms == 0 || document->expires_ms - document->effective_ms > longest_ms)
        return failure(err, ERROR_INVALID, "%s expires, within %lld minutes", what, (long long)(longest_ms / 60000));
    return SUCCESS;
}

static bool is_person(const char *principal)
{
    return strlen(principal) == BREAK_GLASS_PRINCIPAL && strncmp(principal, "ext:", 4) == 0 &&
           text_consists_of(bytes_of_text(principal + 4), HEX_DIGITS);
}

/* "acme" or "acme/models". */
static bool is_place(const char *on)
{
    struct bytes left = bytes_of_text(on);
    unsigned names = 0;

    if (left.length == 0 || left.length > BREAK_GLASS_PLACE_MAX || on[left.length - 1] == '/') return false;
    while (left.length > 0) {
        const struct bytes name = text_cut(&left, '/');
        if (name.length == 0 || !text_consists_of(name, PLACE_LETTERS)) return false;
        names++;
    }
    return names <= 2;
}

static bool is_text(const char *text)
{
    return text[0] != '\0' && strlen(text) <= BREAK_GLASS_REASON_MAX;
}

static struct result check_grant(const struct document *document, const struct break_glass *glass, struct error *err)
{
    if (document->version != 1) return failure(err, ERROR_INVALID, "version 1 breaks the glass, version 2 ends that");
    TRY(check_head(document, "a broken glass", BREAK_GLASS_MS_MAX, err));
    if (!is_place(glass->on)) return failure(err, ERROR_INVALID, "on: an organisation, or an organisation and a project");
    if (!is_text(glass->reason))
        return failure(err, ERROR_INVALID, "reason: 1 to %d bytes, without a name", BREAK_GLASS_REASON_MAX);
    return SUCCESS;
}

static struct result check_end_body(const struct document *document, const struct break_glass *glass, struct error *err)
{
    if (document->version != 2) return failure(err, ERROR_INVALID, "version 1 breaks the glass, version 2 ends that");
    if (!is_person(glass->approved_by)) return failure(err, ERROR_INVALID, "approved_by: ext: and 64 hex digits, a person");
    return check_head(document, "the end of a broken glass", BREAK_GLASS_END_DAYS_MAX * DAY_MS, err);
}

static struct result unpack(const struct document *document, struct break_glass *glass, const char **point, struct error *err)
{
    const json_t *body = json_object_get(document->json, "body");

    if (document->is_withdrawn)
        return document_unpack(body, "the end of a broken glass", err, "{s:s, s:s, s:s}", "principal", &glass->principal,
                               "public_key", point, "approved_by", &glass->approved_by);
    return document_unpack(body, "the body of a broken glass", err, "{s:s, s:s, s:s, s:s}", "principal", &glass->principal,
                           "public_key", point, "on", &glass->on, "reason", &glass->reason);
}

struct result break_glass_read(const struct document *document, struct break_glass *glass_out, struct error *err)
{
    struct break_glass glass = {.principal = NULL};
    const char *point = NULL;

    TRY(unpack(document, &glass, &point, err));
    if (!is_person(glass.principal))
        return failure(err, ERROR_INVALID, "principal: ext: and 64 hex digits, a person; a robot breaks no glass");
    TRY(document_read_key(point, glass.point, err));
    if (!document->is_withdrawn) {
        TRY(check_grant(document, &glass, err));
    } else {
        TRY(check_end_body(document, &glass, err));
    }
    *glass_out = glass;
    return SUCCESS;
}

bool break_glass_has_ended(const struct document *document, int64_t now_ms)
{
    return document->is_withdrawn || document->expires_ms <= now_ms;
}

json_t *break_glass_body(const struct break_glass *glass)
{
    char point[ECDSA_POINT_TEXT_SIZE];
    struct error ignored;

    if (!ecdsa_point_text(glass->point, point, &ignored).ok) return NULL;
    return json_pack("{s:s, s:s, s:s*, s:s*, s:s*}", "principal", glass->principal, "public_key", point, "on", glass->on,
                     "reason", glass->reason, "approved_by", glass->approved_by);
}

/* ---- who has signed ---- */

struct result break_glass_check_holder(const struct document *document, int64_t now_ms, struct break_glass *glass_out,
                                       struct error *err)
{
    struct break_glass glass;
    bool is_signed = false;

    TRY(break_glass_read(document, &glass, err));
    if (document->is_withdrawn) return failure(err, ERROR_INVALID, "this ends a broken glass, and breaks none");
    TRY(document_check_time(document, now_ms, err));
    TRY(document_is_signed_by(document, glass.point, &is_signed, err));
    if (!is_signed) return failure(err, ERROR_DENIED, "the holder's key, which the document names, has not signed it");
    *glass_out = glass;
    return SUCCESS;
}

static struct result count_approvers(const struct document *document, const struct document_trust *trust,
                                     const struct break_glass *glass, unsigned *count_out, struct error *err)
{
    uint8_t principal[DOCUMENT_DIGEST_SIZE];
    const struct document_own own = {glass->point, principal};

    sha256_of(bytes_of_text(glass->principal), principal);
    return document_count_approvers(document, trust, &own, count_out, err);
}

/* Who takes a right away early needs nobody's consent. */
static struct result check_end(const struct document *document, const struct document_trust *trust,
                               const struct break_glass *glass, struct error *err)
{
    static const uint8_t no_key[ECDSA_PUBLIC_SIZE], nobody[DOCUMENT_DIGEST_SIZE];
    const struct document_own own = {no_key, nobody};
    bool has_holder = false, has_root = false;
    unsigned approvers = 0;

    TRY(document_check_time(document, trust->now_ms, err));
    TRY(document_is_signed_by(document, glass->point, &has_holder, err));
    TRY(document_is_signed_by(document, trust->root, &has_root, err));
    TRY(document_count_approvers(document, trust, &own, &approvers, err));
    if (has_holder || has_root || approvers > 0) return SUCCESS;
    return failure(err, ERROR_DENIED, "the holder's key, an approver's or the root's signs the end of a broken glass");
}

/* The signature alone tells who has approved it. With one more, by a key that is stolen or withdrawn, it would be told of another person, and the approver could review it. */
static bool has_two_signatures(const struct document *document)
{
    size_t count = 0;

    for (size_t i = 0; i < document->signature_count; i++) count += document->signatures[i]->signature_count;
    return count == 2;
}

/* Two persons, so the root does not count: nobody knows how many persons hold it. */
struct result document_check_break_glass(const struct document *document, const struct document_trust *trust, struct error *err)
{
    struct break_glass glass;
    unsigned approvers = 0;

    TRY(break_glass_read(document, &glass, err));
    if (document->is_withdrawn) return check_end(document, trust, &glass, err);
    TRY(break_glass_check_holder(document, trust->now_ms, &glass, err));
    if (memcmp(glass.point, trust->root, sizeof trust->root) == 0)
        return failure(err, ERROR_DENIED, "the root's key is no person's, so it breaks no glass");
    TRY(count_approvers(document, trust, &glass, &approvers, err));
    if (approvers > 0 && !has_two_signatures(document))
        return failure(err, ERROR_DENIED, "a broken glass has two signatures, the holder's and the approver's, and no other");
    if (approvers > 0) return SUCCESS;
    return failure(err, ERROR_DENIED,
                   "an approver who is another person than the holder must sign, too; the root does not count");
}

/* ---- reviews ---- */

static bool is_finding(const char *finding)
{
    return strcmp(finding, BREAK_GLASS_SAYS_JUSTIFIED) == 0 || strcmp(finding, BREAK_GLASS_SAYS_OTHERWISE) == 0;
}

struct result break_glass_review_read(const struct document *document, struct break_glass_review *review_out, struct error *err)
{
    struct break_glass_review review = {.finding = NULL};

    TRY(check_head(document, "a review", BREAK_GLASS_END_DAYS_MAX * DAY_MS, err));
    if (document->version != 1) return failure(err, ERROR_INVALID, "a broken glass is reviewed once: version 1");
    TRY(document_unpack(json_object_get(document->json, "body"), "the body of a review", err, "{s:s, s:s}", "finding",
                        &review.finding, "note", &review.note));
    if (!is_finding(review.finding))
        return failure(err, ERROR_INVALID, "finding: " BREAK_GLASS_SAYS_JUSTIFIED " or " BREAK_GLASS_SAYS_OTHERWISE);
    if (!is_text(review.note)) return failure(err, ERROR_INVALID, "note: 1 to %d bytes, without a name", BREAK_GLASS_REASON_MAX);
    *review_out = review;
    return SUCCESS;
}

struct result document_check_break_glass_review(const struct document *document, const struct document_trust *trust,
                                                struct error *err)
{
    static const uint8_t no_key[ECDSA_PUBLIC_SIZE], nobody[DOCUMENT_DIGEST_SIZE];
    const struct document_own own = {no_key, nobody};
    struct break_glass_review review;
    unsigned approvers = 0;

    TRY(break_glass_review_read(document, &review, err));
    TRY(document_check_time(document, trust->now_ms, err));
    TRY(document_count_approvers(document, trust, &own, &approvers, err));
    if (approvers > 0) return SUCCESS;
    return failure(err, ERROR_DENIED, "a review needs the signature of an approver; the root does not count");
}
