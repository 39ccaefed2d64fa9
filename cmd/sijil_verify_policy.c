/* sijil-verify policy: a policy set, who signed it, and that a registry's log has it. */
#include "cmd/sijil_verify_policy.h"

#include "audit/format/log_keys.h"
#include "policy/set_export.h"

struct result policy_verify_answer(const struct policy_request *request, struct bytes text, struct buffer *answer,
                                   struct error *err)
{
    const struct proof_trust trust = {.vkey = bytes_of_text(request->key), .policy = request->policy};
    struct set_export_report report = {.set = NULL};
    OWNED(ecdsa_key) *root = NULL;
    struct log_keys keys;

    TRY(log_keys_read(trust.vkey, &keys, err));
    TRY(ecdsa_key_load(request->root, &root, err));
    const struct result checked = set_export_check(text, &trust, root, &report, err);
    if (!checked.ok && (err->kind == ERROR_INVALID || err->kind == ERROR_LIMIT)) err->kind = ERROR_DENIED;
    TRY(checked);
    const struct result written =
        request->json ? set_export_report_json(&report, answer, err) : set_export_report_text(&report, answer, err);
    set_export_report_done(&report);
    return written;
}
