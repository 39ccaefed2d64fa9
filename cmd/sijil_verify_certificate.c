/* sijil-verify certificate: of a deletion, or of an erasure. */
#include "cmd/sijil_verify_certificate.h"

#include "audit/format/deletion.h"
#include "audit/format/erased.h"
#include "audit/format/log_keys.h"
#include "crypto/ecdsa.h"

/* The caller's own key was read before. So a malformed input is one that is not verified. */
static struct result as_verdict(struct result checked, struct error *err)
{
    if (!checked.ok && (err->kind == ERROR_INVALID || err->kind == ERROR_LIMIT)) err->kind = ERROR_DENIED;
    return checked;
}

static struct result check_erasure(const struct proof_trust *trust, bool is_json, const struct ecdsa_key *signer,
                                   struct bytes bundle, struct buffer *answer, struct error *err)
{
    struct erased_report report;

    TRY(as_verdict(erased_check(trust, signer, bundle, &report, err), err));
    return is_json ? erased_report_json(&report, answer, err) : erased_report_text(&report, answer, err);
}

struct result certificate_verify_answer(const struct certificate_request *request, struct bytes bundle, struct buffer *answer,
                                        struct error *err)
{
    const struct proof_trust trust = {.vkey = bytes_of_text(request->key), .policy = request->policy};
    OWNED(ecdsa_key) *signer = NULL;
    struct deletion_report report;
    struct log_keys keys;

    TRY(log_keys_read(trust.vkey, &keys, err));
    TRY(ecdsa_key_load(request->signer, &signer, err));
    if (erased_is_bundle(bundle)) return check_erasure(&trust, request->json, signer, bundle, answer, err);
    TRY(as_verdict(deletion_check(&trust, signer, bundle, &report, err), err));
    return request->json ? deletion_report_json(&report, answer, err) : deletion_report_text(&report, answer, err);
}
