#include "training/format/run_keys.h"

#include <string.h>

#include "audit/format/proof_check.h"
#include "base/json.h"

static struct result read_document(const json_t *entry, struct document **document_out, struct error *err)
{
    const json_t *list = json_object_get(entry, "envelopes");
    struct bytes envelopes[DOCUMENT_SIGNATURES_MAX];
    OWNED(document) *document = NULL;
    const size_t count = json_array_size(list);

    for (size_t i = 0; i < count; i++) envelopes[i] = bytes_of_text(json_string_value(json_array_get(list, i)));
    TRY(document_read(envelopes, count, &document, err));
    if (document->kind != DOCUMENT_SIGNING_KEY && document->kind != DOCUMENT_RUNNER && document->kind != DOCUMENT_TRUST_RULE)
        return failure(err, ERROR_DENIED, "a bundle's documents are keys of persons and of runners, and a trust rule");
    *document_out = GIVE(document);
    return SUCCESS;
}

/* The document must be in the log, and be signed by keys that counted at that time. */
static struct result add(const json_t *entry, const struct run_trust *trust, struct document_trust *approvers,
                         struct run_keys *keys, struct error *err)
{
    const struct bytes leaf = bytes_of_text(json_text_of(entry, "entry"));
    OWNED(document) *document = NULL;
    struct proof_report report;

    TRY(read_document(entry, &document, err));
    TRY(proof_check_cosigned(&(struct proof_trust){trust->log_key, trust->policy}, leaf,
                             bytes_of_text(json_text_of(entry, "proof")), &report, err));
    TRY(document_check_event(document, leaf, report.index, err));
    if (keys->count > 0 && keys->each[keys->count - 1].sequence >= report.index)
        return failure(err, ERROR_DENIED, "the documents of a bundle are in the order of the log");
    approvers->now_ms = report.event.time_ms;
    TRY(document_check(document, approvers, err));
    if (document->kind == DOCUMENT_SIGNING_KEY) TRY(signing_key_note(document, approvers->approvers, approvers->now_ms, err));
    keys->each[keys->count++] =
        (struct run_key){.document = GIVE(document), .sequence = report.index, .time_ms = report.event.time_ms};
    return SUCCESS;
}

struct result run_keys_read(const json_t *documents, const struct run_trust *trust, struct run_keys *keys, struct error *err)
{
    struct document_trust approvers = {.now_ms = 0};
    struct error why = {0};

    memcpy(approvers.root, trust->root, sizeof approvers.root);
    for (size_t i = 0; i < json_array_size(documents); i++)
        if (!add(json_array_get(documents, i), trust, &approvers, keys, &why).ok)
            return failure(err, why.kind == ERROR_NOT_FOUND ? ERROR_DENIED : why.kind, "document %zu: %.200s", i + 1,
                           why.message);
    return SUCCESS;
}

static bool is_named(const struct run_key *key, enum document_kind kind, const char *keyid, bool is_withdrawal)
{
    return key->document->kind == kind && key->document->is_withdrawn == is_withdrawal && strcmp(key->document->name, keyid) == 0;
}

bool run_scope_covers(const char *scope, const char *project)
{
    const size_t length = strlen(scope);

    return length == 0 || (strncmp(project, scope, length) == 0 && (project[length] == '/' || project[length] == '\0'));
}

static const struct run_key *find(const struct run_keys *keys, enum document_kind kind, const char *keyid, bool is_withdrawal)
{
    for (size_t i = 0; i < keys->count; i++)
        if (is_named(&keys->each[i], kind, keyid, is_withdrawal)) return &keys->each[i];
    return NULL;
}

static bool is_alive(const struct run_key *key, int64_t from_ms, int64_t until_ms)
{
    return key->document->effective_ms <= from_ms && key->time_ms <= from_ms && until_ms < key->document->expires_ms;
}

struct result run_keys_person(const struct run_keys *keys, const char *keyid, const struct run_use *use,
                              struct ecdsa_key **key_out, struct error *err)
{
    const struct run_key *enrolled = find(keys, DOCUMENT_SIGNING_KEY, keyid, false);
    const struct run_key *withdrawn = find(keys, DOCUMENT_SIGNING_KEY, keyid, true);
    struct signing_key key;

    if (enrolled == NULL || enrolled->sequence >= use->sequence || !is_alive(enrolled, use->time_ms, use->time_ms))
        return failure(err, ERROR_DENIED, "no document of the bundle had the key %.43s in force", keyid);
    if (withdrawn != NULL && withdrawn->sequence < use->sequence)
        return failure(err, ERROR_DENIED, "the key %.43s was withdrawn before", keyid);
    TRY(signing_key_read(enrolled->document, &key, err));
    if (strcmp(key.principal, use->principal) != 0 || !run_scope_covers(enrolled->document->scope, use->project))
        return failure(err, ERROR_DENIED, "the key %.43s is not one of %.79s for the project %.80s", keyid, use->principal,
                       use->project);
    if (key.purpose != SIGNING_SIGN && !use->is_approval)
        return failure(err, ERROR_DENIED, "the key %.43s was enrolled to approve documents, and does not sign requests", keyid);
    return ecdsa_key_from_public(key.point, key_out, err);
}

/* There may be several withdrawals: the earliest `since` counts. */
static struct result check_withdrawals(const struct run_keys *keys, const char *keyid, int64_t until_ms, struct error *err)
{
    for (size_t i = 0; i < keys->count; i++) {
        struct runner_key withdrawn;
        if (!is_named(&keys->each[i], DOCUMENT_RUNNER, keyid, true)) continue;
        TRY(runner_key_read(keys->each[i].document, &withdrawn, err));
        if (withdrawn.since_ms <= until_ms)
            return failure(err, ERROR_DENIED, "the runner's key %.43s was withdrawn since then", keyid);
    }
    return SUCCESS;
}

struct result run_keys_runner(const struct run_keys *keys, const char *keyid, const struct run_runner_use *use,
                              struct runner_key *runner_out, struct error *err)
{
    const struct run_key *enrolled = find(keys, DOCUMENT_RUNNER, keyid, false);

    if (enrolled == NULL || !is_alive(enrolled, use->from_ms, use->from_ms))
        return failure(err, ERROR_DENIED, "no document of the bundle had the runner's key %.43s in force", keyid);
    if (!is_alive(enrolled, use->from_ms, use->until_ms))
        return failure(err, ERROR_DENIED, "the document of the runner's key %.43s ends before its lease, or before the admission",
                       keyid);
    if (!run_scope_covers(enrolled->document->scope, use->project))
        return failure(err, ERROR_DENIED, "the runner's key %.43s is enrolled for %.80s, and not for the project %.80s", keyid,
                       enrolled->document->scope, use->project);
    TRY(check_withdrawals(keys, keyid, use->until_ms, err));
    return runner_key_read(enrolled->document, runner_out, err);
}

void run_keys_done(struct run_keys *keys)
{
    for (size_t i = 0; i < keys->count; i++) document_free(keys->each[i].document);
    keys->count = 0;
}
