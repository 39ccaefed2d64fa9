#include "cmd/sijil_verify_succession.h"

#include "audit/format/log_keys.h"
#include "audit/format/proof.h"
#include "audit/format/succession_check.h"
#include "base/file.h"
#include "crypto/ecdsa.h"

/* The verifier's own keys were read before. So a malformed file is one that is not verified. */
static struct result as_verdict(struct result checked, struct error *err)
{
    if (!checked.ok && (err->kind == ERROR_INVALID || err->kind == ERROR_LIMIT)) err->kind = ERROR_DENIED;
    return checked;
}

static struct result check_entry(const struct succession_request *request, const struct succession_plans *plans,
                                 struct succession_report *report, struct error *err)
{
    struct buffer OWNED_BUFFER entry = BUFFER(MERKLE_ENTRY_MAX), proof = BUFFER(TLOG_PROOF_MAX);

    if (request->entry == NULL) return SUCCESS;
    TRY(file_read(request->entry, &entry, err));
    TRY(file_read(request->proof, &proof, err));
    return as_verdict(succession_check_entry(report, plans, buffer_bytes(&entry), buffer_bytes(&proof), err), err);
}

static struct result check(const struct succession_request *request, struct succession_plans *plans, struct buffer *answer,
                           struct error *err)
{
    struct buffer OWNED_BUFFER file = BUFFER(2 * SUCCESSION_ENVELOPE_MAX);
    OWNED(ecdsa_key) *first = NULL, *second = NULL;
    struct succession_report report;
    struct log_keys keys;

    TRY(log_keys_read(bytes_of_text(request->key), &keys, err));
    TRY(ecdsa_key_load(request->officers[0], &first, err));
    if (request->officers[1] != NULL) TRY(ecdsa_key_load(request->officers[1], &second, err));
    TRY(file_read(request->file, &file, err));
    const struct succession_trust trust = {{bytes_of_text(request->key), request->policy}, {first, second}};
    TRY(as_verdict(succession_plans_read(buffer_bytes(&file), plans, err), err));
    TRY(as_verdict(succession_check(&trust, plans, &report, err), err));
    TRY(check_entry(request, plans, &report, err));
    return request->json ? succession_report_json(&report, answer, err) : succession_report_text(&report, answer, err);
}

struct result succession_verify_file(const struct succession_request *request, struct buffer *answer, struct error *err)
{
    struct succession_plans plans = {.count = 0};
    const struct result checked = check(request, &plans, answer, err);

    succession_plans_done(&plans);
    return checked;
}
