/* sijil-verify policy: a policy set, or a legal hold, who signed it, and that a registry's log has it. */
#include "cmd/sijil_verify_policy.h"

#include "audit/format/log_keys.h"
#include "base/json.h"
#include "policy/set_export.h"

static bool is_of_hold(struct bytes text)
{
    struct error ignored = {0};
    OWNED_JSON json = NULL;

    return json_read(text, SET_EXPORT_MAX, &json, &ignored).ok && hold_export_is(json);
}

/* The caller's own keys were read before. So a malformed file is one that is not verified. */
static struct result as_verdict(struct result checked, struct error *err)
{
    if (!checked.ok && (err->kind == ERROR_INVALID || err->kind == ERROR_LIMIT)) err->kind = ERROR_DENIED;
    return checked;
}

static struct result answer_hold(const struct policy_request *request, const struct proof_trust *trust,
                                 const struct ecdsa_key *root, struct bytes text, struct buffer *answer, struct error *err)
{
    struct hold_export_report report = {.document = NULL};

    TRY(as_verdict(hold_export_check(text, trust, root, &report, err), err));
    const struct result written =
        request->json ? hold_export_report_json(&report, answer, err) : hold_export_report_text(&report, answer, err);
    hold_export_report_done(&report);
    return written;
}

struct result policy_verify_answer(const struct policy_request *request, struct bytes text, struct buffer *answer,
                                   struct error *err)
{
    const struct proof_trust trust = {.vkey = bytes_of_text(request->key), .policy = request->policy};
    struct set_export_report report = {.set = NULL};
    OWNED(ecdsa_key) *root = NULL;
    struct log_keys keys;

    TRY(log_keys_read(trust.vkey, &keys, err));
    TRY(ecdsa_key_load(request->root, &root, err));
    if (is_of_hold(text)) return answer_hold(request, &trust, root, text, answer, err);
    TRY(as_verdict(set_export_check(text, &trust, root, &report, err), err));
    const struct result written =
        request->json ? set_export_report_json(&report, answer, err) : set_export_report_text(&report, answer, err);
    set_export_report_done(&report);
    return written;
}
