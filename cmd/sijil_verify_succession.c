#include "cmd/sijil_verify_succession.h"

#include <string.h>

#include "audit/format/log_keys.h"
#include "audit/format/proof.h"
#include "audit/format/succession_check.h"
#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "crypto/ecdsa.h"
#include "documents/format/set_approval.h"
#include "policy/set_export.h"

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

/* A policy set, and how many persons the root is from it on. */
struct counted_set {
    struct document_pin pin;
    unsigned root;
};

/* As many of the given officers as the set says; and who lowers the root to one person is the root. An exported set shows whether those before it let it say so. */
static struct result check_signers(const struct document *set, const struct officers *officers, const struct root_terms *terms,
                                   struct error *err)
{
    const unsigned needed = terms->policies > 1 ? terms->policies : 1;
    bool has_signed[SUCCESSION_OFFICERS_MAX] = {false};
    uint8_t point[ECDSA_PUBLIC_SIZE];
    unsigned count = 0;

    for (size_t i = 0; i < SUCCESSION_OFFICERS_MAX && officers->each[i] != NULL; i++) {
        ecdsa_key_public(officers->each[i], point);
        TRY(document_is_signed_by(set, point, &has_signed[i], err));
        count += has_signed[i];
    }
    if (count >= needed && (terms->root > 1 || has_signed[0])) return SUCCESS;
    return failure(
        err, ERROR_DENIED,
        "--set needs the signatures of %u of the given officers, and has %u%s: give the file of 'sijil policy export', "
        "which shows who has signed",
        needed, count, terms->root > 1 ? "" : ", and that of the root");
}

/* Where the root is several persons, its key need not have signed the set. */
static struct result read_signed(struct bytes envelope, const struct officers *officers, struct counted_set *counted,
                                 struct error *err)
{
    OWNED(document) *set = NULL;
    struct root_terms terms;

    TRY(document_read(&envelope, 1, &set, err));
    if (set->kind != DOCUMENT_POLICY_SET) return failure(err, ERROR_DENIED, "--set is no policy set");
    TRY(set_terms_read(set->json, &(struct root_terms){.root = 0}, &terms, err));
    TRY(check_signers(set, officers, &terms, err));
    counted->pin.epoch = set->version;
    memcpy(counted->pin.digest, set->digest, sizeof counted->pin.digest);
    counted->root = terms.root;
    return SUCCESS;
}

/* Its signatures are counted from the root's key on, and so is the number. */
static struct result read_exported(struct bytes text, const struct officers *officers, struct counted_set *counted,
                                   struct error *err)
{
    __attribute__((cleanup(set_export_report_done))) struct set_export_report report = {.set = NULL};
    struct set_chain_end end = {.set = NULL};

    TRY(set_export_open(text, officers->each[0], &report, err));
    if (report.chain != NULL) set_chain_end(report.chain, &end);
    counted->pin.epoch = policy_set_epoch(report.set);
    (void)text_from_hex(bytes_of_text(policy_set_digest(report.set) + strlen("sha256:")), counted->pin.digest,
                        sizeof counted->pin.digest); /* it was read, so it has the form */
    counted->root = end.terms.root;
    return SUCCESS;
}

static struct result read_set(const struct succession_request *request, const struct officers *officers,
                              struct counted_set *counted, struct error *err)
{
    struct buffer OWNED_BUFFER text = BUFFER(SET_EXPORT_MAX);
    OWNED_JSON json = NULL;

    TRY(file_read(request->set, &text, err));
    TRY(json_read(buffer_bytes(&text), SET_EXPORT_MAX, &json, err));
    return set_export_is(json) ? read_exported(buffer_bytes(&text), officers, counted, err)
                               : read_signed(buffer_bytes(&text), officers, counted, err);
}

/* The set that is in force from now on is pinned in the statement; a later one that was in force before is one that was lost. */
static struct result find_root(const struct succession_request *request, const struct officers *officers,
                               const struct succession_plans *plans, unsigned *root_out, struct error *err)
{
    struct counted_set counted = {.root = 0};
    struct succession plan;

    if (request->set == NULL) return SUCCESS;
    TRY(read_set(request, officers, &counted, err));
    TRY(succession_read(buffer_bytes(&plans->each[0]->payload), &plan, err));
    const struct document_pin *pin = &plan.pins[document_kind(DOCUMENT_POLICY_SET)->number - 1];
    if (counted.pin.epoch < pin->epoch ||
        (counted.pin.epoch == pin->epoch && memcmp(counted.pin.digest, pin->digest, sizeof pin->digest) != 0))
        return failure(err, ERROR_DENIED, "--set is another policy set than number %llu, which the statement has in force",
                       (unsigned long long)pin->epoch);
    *root_out = counted.root;
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
