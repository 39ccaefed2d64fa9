#include <string.h>

#include "documents/format/document_priv.h"

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

struct result document_has_approver(const struct document *document, const struct document_trust *trust,
                                    const struct document_own *but, bool *has_out, struct error *err)
{
    *has_out = false;
    for (size_t i = 0; i < DOCUMENT_APPROVERS_MAX && !*has_out; i++)
        if (counts(&trust->approvers[i], but, trust->now_ms))
            TRY(document_is_signed_by(document, trust->approvers[i].point, has_out, err));
    return SUCCESS;
}

struct result document_check(const struct document *document, const struct document_trust *trust, struct error *err)
{
    return checkers[document->kind](document, trust, err);
}

/* The content of the set is not checked here: the approver has signed it, and policy/ reads it before it takes effect. */
struct result document_check_policy_set(const struct document *document, const struct document_trust *trust, struct error *err)
{
    static const uint8_t unset[ECDSA_PUBLIC_SIZE];
    bool is_signed = false;

    if (memcmp(trust->root, unset, sizeof unset) == 0)
        return failure(err, ERROR_DENIED, "no approver of policy sets is pinned yet");
    TRY(document_is_signed_by(document, trust->root, &is_signed, err));
    if (is_signed) return SUCCESS;
    return failure(err, ERROR_DENIED, "the document carries no valid signature of the trusted key");
}
