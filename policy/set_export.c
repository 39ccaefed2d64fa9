#include "policy/set_export.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "audit/format/policy_load.h"
#include "base/clock.h"
#include "base/text.h"
#include "policy/set_text.h"

struct result set_export_write(const struct set_export_parts *parts, struct buffer *text, struct error *err)
{
    TRY(buffer_add_text(text, "{\"apiVersion\":\"sijil.policy/v1\",\"entry\":", err));
    TRY(json_write_string(text, parts->entry, err));
    TRY(buffer_add_text(text, ",\"envelopes\":[", err));
    TRY(json_write_string(text, parts->envelope, err));
    TRY(buffer_add_text(text, "],\"kind\":\"" SET_EXPORT_KIND "\",\"proof\":", err));
    TRY(json_write_string(text, parts->proof, err));
    return buffer_add_text(text, "}\n", err);
}

/* Nothing is ignored: whoever adds a member can't have it taken for checked. */
static struct result read_parts(const json_t *json, struct set_export_parts *parts, struct error *err)
{
    const json_t *envelopes = json_object_get(json, "envelopes");
    const char *envelope = json_string_value(json_array_get(envelopes, 0)), *entry = json_text_of(json, "entry");
    const char *proof = json_text_of(json, "proof"), *kind = json_text_of(json, "kind");
    const char *version = json_text_of(json, "apiVersion");

    if (kind == NULL || strcmp(kind, SET_EXPORT_KIND) != 0 || version == NULL || strcmp(version, "sijil.policy/v1") != 0)
        return failure(err, ERROR_INVALID, "this is no policy set with its proof ('sijil policy export' writes one)");
    if (json_object_size(json) != 5 || json_array_size(envelopes) != 1 || envelope == NULL || entry == NULL || proof == NULL)
        return failure(err, ERROR_INVALID, "an exported policy set has one envelope, an entry and a proof, and nothing else");
    *parts = (struct set_export_parts){bytes_of_text(envelope), bytes_of_text(entry), bytes_of_text(proof)};
    return SUCCESS;
}

/* The event names the bytes of the envelope, so no other signature and no other set fits it. */
static struct result check_event(const struct leaf *event, bool is_event, const struct policy_set *set, struct error *err)
{
    char detail[1 + POLICY_LOAD_DETAIL_SIZE] = "#";
    uint8_t digest[32];

    if (!text_from_hex(bytes_of_text(policy_set_digest(set) + strlen("sha256:")), digest, sizeof digest))
        return failure(err, ERROR_INVALID, "the set has no digest");
    policy_load_detail(policy_set_envelope(set), policy_set_epoch(set), digest, detail + 1);
    if (!is_event || event->target_count != 1 || strcmp(event->targets[0].action, POLICY_LOAD_ACTION) != 0 ||
        strcmp(event->outcome, POLICY_LOAD_OUTCOME) != 0)
        return failure(err, ERROR_DENIED, "the entry of the log is no event that loads a policy set");
    if (strcmp(event->targets[0].resource, detail) != 0)
        return failure(err, ERROR_DENIED, "the event of the log loads another policy set, or another signature of this one");
    return SUCCESS;
}

void set_export_report_done(struct set_export_report *report)
{
    policy_set_free(report->set);
    report->set = NULL;
}

struct result set_export_check(struct bytes text, const struct proof_trust *trust, const struct ecdsa_key *root,
                               struct set_export_report *report_out, struct error *err)
{
    struct set_export_parts parts;
    struct proof_report proof;
    OWNED(policy_set) *set = NULL;
    OWNED_JSON json = NULL;

    TRY(json_read(text, SET_EXPORT_MAX, &json, err));
    TRY(read_parts(json, &parts, err));
    TRY(policy_set_read(parts.envelope, root, &set, err));
    TRY(proof_check_cosigned(trust, parts.entry, parts.proof, &proof, err));
    TRY(check_event(&proof.event, proof.is_event, set, err));
    report_out->proof = proof;
    report_out->set = GIVE(set);
    return SUCCESS;
}

struct result set_export_report_text(const struct set_export_report *report, struct buffer *text, struct error *err)
{
    const struct proof_report *proof = &report->proof;
    const struct set_reading reading = {.now_ms = proof->event.time_ms};
    char loaded[CLOCK_TEXT_SIZE];

    clock_format(proof->event.time_ms, loaded);
    TRY(buffer_format(text, err,
                      "Verified: the policy set of epoch %" PRIu64 ", digest\n%s.\n\n"
                      "Proven, given the keys of the log and of the root:\n"
                      "  - the root has signed exactly this set;\n"
                      "  - entry %" PRIu64 " of the log %s says that it was loaded,\n    at %s.\n",
                      policy_set_epoch(report->set), policy_set_digest(report->set), proof->index, proof->checkpoint.origin,
                      loaded));
    TRY(certificate_witnesses_text(proof, text, err));
    TRY(buffer_add_text(
        text,
        "\nNot proven:\n"
        "  - that it came into force: where several persons must sign a set, the\n    registry's log may have one that sijil-keyd has refused;\n"
        "  - that no later set is in force: ask the registry for the newest event\n    policy.load;\n"
        "  - that what it says fits a law: it is evidence for a review.\n\n"
        "The set, as of that time:\n\n",
        err));
    return policy_set_text(report->set, &reading, text, err);
}

struct result set_export_report_json(const struct set_export_report *report, struct buffer *text, struct error *err)
{
    const struct proof_report *proof = &report->proof;
    char loaded[CLOCK_TEXT_SIZE];

    clock_format(proof->event.time_ms, loaded);
    TRY(buffer_format(text, err, "{\"verified\":true,\"entry\":%" PRIu64 ",\"loaded_at\":\"%s\",\"origin\":", proof->index,
                      loaded));
    TRY(json_write_string(text, bytes_of_text(proof->checkpoint.origin), err));
    TRY(buffer_add_text(text, ",\"set\":", err));
    TRY(policy_set_describe(report->set, text, err));
    return buffer_add_text(text, "}\n", err);
}
