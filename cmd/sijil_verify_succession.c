#include "cmd/sijil_verify_succession.h"

#include <string.h>

#include "audit/format/log_keys.h"
#include "audit/format/proof.h"
#include "audit/format/succession_check.h"
#include "base/file.h"
#include "crypto/ecdsa.h"
#include "documents/format/set_approval.h"
#include "policy/set.h"

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

/* ---- how many persons the root is ---- */

struct officers {
    struct ecdsa_key *each[SUCCESSION_OFFICERS_MAX];
};

static void officers_done(struct officers *officers)
{
    for (size_t i = 0; i < SUCCESSION_OFFICERS_MAX; i++) ecdsa_key_free(officers->each[i]);
}

/* Where the root is several persons, its key need not have signed the set. */
static struct result read_set(const struct succession_request *request, const struct officers *officers,
                              struct document **set_out, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(POLICY_SET_ENVELOPE_MAX);
    OWNED(document) *set = NULL;
    uint8_t point[ECDSA_PUBLIC_SIZE];
    bool is_signed = false;

    TRY(file_read(request->set, &text, err));
    const struct bytes envelope = buffer_bytes(&text);
    TRY(document_read(&envelope, 1, &set, err));
    for (size_t i = 0; i < SUCCESSION_OFFICERS_MAX && officers->each[i] != NULL && !is_signed; i++) {
        ecdsa_key_public(officers->each[i], point);
        if (set->kind == DOCUMENT_POLICY_SET) TRY(document_is_signed_by(set, point, &is_signed, err));
    }
    if (!is_signed) return failure(err, ERROR_DENIED, "--set is no policy set that one of the given officers has signed");
    *set_out = GIVE(set);
    return SUCCESS;
}

/* The set that is in force from now on is pinned in the statement; a later one that was in force before is one that was lost. */
static struct result find_root(const struct succession_request *request, const struct officers *officers,
                               const struct succession_plans *plans, unsigned *root_out, struct error *err)
{
    OWNED(document) *set = NULL;
    struct succession plan;
    struct root_terms terms;

    if (request->set == NULL) return SUCCESS;
    TRY(read_set(request, officers, &set, err));
    TRY(succession_read(buffer_bytes(&plans->each[0]->payload), &plan, err));
    const struct document_pin *pin = &plan.pins[document_kind(DOCUMENT_POLICY_SET)->number - 1];
    if (set->version < pin->epoch || (set->version == pin->epoch && memcmp(set->digest, pin->digest, sizeof pin->digest) != 0))
        return failure(err, ERROR_DENIED, "--set is another policy set than number %llu, which the statement has in force",
                       (unsigned long long)pin->epoch);
    TRY(set_terms_read(set->json, &(struct root_terms){.root = 0}, &terms, err));
    *root_out = terms.root;
    return SUCCESS;
}

/* ---- the verdict ---- */

static struct result check(const struct succession_request *request, struct succession_plans *plans, struct buffer *answer,
                           struct error *err)
{
    struct buffer OWNED_BUFFER file = BUFFER(SUCCESSION_OFFICERS_MAX * SUCCESSION_ENVELOPE_MAX);
    __attribute__((cleanup(officers_done))) struct officers officers = {{NULL}};
    struct succession_trust trust = {.log = {bytes_of_text(request->key), request->policy}};
    struct succession_report report;
    struct log_keys keys;

    TRY(log_keys_read(bytes_of_text(request->key), &keys, err));
    for (size_t i = 0; i < SUCCESSION_OFFICERS_MAX && request->officers[i] != NULL; i++) {
        TRY(ecdsa_key_load(request->officers[i], &officers.each[i], err));
        trust.officers[i] = officers.each[i];
    }
    TRY(file_read(request->file, &file, err));
    TRY(as_verdict(succession_plans_read(buffer_bytes(&file), plans, err), err));
    TRY(as_verdict(find_root(request, &officers, plans, &trust.root, err), err));
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
