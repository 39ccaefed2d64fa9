#include "policy/set_export.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "audit/format/policy_load.h"
#include "base/clock.h"
#include "base/text.h"
#include "policy/set_exceptions.h"
#include "policy/set_text.h"

static struct result write_link(const struct set_export_link *link, struct buffer *text, struct error *err)
{
    TRY(buffer_add_text(text, "{\"entry\":", err));
    TRY(json_write_string(text, link->entry, err));
    TRY(buffer_add_text(text, ",\"envelopes\":[", err));
    for (size_t i = 0; i < link->count; i++) {
        if (i > 0) TRY(buffer_add_u8(text, ',', err));
        TRY(json_write_string(text, link->envelopes[i], err));
    }
    TRY(buffer_add_text(text, "],\"proof\":", err));
    TRY(json_write_string(text, link->proof, err));
    return buffer_add_u8(text, '}', err);
}

static struct result write_chain(const struct set_export_link *chain, size_t count, struct buffer *text, struct error *err)
{
    if (count == 0) return SUCCESS;
    TRY(buffer_add_text(text, "\"chain\":[", err));
    for (size_t i = 0; i < count; i++) {
        if (i > 0) TRY(buffer_add_text(text, ",\n", err));
        TRY(write_link(&chain[i], text, err));
    }
    return buffer_add_text(text, "],", err);
}

static struct result write_file(const char *kind, const struct set_export_link *last, struct buffer *text, struct error *err)
{
    TRY(buffer_add_text(text, "\"entry\":", err));
    TRY(json_write_string(text, last->entry, err));
    TRY(buffer_add_text(text, ",\"envelopes\":[", err));
    for (size_t i = 0; i < last->count; i++) {
        if (i > 0) TRY(buffer_add_u8(text, ',', err));
        TRY(json_write_string(text, last->envelopes[i], err));
    }
    TRY(buffer_format(text, err, "],\"kind\":\"%s\",\"proof\":", kind));
    TRY(json_write_string(text, last->proof, err));
    return buffer_add_text(text, "}\n", err);
}

struct result set_export_write(const struct set_export_parts *parts, struct buffer *text, struct error *err)
{
    const struct set_export_link last = {
        .envelopes = {parts->envelope}, .count = 1, .entry = parts->entry, .proof = parts->proof};

    TRY(buffer_add_text(text, "{\"apiVersion\":\"sijil.policy/v1\",", err));
    TRY(write_chain(parts->chain, parts->chain_count, text, err));
    return write_file(SET_EXPORT_KIND, &last, text, err);
}

struct result hold_export_write(const struct set_export_link *links, size_t count, struct buffer *text, struct error *err)
{
    TRY(buffer_add_text(text, "{\"apiVersion\":\"sijil.policy/v1\",", err));
    TRY(write_chain(links, count - 1, text, err));
    return write_file(HOLD_EXPORT_KIND, &links[count - 1], text, err);
}

/* ---- reading ---- */

/* What is checked of a file. */
struct checking {
    const struct proof_trust *trust; /* NULL: there is no key of the log */
    struct set_chain *chain;         /* NULL: the file has none */
    struct proof_report proof;       /* of the entry that was read last */
};

static bool is_of_kind(const json_t *json, const char *wanted)
{
    const char *kind = json_text_of(json, "kind"), *version = json_text_of(json, "apiVersion");

    return kind != NULL && version != NULL && strcmp(kind, wanted) == 0 && strcmp(version, "sijil.policy/v1") == 0;
}

bool set_export_is(const json_t *json)
{
    const char *kind = json_text_of(json, "kind");

    return kind != NULL && strcmp(kind, SET_EXPORT_KIND) == 0;
}

bool hold_export_is(const json_t *json)
{
    return is_of_kind(json, HOLD_EXPORT_KIND);
}

static struct result read_link(const json_t *json, struct set_export_link *link, struct error *err)
{
    const json_t *envelopes = json_object_get(json, "envelopes");
    const char *entry = json_text_of(json, "entry"), *proof = json_text_of(json, "proof");

    *link = (struct set_export_link){.count = json_array_size(envelopes)};
    if (entry == NULL || proof == NULL || link->count == 0 || link->count > DOCUMENT_SIGNATURES_MAX)
        return failure(err, ERROR_INVALID, "a document of an exported policy set has 1 to %d envelopes, an entry and a proof",
                       DOCUMENT_SIGNATURES_MAX);
    link->entry = bytes_of_text(entry);
    link->proof = bytes_of_text(proof);
    for (size_t i = 0; i < link->count; i++) {
        const char *envelope = json_string_value(json_array_get(envelopes, i));
        if (envelope == NULL) return failure(err, ERROR_INVALID, "an envelope of an exported policy set is text");
        link->envelopes[i] = bytes_of_text(envelope);
    }
    return SUCCESS;
}

/* Nothing is ignored: whoever adds a member can't have it taken for checked. */
static struct result read_file(const json_t *json, struct set_export_link *last, struct error *err)
{
    const json_t *chain = json_object_get(json, "chain");

    if (!is_of_kind(json, SET_EXPORT_KIND))
        return failure(err, ERROR_INVALID, "this is no policy set with its proof ('sijil policy export' writes one)");
    TRY(read_link(json, last, err));
    if (json_object_size(json) == (chain == NULL ? 5 : 6) && last->count == 1 && (chain == NULL || json_array_size(chain) > 0))
        return SUCCESS;
    return failure(
        err, ERROR_INVALID,
        "an exported policy set has one envelope, an entry, a proof, and a chain if several persons sign, and nothing else");
}

/* Without the log's key the entry is taken as it is. */
static struct result read_event(struct checking *checking, const struct set_export_link *link, struct error *err)
{
    checking->proof = (struct proof_report){.is_event = true};
    if (checking->trust == NULL) return leaf_read(link->entry, &checking->proof.event, err);
    TRY(proof_check_cosigned(checking->trust, link->entry, link->proof, &checking->proof, err));
    return checking->proof.is_event ? SUCCESS : failure(err, ERROR_DENIED, "the entry of the log is no event");
}

/* The event names the bytes of the envelope, so no other signature and no other set fits it. */
static struct result check_event(const struct leaf *event, const struct policy_set *set, struct error *err)
{
    char detail[1 + POLICY_LOAD_DETAIL_SIZE] = "#";
    uint8_t digest[32];

    if (!text_from_hex(bytes_of_text(policy_set_digest(set) + strlen("sha256:")), digest, sizeof digest))
        return failure(err, ERROR_INVALID, "the set has no digest");
    policy_load_detail(policy_set_envelope(set), policy_set_epoch(set), digest, detail + 1);
    if (event->target_count != 1 || strcmp(event->targets[0].action, POLICY_LOAD_ACTION) != 0 ||
        strcmp(event->outcome, POLICY_LOAD_OUTCOME) != 0)
        return failure(err, ERROR_DENIED, "the entry of the log is no event that loads a policy set");
    if (strcmp(event->targets[0].resource, detail) != 0)
        return failure(err, ERROR_DENIED, "the event of the log loads another policy set, or another signature of this one");
    return SUCCESS;
}

void set_export_report_done(struct set_export_report *report)
{
    policy_set_free(report->set);
    set_chain_free(report->chain);
    report->set = NULL;
    report->chain = NULL;
}

/* ---- the chain ---- */

static struct result add_link(struct checking *checking, const struct set_export_link *link, bool is_followed, struct error *err)
{
    const struct leaf *event = &checking->proof.event;
    const struct set_chain_link added = {link->envelopes, link->count, link->entry, event->sequence, event->time_ms, is_followed};
    const struct result taken = set_chain_add(checking->chain, &added, err);

    if (!taken.ok && err->kind == ERROR_NOT_FOUND) err->kind = ERROR_DENIED; /* another event */
    return taken;
}

static struct result follow_chain(struct checking *checking, const json_t *chain, struct error *err)
{
    for (size_t i = 0; i < json_array_size(chain); i++) {
        const json_t *each = json_array_get(chain, i);
        struct set_export_link link;
        TRY(read_link(each, &link, err));
        if (json_object_size(each) != 3)
            return failure(err, ERROR_INVALID, "a document of an exported policy set has a member too many");
        TRY(read_event(checking, &link, err));
        TRY(add_link(checking, &link, true, err));
    }
    return SUCCESS;
}

/* Nobody but the root need have signed, whose signature is all that can be checked. */
static struct result read_alone(const struct set_export_link *last, const struct ecdsa_key *root, struct policy_set **set_out,
                                struct error *err)
{
    OWNED(policy_set) *set = NULL;

    TRY(policy_set_read(last->envelopes[0], root, &set, err));
    if (policy_set_exception_count(set) > 0)
        return failure(
            err, ERROR_DENIED,
            "the set has exceptions, and the file lacks what shows that those whom they name have signed: export it anew");
    *set_out = GIVE(set);
    return SUCCESS;
}

/* As sijil-keyd counts; without a chain the root has to have signed. */
static struct result check_signers(struct checking *checking, const json_t *json, const struct ecdsa_key *root,
                                   const struct set_export_link *last, struct policy_set **set_out, struct error *err)
{
    const json_t *chain = json_object_get(json, "chain");
    struct set_chain_end end;

    if (chain == NULL) {
        TRY(read_event(checking, last, err));
        return read_alone(last, root, set_out, err);
    }
    TRY(set_chain_new(root, &checking->chain, err));
    TRY(follow_chain(checking, chain, err));
    TRY(read_event(checking, last, err));
    TRY(add_link(checking, last, false, err));
    set_chain_end(checking->chain, &end);
    if (end.set == NULL || !bytes_equal(policy_set_envelope(end.set), last->envelopes[0]))
        return failure(err, ERROR_DENIED, "the last document of the file is no policy set");
    *set_out = policy_set_keep(end.set);
    return SUCCESS;
}

static struct result check_file(struct bytes text, struct checking *checking, const struct ecdsa_key *root,
                                struct policy_set **set_out, struct error *err)
{
    struct set_export_link last;
    OWNED(policy_set) *set = NULL;
    OWNED_JSON json = NULL;

    TRY(json_read(text, SET_EXPORT_MAX, &json, err));
    TRY(read_file(json, &last, err));
    TRY(check_signers(checking, json, root, &last, &set, err));
    TRY(check_event(&checking->proof.event, set, err));
    *set_out = GIVE(set);
    return SUCCESS;
}

struct result set_export_check(struct bytes text, const struct proof_trust *trust, const struct ecdsa_key *root,
                               struct set_export_report *report_out, struct error *err)
{
    struct checking checking = {.trust = trust};
    struct policy_set *set = NULL;
    const struct result checked = check_file(text, &checking, root, &set, err);

    if (checked.ok) *report_out = (struct set_export_report){checking.proof, checking.chain, set};
    else set_chain_free(checking.chain);
    return checked;
}

struct result set_export_open(struct bytes text, const struct ecdsa_key *root, struct policy_set **set_out,
                              struct set_chain **chain_out, struct error *err)
{
    struct checking checking = {.trust = NULL};
    const struct result checked = check_file(text, &checking, root, set_out, err);

    if (checked.ok) *chain_out = checking.chain;
    else set_chain_free(checking.chain);
    return checked;
}

/* ---- the report ---- */

static struct result tell_signers(const struct set_export_report *report, struct buffer *text, struct error *err)
{
    struct buffer OWNED_BUFFER line = BUFFER(1024);
    struct set_chain_end end;

    if (report->chain == NULL) return buffer_add_text(text, "  - the root has signed exactly this set;\n", err);
    set_chain_end(report->chain, &end);
    TRY(set_chain_text(&end, &line, err));
    return set_text_paragraph("  - ", 4, buffer_text(&line), text, err);
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

struct result set_export_report_text(const struct set_export_report *report, struct buffer *text, struct error *err)
{
    const struct proof_report *proof = &report->proof;
    const struct set_reading reading = {.now_ms = proof->event.time_ms};
    char loaded[CLOCK_TEXT_SIZE];

    clock_format(proof->event.time_ms, loaded);
    TRY(buffer_format(text, err,
                      "Verified: the policy set of epoch %" PRIu64 ", digest\n%s.\n\n"
                      "Proven, given the keys of the log and of the root:\n",
                      policy_set_epoch(report->set), policy_set_digest(report->set)));
    TRY(tell_signers(report, text, err));
    TRY(buffer_format(text, err, "  - entry %" PRIu64 " of the log %s says that it was loaded,\n    at %s.\n", proof->index,
                      proof->checkpoint.origin, loaded));
    TRY(certificate_witnesses_text(proof, text, err));
    TRY(buffer_add_text(text, "\nNot proven:\n", err));
    TRY(tell_unknown(report, text, err));
    TRY(buffer_add_text(text,
                        "  - that no later set is in force: ask the registry for the newest event\n    policy.load;\n"
                        "  - that what it says fits a law: it is evidence for a review.\n\n"
                        "The set, as of that time:\n\n",
                        err));
    return policy_set_text(report->set, &reading, text, err);
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
    return buffer_add_text(text, "}\n", err);
}

/* ---- legal holds ---- */

void hold_export_report_done(struct hold_export_report *report)
{
    document_free(report->document);
    report->document = NULL;
}

static struct result check_hold(struct bytes text, struct checking *checking, const struct ecdsa_key *root,
                                struct document **document_out, struct error *err)
{
    const struct leaf *event = &checking->proof.event;
    struct set_export_link last;
    OWNED_JSON json = NULL;

    TRY(json_read(text, SET_EXPORT_MAX, &json, err));
    const json_t *chain = json_object_get(json, "chain");
    if (!hold_export_is(json) || json_object_size(json) != (chain == NULL ? 5 : 6))
        return failure(err, ERROR_INVALID, "this is no legal hold with its proof ('sijil admin hold export' writes one)");
    TRY(read_link(json, &last, err));
    TRY(set_chain_new(root, &checking->chain, err));
    TRY(follow_chain(checking, chain, err));
    TRY(read_event(checking, &last, err));
    const struct set_chain_link link = {last.envelopes, last.count, last.entry, event->sequence, event->time_ms, false};
    const struct result checked = set_chain_check_hold(checking->chain, &link, document_out, err);
    if (!checked.ok && err->kind == ERROR_NOT_FOUND) err->kind = ERROR_DENIED; /* another event */
    return checked;
}

struct result hold_export_check(struct bytes text, const struct proof_trust *trust, const struct ecdsa_key *root,
                                struct hold_export_report *report_out, struct error *err)
{
    struct checking checking = {.trust = trust};
    struct document *document = NULL;
    const struct result checked = check_hold(text, &checking, root, &document, err);

    set_chain_free(checking.chain);
    if (checked.ok) *report_out = (struct hold_export_report){checking.proof, document};
    return checked;
}

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
