/* The documents that prove the keys of a run. */
#include <stdio.h>
#include <string.h>

#include "audit/query.h"
#include "training/bundle_priv.h"

#define ENTRY_MAX (128 * 1024) /* bytes of an entry, or of a proof */

struct key_reader {
    const struct permit *permit;
    const struct run_bundle_source *source;
    enum action action;
    struct key_documents *documents;
};

void key_documents_done(struct key_documents *documents)
{
    for (size_t i = 0; i < documents->count; i++) {
        document_free(documents->each[i].document);
        document_proof_free(documents->each[i].envelopes);
    }
    documents->count = 0;
}

static struct result read_one(const struct key_reader *reader, enum document_kind kind, uint64_t sequence,
                              struct key_document *one_out, struct error *err)
{
    const struct document_proof_query query = {reader->action, "", kind, sequence};
    OWNED(document_proof) *envelopes = NULL;
    struct document *document = NULL;

    TRY(document_envelopes_of_key(reader->permit, reader->source->pg, &query, &envelopes, err));
    TRY(document_read(envelopes->request.envelopes, envelopes->request.envelope_count, &document, err));
    *one_out = (struct key_document){sequence, GIVE(envelopes), document};
    return SUCCESS;
}

static void drop(struct key_document *one)
{
    document_free(one->document);
    document_proof_free(one->envelopes);
}

/* The list takes it over. */
static struct result put(struct key_documents *documents, struct key_document *one, struct error *err)
{
    size_t at = 0;

    while (at < documents->count && documents->each[at].sequence < one->sequence) at++;
    if (at < documents->count && documents->each[at].sequence == one->sequence) {
        drop(one);
        return SUCCESS;
    }
    if (documents->count == RUN_DOCUMENTS_MAX) {
        drop(one);
        return failure(err, ERROR_LIMIT, "the keys of this run have more than %d documents", RUN_DOCUMENTS_MAX);
    }
    memmove(&documents->each[at + 1], &documents->each[at], (documents->count++ - at) * sizeof *one);
    documents->each[at] = *one;
    return SUCCESS;
}

/* Of a runner's withdrawals the one with the earliest `since` counts, and a bundle has no other. *counts_out: whether `one` is it, as far as is known. */
static struct result make_way(struct key_documents *documents, const struct key_document *one, bool *counts_out,
                              struct error *err)
{
    struct runner_key key, known;

    *counts_out = true;
    if (one->document->kind != DOCUMENT_RUNNER || !one->document->is_withdrawn) return SUCCESS;
    TRY(runner_key_read(one->document, &key, err));
    for (size_t i = 0; i < documents->count; i++) {
        const struct document *other = documents->each[i].document;
        if (other->kind != DOCUMENT_RUNNER || !other->is_withdrawn || strcmp(other->name, one->document->name) != 0) continue;
        TRY(runner_key_read(other, &known, err));
        *counts_out = key.since_ms < known.since_ms;
        if (!*counts_out) return SUCCESS;
        drop(&documents->each[i]);
        memmove(&documents->each[i], &documents->each[i + 1], (--documents->count - i) * sizeof documents->each[0]);
        return SUCCESS;
    }
    return SUCCESS;
}

/* The list takes it over. */
static struct result put_if_it_counts(struct key_documents *documents, struct key_document *one, struct error *err)
{
    bool counts = false;
    const struct result made = make_way(documents, one, &counts, err);

    if (made.ok && counts) return put(documents, one, err);
    drop(one);
    return made;
}

static bool is_usable(const struct document *document, const struct key_use *use)
{
    if (document->is_withdrawn || !run_scope_covers(document->scope, use->project)) return false;
    if (use->at_ms == 0) return true;
    return document->effective_ms <= use->at_ms && (document->expires_ms == 0 || use->at_ms < document->expires_ms);
}

/* A key may be enrolled in several scopes: one enrolment that counts is enough, because a verifier takes the first. */
static struct result add_history(const struct key_reader *reader, const struct key_use *use,
                                 const struct document_history *history, struct error *err)
{
    bool has_enrolment = false;

    for (size_t i = 0; i < history->count; i++) {
        struct key_document one;
        TRY(read_one(reader, use->kind, history->sequences[i], &one, err));
        const bool is_enrolment = !has_enrolment && is_usable(one.document, use);
        if (!is_enrolment && !one.document->is_withdrawn) {
            drop(&one);
            continue;
        }
        has_enrolment = has_enrolment || is_enrolment;
        TRY(put_if_it_counts(reader->documents, &one, err));
    }
    return SUCCESS;
}

static struct result add_key(const struct key_reader *reader, const struct key_use *use, struct error *err)
{
    struct document_history history;

    TRY(document_view_history(reader->source->documents, use->kind, use->name, &history, err));
    return add_history(reader, use, &history, err);
}

/* ---- approvers ---- */

static bool has(const struct key_documents *documents, const char *name)
{
    for (size_t i = 0; i < documents->count; i++)
        if (documents->each[i].document->kind == DOCUMENT_SIGNING_KEY && strcmp(documents->each[i].document->name, name) == 0)
            return true;
    return false;
}

/* An approver's key is one of the registry. The verifier knows the time at which it must have counted. */
static struct result add_approver(const struct key_reader *reader, const char *name, struct error *err)
{
    const struct key_use use = {.kind = DOCUMENT_SIGNING_KEY, .name = name, .project = ""};

    return has(reader->documents, name) ? SUCCESS : add_key(reader, &use, err);
}

/* By the names that the envelopes give for their keys. */
static struct result add_named(const struct key_reader *reader, const struct document *document, struct error *err)
{
    for (size_t i = 0; i < document->signature_count; i++) {
        const struct dsse *envelope = document->signatures[i];
        const char *name = envelope->signature_count == 0 ? "" : envelope->signatures[0].keyid;
        if (strlen(name) == ECDSA_THUMBPRINT_SIZE - 1 && strcmp(name, document->name) != 0) TRY(add_approver(reader, name, err));
    }
    return SUCCESS;
}

/* An envelope need not name its key: then the approvers of today are tried. */
static struct result add_signers(const struct key_reader *reader, const struct keyd_documents *known,
                                 const struct document *document, struct error *err)
{
    static const uint8_t unused[ECDSA_PUBLIC_SIZE];
    char name[ECDSA_THUMBPRINT_SIZE];

    TRY(add_named(reader, document, err));
    for (size_t i = 0; i < DOCUMENT_APPROVERS_MAX; i++) {
        bool is_signed = false;
        if (memcmp(known->approvers[i].point, unused, sizeof unused) == 0) continue;
        TRY(document_is_signed_by(document, known->approvers[i].point, &is_signed, err));
        if (!is_signed) continue;
        ecdsa_thumbprint(known->approvers[i].point, name);
        TRY(add_approver(reader, name, err));
    }
    return SUCCESS;
}

/* Only the root approves approvers, so those of the new documents are all. */
static struct result add_all_signers(const struct key_reader *reader, struct error *err)
{
    const struct document *found[RUN_DOCUMENTS_MAX];
    const size_t count = reader->documents->count;
    struct keyd_documents known;

    TRY(keyd_ask_documents(reader->source->keyd, &known, err));
    for (size_t i = 0; i < count; i++) found[i] = reader->documents->each[i].document;
    for (size_t i = 0; i < count; i++) TRY(add_signers(reader, &known, found[i], err));
    return SUCCESS;
}

/* A runner may have several nodes. */
static bool has_runner(const struct key_documents *documents, const struct key_use *use)
{
    for (size_t i = 0; use->kind == DOCUMENT_RUNNER && i < documents->count; i++)
        if (documents->each[i].document->kind == DOCUMENT_RUNNER && strcmp(documents->each[i].document->name, use->name) == 0)
            return true;
    return false;
}

struct result key_documents_add(const struct permit *permit, const struct run_bundle_source *source, enum action action,
                                const struct key_use *use, struct key_documents *documents, struct error *err)
{
    const struct key_reader reader = {permit, source, action, documents};

    return has_runner(documents, use) ? SUCCESS : add_key(&reader, use, err);
}

/* ---- the trust rule ---- */

/* No scope has a colon. *is_there_out: the view has such a rule. */
static struct result find_rule(const struct key_reader *reader, const struct rule_use *use, uint64_t *sequence_out,
                               bool *is_there_out, struct error *err)
{
    char scope[DOCUMENT_SCOPE_SIZE];
    const char *colon = strchr(use->subject, ':');
    struct error why = {0};

    *is_there_out = false;
    if (colon == NULL || (size_t)(colon - use->subject) >= sizeof scope) return SUCCESS;
    (void)snprintf(scope, sizeof scope, "%.*s", (int)(colon - use->subject), use->subject);
    const struct view_version wanted = {scope, colon + 1, use->before};
    *is_there_out = document_view_rule_before(reader->source->documents, &wanted, sequence_out, &why).ok;
    if (*is_there_out || why.kind == ERROR_NOT_FOUND) return SUCCESS;
    return failure(err, why.kind, "%s", why.message);
}

struct result key_documents_add_rule(const struct permit *permit, const struct run_bundle_source *source, enum action action,
                                     const struct rule_use *use, struct key_documents *documents, struct error *err)
{
    const struct key_reader reader = {permit, source, action, documents};
    struct key_document one;
    uint64_t sequence = 0;
    bool is_there = false;

    TRY(find_rule(&reader, use, &sequence, &is_there, err));
    if (!is_there) return SUCCESS;
    TRY(read_one(&reader, DOCUMENT_TRUST_RULE, sequence, &one, err));
    return put(documents, &one, err);
}

struct result key_documents_add_signers(const struct permit *permit, const struct run_bundle_source *source, enum action action,
                                        struct key_documents *documents, struct error *err)
{
    const struct key_reader reader = {permit, source, action, documents};

    return add_all_signers(&reader, err);
}

/* ---- writing ---- */

struct result bundle_set_text(json_t *object, const char *member, struct bytes text, struct error *err)
{
    const unsigned lacks = json_lacks();
    json_t *value = json_stringn((const char *)text.data, text.length);

    if (value != NULL && json_object_set_new(object, member, value) == 0) return SUCCESS;
    return failure(err, json_lacks() == lacks ? ERROR_INVALID : ERROR_NO_MEMORY, "%s of a bundle can't be written", member);
}

struct result bundle_checkpoint(const struct run_bundle_source *source, const struct signed_checkpoint *published, uint64_t entry,
                                struct signed_checkpoint *checkpoint_out, struct error *err)
{
    if (published != NULL && published->size > entry) {
        *checkpoint_out = *published;
        return SUCCESS;
    }
    TRY(sequencer_await_signed(source->sequencer, entry, err));
    return sequencer_checkpoint(source->sequencer, checkpoint_out, err);
}

static struct result write_envelopes(const struct key_document *one, json_t *list, struct error *err)
{
    const struct document_chain_request *request = &one->envelopes->request;

    for (size_t i = 0; i < request->envelope_count; i++) {
        const struct bytes envelope = request->envelopes[i];
        if (json_array_append_new(list, json_stringn((const char *)envelope.data, envelope.length)) != 0)
            return failure(err, ERROR_NO_MEMORY, "no memory for the documents of a bundle");
    }
    return SUCCESS;
}

static struct result write_one(const struct key_reader *reader, const struct key_document *one,
                               const struct signed_checkpoint *checkpoint, json_t *list, struct error *err)
{
    struct buffer OWNED_BUFFER entry = BUFFER(ENTRY_MAX), proof = BUFFER(ENTRY_MAX);
    json_t *envelopes = json_array();
    OWNED_JSON object = json_pack("{s:o}", "envelopes", envelopes);

    if (object == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the documents of a bundle");
    TRY(audit_prove_run(reader->permit, reader->source->pg, &(struct run_entry){reader->action, one->sequence, checkpoint},
                        &(struct proven_entry){&entry, &proof}, err));
    TRY(write_envelopes(one, envelopes, err));
    TRY(bundle_set_text(object, "entry", buffer_bytes(&entry), err));
    TRY(bundle_set_text(object, "proof", buffer_bytes(&proof), err));
    if (json_array_append(list, object) == 0) return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for the documents of a bundle");
}

struct result key_documents_write(const struct permit *permit, const struct run_bundle_source *source, enum action action,
                                  const struct key_documents *documents, json_t *bundle, struct error *err)
{
    const struct key_reader reader = {permit, source, action, NULL};
    const uint64_t last = documents->count == 0 ? 0 : documents->each[documents->count - 1].sequence;
    struct signed_checkpoint checkpoint;
    OWNED_JSON list = json_array();

    if (list == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the documents of a bundle");
    TRY(bundle_checkpoint(source, documents->published, last, &checkpoint, err));
    for (size_t i = 0; i < documents->count; i++) TRY(write_one(&reader, &documents->each[i], &checkpoint, list, err));
    if (json_object_set(bundle, "documents", list) == 0) return SUCCESS;
    return failure(err, ERROR_NO_MEMORY, "no memory for the documents of a bundle");
}
