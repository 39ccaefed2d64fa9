/* What an exported policy set proves, in words and as JSON. */
#include <inttypes.h>

#include "base/clock.h"
#include "policy/no_memory_priv.h"
#include "policy/restriction.h"
#include "policy/set_export.h"
#include "policy/set_text.h"

static struct result tell_signers(const struct set_export_report *report, struct buffer *text, struct error *err)
{
    struct buffer OWNED_BUFFER line = BUFFER(1024);
    struct set_chain_end end;

    if (report->chain == NULL) return buffer_add_text(text, "  - the root has signed exactly this set;\n", err);
    set_chain_end(report->chain, &end);
    TRY(set_chain_text(&end, &line, err));
    return set_text_paragraph("  - ", 4, buffer_text(&line), text, err);
}

/* "acme.closed, version 2, event 41: in force, signed by security-officer.dora, security-officer.eve (2 of 2)" */
static struct result tell_restriction(const struct restriction_proven *proven, struct buffer *text, struct error *err)
{
    struct buffer OWNED_BUFFER line = BUFFER(1024);

    TRY(buffer_format(&line, err, "%s, version %" PRIu64 ", event %" PRIu64 ": ", proven->document->name,
                      proven->document->version, proven->sequence));
    if (proven->document->is_withdrawn) TRY(buffer_add_text(&line, "the end of it", err));
    else if (proven->until == 0) TRY(buffer_add_text(&line, "in force", err));
    else TRY(buffer_format(&line, err, "in force until event %" PRIu64, proven->until));
    for (size_t i = 0; i < proven->signer_count; i++)
        TRY(buffer_format(&line, err, "%s%s", i == 0 ? ", signed by " : ", ", proven->signers[i]));
    TRY(buffer_format(&line, err, " (%u of %u)", proven->persons, proven->needed));
    return set_text_paragraph("      ", 8, buffer_text(&line), text, err);
}

static struct result tell_restrictions(const struct restriction_chain *chain, struct buffer *text, struct error *err)
{
    const char *why = "";

    if (chain == NULL) return SUCCESS;
    TRY(buffer_format(
        text, err,
        "  - security officers of the organisation %s, whom the root or its approvers\n    have appointed, have signed "
        "%s\n",
        restriction_chain_organisation(chain),
        restriction_chain_count(chain) == 0 ? "no restriction of the file." : "these restrictions, and the log has the events:"));
    for (size_t i = 0; i < restriction_chain_count(chain); i++) TRY(tell_restriction(restriction_chain_at(chain, i), text, err));
    const size_t refused = restriction_chain_refused(chain, &why);
    if (refused == 0) return SUCCESS;
    struct buffer OWNED_BUFFER line = BUFFER(1024);
    TRY(buffer_format(&line, err,
                      "%zu documents of the file count for nothing, as sijil-keyd refused them, too. The first one: %s.", refused,
                      why));
    return set_text_paragraph("      ", 6, buffer_text(&line), text, err);
}

static struct result tell_left_out(const struct restriction_chain *chain, struct buffer *text, struct error *err)
{
    if (chain == NULL) return SUCCESS;
    return buffer_add_text(
        text,
        "  - that the file has all documents of the organisation: whoever wrote it may have\n    left out a restriction, its "
        "end, or an officer. 'sijil-verify replay' with the\n    events of the log finds the first two;\n",
        err);
}

static struct result tell_unknown(const struct set_export_report *report, struct buffer *text, struct error *err)
{
    if (report->chain != NULL)
        return buffer_add_text(
            text,
            "  - that no key of these signers had been withdrawn before: whoever wrote the\n    file may have left that out;\n",
            err);
    return buffer_add_text(
        text,
        "  - that it came into force: where several persons must sign a set, the\n    registry's log may have one that sijil-keyd has refused;\n",
        err);
}

static struct result join(const struct set_export_report *report, struct policy_set **shown_out, struct error *err)
{
    OWNED_JSON policies = NULL;

    if (report->restrictions == NULL) {
        *shown_out = policy_set_keep(report->set);
        return SUCCESS;
    }
    TRY(restriction_chain_policies(report->restrictions, &policies, err));
    return policy_restrictions_show(report->set, policies, shown_out, err);
}

struct result set_export_report_text(const struct set_export_report *report, struct buffer *text, struct error *err)
{
    const struct proof_report *proof = &report->proof;
    const struct set_reading reading = {.now_ms = proof->event.time_ms};
    OWNED(policy_set) *shown = NULL;
    char loaded[CLOCK_TEXT_SIZE];

    clock_format(proof->event.time_ms, loaded);
    TRY(buffer_format(text, err,
                      "Verified: the policy set of epoch %" PRIu64 ", digest\n%s.\n\n"
                      "Proven, given the keys of the log and of the root:\n",
                      policy_set_epoch(report->set), policy_set_digest(report->set)));
    TRY(tell_signers(report, text, err));
    TRY(buffer_format(text, err, "  - entry %" PRIu64 " of the log %s says that it was loaded,\n    at %s.\n", proof->index,
                      proof->checkpoint.origin, loaded));
    TRY(tell_restrictions(report->restrictions, text, err));
    TRY(certificate_witnesses_text(proof, text, err));
    TRY(buffer_add_text(text, "\nNot proven:\n", err));
    TRY(tell_unknown(report, text, err));
    TRY(tell_left_out(report->restrictions, text, err));
    TRY(buffer_add_text(text,
                        "  - that no later set is in force: ask the registry for the newest event\n    policy.load;\n"
                        "  - that what it says fits a law: it is evidence for a review.\n\n"
                        "The set, as of that time",
                        err));
    TRY(buffer_format(text, err, "%s:\n\n",
                      report->restrictions == NULL ? "" : ", with the restrictions in force at the end of the file"));
    TRY(join(report, &shown, err));
    return policy_set_text(shown, &reading, text, err);
}

static struct result write_signers(const struct set_chain *chain, struct buffer *text, struct error *err)
{
    struct set_chain_end end;

    set_chain_end(chain, &end);
    const struct set_signers *signers = &end.signers;
    return buffer_format(text, err,
                         ",\"signers\":{\"from_first\":%s,\"needed\":%u,\"persons\":%u,\"policies\":%u,\"root\":%s,\"sets\":%zu}",
                         end.is_whole ? "true" : "false", signers->needed, signers->persons, end.terms.policies,
                         signers->has_root ? "true" : "false", end.sets);
}

static json_t *proven_json(const struct restriction_proven *proven)
{
    json_t *signers = json_array();

    for (size_t i = 0; i < proven->signer_count; i++)
        if (json_array_append_new(signers, json_string(proven->signers[i])) != 0) break;
    return json_pack("{s:s, s:I, s:I, s:b, s:b, s:I, s:I, s:o}", "name", proven->document->name, "version",
                     (json_int_t)proven->document->version, "event", (json_int_t)proven->sequence, "in_force",
                     restriction_is_in_force(proven), "withdrawn", proven->document->is_withdrawn, "persons",
                     (json_int_t)proven->persons, "needed", (json_int_t)proven->needed, "signers", signers);
}

static struct result write_proven(const struct restriction_chain *chain, struct buffer *text, struct error *err)
{
    const char *why = "";
    OWNED_JSON rows = json_array();

    for (size_t i = 0; i < restriction_chain_count(chain); i++)
        if (json_array_append_new(rows, proven_json(restriction_chain_at(chain, i))) != 0) return policy_no_memory(err);
    OWNED_JSON value = json_pack("{s:s, s:O?, s:I}", "organisation", restriction_chain_organisation(chain), "documents", rows,
                                 "refused", (json_int_t)restriction_chain_refused(chain, &why));
    if (rows == NULL || value == NULL) return policy_no_memory(err);
    TRY(buffer_add_text(text, ",\"restrictions\":", err));
    return json_write_canonical(text, value, err);
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
    if (report->chain != NULL) TRY(write_signers(report->chain, text, err));
    if (report->restrictions != NULL) TRY(write_proven(report->restrictions, text, err));
    return buffer_add_text(text, "}\n", err);
}

/* ---- legal holds ---- */

struct result hold_export_report_text(const struct hold_export_report *report, struct buffer *text, struct error *err)
{
    const struct document *document = report->document;
    const struct proof_report *proof = &report->proof;
    char recorded[CLOCK_TEXT_SIZE];

    clock_format(proof->event.time_ms, recorded);
    TRY(buffer_format(text, err, "Verified: %s of the legal hold %s, version %" PRIu64 ":\n",
                      document->is_withdrawn ? "the release" : "the document", document->name, document->version));
    TRY(json_write_canonical(text, document->json, err));
    TRY(buffer_format(text, err, "\n\nProven, given the keys of the log and of the root:\n  - %s;\n",
                      legal_hold_persons(document) > 1 ? "two approvers of different principals have signed exactly this"
                                                       : "an approver, or the root, has signed exactly this"));
    TRY(buffer_format(text, err, "  - entry %" PRIu64 " of the log %s says that it came into force,\n    at %s.\n", proof->index,
                      proof->checkpoint.origin, recorded));
    TRY(certificate_witnesses_text(proof, text, err));
    return buffer_add_text(
        text,
        "\nNot proven:\n"
        "  - that no later version is in force: ask the registry for the newest event\n    about this hold;\n"
        "  - that no key of these signers had been withdrawn before: whoever wrote the\n    file may have left that out.\n",
        err);
}

struct result hold_export_report_json(const struct hold_export_report *report, struct buffer *text, struct error *err)
{
    const struct proof_report *proof = &report->proof;
    char recorded[CLOCK_TEXT_SIZE];

    clock_format(proof->event.time_ms, recorded);
    TRY(buffer_format(text, err, "{\"verified\":true,\"entry\":%" PRIu64 ",\"recorded_at\":\"%s\",\"persons\":%u,\"origin\":",
                      proof->index, recorded, legal_hold_persons(report->document)));
    TRY(json_write_string(text, bytes_of_text(proof->checkpoint.origin), err));
    TRY(buffer_add_text(text, ",\"document\":", err));
    TRY(json_write_canonical(text, report->document->json, err));
    return buffer_add_text(text, "}\n", err);
}
