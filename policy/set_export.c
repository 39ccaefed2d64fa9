#include "policy/set_export.h"

#include <string.h>

#include "audit/format/policy_load.h"
#include "base/text.h"
#include "policy/set_exceptions.h"

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

static struct result write_links(const struct set_export_link *links, size_t count, struct buffer *text, struct error *err)
{
    for (size_t i = 0; i < count; i++) {
        if (i > 0) TRY(buffer_add_text(text, ",\n", err));
        TRY(write_link(&links[i], text, err));
    }
    return buffer_add_u8(text, ']', err);
}

static struct result write_chain(const struct set_export_link *chain, size_t count, struct buffer *text, struct error *err)
{
    if (count == 0) return SUCCESS;
    TRY(buffer_add_text(text, "\"chain\":[", err));
    TRY(write_links(chain, count, text, err));
    return buffer_add_u8(text, ',', err);
}

static struct result write_restrictions(const struct set_export_parts *parts, struct buffer *text, struct error *err)
{
    if (parts->organisation == NULL) return SUCCESS;
    TRY(buffer_add_text(text, ",\"restrictions\":{\"documents\":[", err));
    TRY(write_links(parts->documents, parts->document_count, text, err));
    TRY(buffer_add_text(text, ",\"organisation\":", err));
    TRY(json_write_string(text, bytes_of_text(parts->organisation), err));
    return buffer_add_u8(text, '}', err);
}

static struct result write_last(const char *kind, const struct set_export_link *last, struct buffer *text, struct error *err)
{
    TRY(buffer_add_text(text, "\"entry\":", err));
    TRY(json_write_string(text, last->entry, err));
    TRY(buffer_add_text(text, ",\"envelopes\":[", err));
    for (size_t i = 0; i < last->count; i++) {
        if (i > 0) TRY(buffer_add_u8(text, ',', err));
        TRY(json_write_string(text, last->envelopes[i], err));
    }
    TRY(buffer_format(text, err, "],\"kind\":\"%s\",\"proof\":", kind));
    return json_write_string(text, last->proof, err);
}

struct result set_export_write(const struct set_export_parts *parts, struct buffer *text, struct error *err)
{
    const struct set_export_link last = {
        .envelopes = {parts->envelope}, .count = 1, .entry = parts->entry, .proof = parts->proof};

    TRY(buffer_add_text(text, "{\"apiVersion\":\"sijil.policy/v1\",", err));
    TRY(write_chain(parts->chain, parts->chain_count, text, err));
    TRY(write_last(SET_EXPORT_KIND, &last, text, err));
    TRY(write_restrictions(parts, text, err));
    return buffer_add_text(text, "}\n", err);
}

struct result hold_export_write(const struct set_export_link *links, size_t count, struct buffer *text, struct error *err)
{
    TRY(buffer_add_text(text, "{\"apiVersion\":\"sijil.policy/v1\",", err));
    TRY(write_chain(links, count - 1, text, err));
    TRY(write_last(HOLD_EXPORT_KIND, &links[count - 1], text, err));
    return buffer_add_text(text, "}\n", err);
}

/* ---- reading ---- */

/* What is checked of a file. */
struct checking {
    const struct proof_trust *trust;        /* NULL: there is no key of the log */
    struct set_chain *chain;                /* NULL: the file has none */
    struct restriction_chain *restrictions; /* NULL: the file has none */
    const json_t *documents;                /* of them, in the order of the log */
    size_t next;                            /* of `documents` */
    struct set_export_link ahead;           /* the next one; count 0: it is not read yet */
    struct proof_report proof, ahead_proof; /* of the entry that was read last; of the next one of `documents` */
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
    const size_t members = 5U + (chain == NULL ? 0U : 1U) + (json_object_get(json, "restrictions") == NULL ? 0U : 1U);
    if (json_object_size(json) == members && last->count == 1 && (chain == NULL || json_array_size(chain) > 0)) return SUCCESS;
    return failure(
        err, ERROR_INVALID,
        "an exported policy set has one envelope, an entry, a proof, a chain if several persons sign, restrictions of an "
        "organisation, and nothing else");
}

static struct result begin_restrictions(struct checking *checking, const json_t *json, struct error *err)
{
    const json_t *restrictions = json_object_get(json, "restrictions");
    const char *organisation = json_text_of(restrictions, "organisation");

    if (restrictions == NULL) return SUCCESS;
    checking->documents = json_object_get(restrictions, "documents");
    if (json_object_size(restrictions) != 2 || organisation == NULL || organisation[0] == '\0' ||
        strlen(organisation) >= DOCUMENT_SCOPE_SIZE || !json_is_array(checking->documents))
        return failure(err, ERROR_INVALID, "the restrictions of an exported policy set are an organisation and documents");
    return restriction_chain_new(organisation, &checking->restrictions, err);
}

/* Without the log's key the entry is taken as it is. */
static struct result read_event(const struct checking *checking, const struct set_export_link *link, struct proof_report *proof,
                                struct error *err)
{
    *proof = (struct proof_report){.is_event = true};
    if (checking->trust == NULL) return leaf_read(link->entry, &proof->event, err);
    TRY(proof_check_cosigned(checking->trust, link->entry, link->proof, proof, err));
    return proof->is_event ? SUCCESS : failure(err, ERROR_DENIED, "the entry of the log is no event");
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
    restriction_chain_free(report->restrictions);
    report->set = NULL;
    report->chain = NULL;
    report->restrictions = NULL;
}

/* ---- the chain ---- */

static struct result as_denied(struct result taken, struct error *err)
{
    if (!taken.ok && err->kind == ERROR_NOT_FOUND) err->kind = ERROR_DENIED; /* another event */
    return taken;
}

static struct set_chain_link link_of(const struct set_export_link *link, const struct proof_report *proof, bool is_followed)
{
    return (struct set_chain_link){link->envelopes,       link->count,          link->entry,
                                   proof->event.sequence, proof->event.time_ms, is_followed};
}

/* The keys of the chain may be those of officers, too. */
static struct result add_link(struct checking *checking, const struct set_export_link *link, bool is_followed, struct error *err)
{
    const struct set_chain_link added = link_of(link, &checking->proof, is_followed);

    TRY(as_denied(set_chain_add(checking->chain, &added, err), err));
    if (checking->restrictions == NULL || strcmp(checking->proof.event.targets[0].action, POLICY_LOAD_ACTION) == 0)
        return SUCCESS;
    return as_denied(restriction_chain_add(checking->restrictions, &added, checking->chain, err), err);
}

static struct result read_exactly(const json_t *json, struct set_export_link *link, struct error *err)
{
    TRY(read_link(json, link, err));
    if (json_object_size(json) == 3) return SUCCESS;
    return failure(err, ERROR_INVALID, "a document of an exported policy set has a member too many");
}

static struct result look_ahead(struct checking *checking, struct error *err)
{
    struct set_export_link link;

    if (checking->ahead.count > 0) return SUCCESS;
    TRY(read_exactly(json_array_get(checking->documents, checking->next), &link, err));
    TRY(read_event(checking, &link, &checking->ahead_proof, err));
    checking->ahead = link;
    return SUCCESS;
}

/* The documents of the organisation whose events come before this number. */
static struct result follow_documents(struct checking *checking, uint64_t until, struct error *err)
{
    while (checking->next < json_array_size(checking->documents)) {
        TRY(look_ahead(checking, err));
        if (checking->ahead_proof.event.sequence >= until) return SUCCESS;
        const struct set_chain_link added = link_of(&checking->ahead, &checking->ahead_proof, true);
        TRY(as_denied(restriction_chain_add(checking->restrictions, &added, checking->chain, err), err));
        checking->ahead.count = 0;
        checking->next++;
    }
    return SUCCESS;
}

static struct result follow_one(struct checking *checking, const struct set_export_link *link, bool is_followed,
                                struct error *err)
{
    TRY(read_event(checking, link, &checking->proof, err));
    TRY(follow_documents(checking, checking->proof.event.sequence, err));
    return add_link(checking, link, is_followed, err);
}

static struct result follow_chain(struct checking *checking, const json_t *chain, struct error *err)
{
    for (size_t i = 0; i < json_array_size(chain); i++) {
        struct set_export_link link;
        TRY(read_exactly(json_array_get(chain, i), &link, err));
        TRY(follow_one(checking, &link, true, err));
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

    TRY(begin_restrictions(checking, json, err));
    if (chain == NULL && checking->restrictions == NULL) {
        TRY(read_event(checking, last, &checking->proof, err));
        return read_alone(last, root, set_out, err);
    }
    TRY(set_chain_new(root, &checking->chain, err));
    TRY(follow_chain(checking, chain, err));
    TRY(follow_one(checking, last, false, err));
    TRY(follow_documents(checking, UINT64_MAX, err));
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

static struct result check_all(struct bytes text, struct checking *checking, const struct ecdsa_key *root,
                               struct set_export_report *report_out, struct error *err)
{
    struct policy_set *set = NULL;
    const struct result checked = check_file(text, checking, root, &set, err);

    if (checked.ok) {
        *report_out = (struct set_export_report){checking->proof, checking->chain, set, checking->restrictions};
        return SUCCESS;
    }
    set_chain_free(checking->chain);
    restriction_chain_free(checking->restrictions);
    return checked;
}

struct result set_export_check(struct bytes text, const struct proof_trust *trust, const struct ecdsa_key *root,
                               struct set_export_report *report_out, struct error *err)
{
    struct checking checking = {.trust = trust};

    return check_all(text, &checking, root, report_out, err);
}

struct result set_export_open(struct bytes text, const struct ecdsa_key *root, struct set_export_report *report_out,
                              struct error *err)
{
    struct checking checking = {.trust = NULL};

    return check_all(text, &checking, root, report_out, err);
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
    TRY(read_event(checking, &last, &checking->proof, err));
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
