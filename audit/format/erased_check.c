/* Checks that a certificate of erasure is genuine, and that it is about the events and the document that come with it. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "audit/format/erased.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "crypto/digest.h"
#include "crypto/dsse.h"

/* One of the two events, with what the certificate says of it. */
struct event_wanted {
    const char *entry, *proof, *action, *outcome;
    uint64_t sequence;
    const uint8_t *hash;
};

static struct result check_event(const struct proof_trust *trust, const struct erased *erased, const struct event_wanted *wanted,
                                 struct proof_report *report, struct error *err)
{
    struct merkle_hash hash;

    if (wanted->entry == NULL || wanted->proof == NULL)
        return failure(err, ERROR_INVALID, "the file lacks an entry of the log, or its proof");
    TRY(proof_check_cosigned(trust, bytes_of_text(wanted->entry), bytes_of_text(wanted->proof), report, err));
    merkle_leaf_hash(bytes_of_text(wanted->entry), &hash);
    if (strcmp(erased->origin, report->checkpoint.origin) != 0 || wanted->sequence != report->index ||
        memcmp(wanted->hash, hash.bytes, sizeof hash.bytes) != 0)
        return failure(err, ERROR_DENIED, "the certificate is about other entries than those that come with it");
    if (!report->is_event || report->event.target_count != 1 || strcmp(report->event.targets[0].action, wanted->action) != 0 ||
        strcmp(report->event.outcome, wanted->outcome) != 0)
        return failure(err, ERROR_DENIED, "entry %llu is no event %s, %s", (unsigned long long)wanted->sequence, wanted->action,
                       wanted->outcome);
    return SUCCESS;
}

/* "#sha256:ENVELOPES VERSION sha256:DOCUMENT" */
static bool names_document(const struct leaf_target *target, struct bytes document)
{
    char wanted[sizeof " sha256:" + 2 * SHA256_SIZE] = " sha256:";
    uint8_t digest[SHA256_SIZE];
    const size_t length = strlen(target->resource);

    sha256_of(document, digest);
    text_hex(digest, sizeof digest, wanted + strlen(wanted));
    return length > strlen(wanted) && strcmp(target->resource + length - strlen(wanted), wanted) == 0;
}

static struct result check_document(const struct erased *erased, const struct leaf_target *asked, const char *document,
                                    struct error *err)
{
    OWNED_JSON object = NULL;

    if (document == NULL) return failure(err, ERROR_INVALID, "the file has no document");
    if (!names_document(asked, bytes_of_text(document)))
        return failure(err, ERROR_DENIED, "the log's entry names another document than the one that comes with it");
    TRY(json_read(bytes_of_text(document), ERASED_DOCUMENT_MAX, &object, err));
    const char *kind = json_text_of(object, "kind"), *name = json_text_of(object, "name");
    if (kind == NULL || name == NULL || strcmp(kind, "erasure") != 0 || strcmp(name, erased->pseudonym) != 0)
        return failure(err, ERROR_DENIED, "the document does not ask for the erasure of this pseudonym");
    return SUCCESS;
}

static struct result read_certificate(const json_t *bundle, const struct ecdsa_key *signer, struct erased *erased_out,
                                      struct error *err)
{
    struct buffer OWNED_BUFFER envelope = BUFFER(ERASED_ENVELOPE_MAX);
    const json_t *object = json_object_get(bundle, "certificate");
    OWNED(dsse) *dsse = NULL;

    if (!json_is_object(object)) return failure(err, ERROR_INVALID, "the file has no certificate");
    TRY(json_write_canonical(&envelope, object, err));
    TRY(dsse_read(buffer_bytes(&envelope), ERASED_ENVELOPE_MAX, &dsse, err));
    if (strcmp(dsse->payload_type, ERASED_TYPE) != 0)
        return failure(err, ERROR_DENIED, "the signed document is no certificate of erasure");
    TRY(dsse_check_signer(dsse, signer, err));
    return erased_read(buffer_bytes(&dsse->payload), erased_out, err);
}

bool erased_is_bundle(struct bytes bundle)
{
    struct error ignored = {0};
    OWNED_JSON object = NULL;

    return json_read(bundle, ERASED_BUNDLE_MAX, &object, &ignored).ok && json_object_get(object, "asked_proof") != NULL;
}

static struct result check_resource(const struct erased *erased, const struct leaf_target *done, struct error *err)
{
    char resource[sizeof erased->pseudonym + 1];

    (void)snprintf(resource, sizeof resource, "#%s", erased->pseudonym);
    if (strcmp(done->resource, resource) == 0) return SUCCESS;
    return failure(err, ERROR_DENIED, "the log's entry is about the erasure of another person");
}

struct result erased_check(const struct proof_trust *trust, const struct ecdsa_key *signer, struct bytes bundle_text,
                           struct erased_report *report_out, struct error *err)
{
    struct erased_report report = {.erased = {.asked = 0}};
    struct erased *erased = &report.erased;
    OWNED_JSON bundle = NULL;

    TRY(json_read(bundle_text, ERASED_BUNDLE_MAX, &bundle, err));
    TRY(read_certificate(bundle, signer, erased, err));
    const struct event_wanted asked = {json_text_of(bundle, "asked"),
                                       json_text_of(bundle, "asked_proof"),
                                       ERASED_ASKED,
                                       "allowed",
                                       erased->asked,
                                       erased->asked_hash};
    const struct event_wanted done = {json_text_of(bundle, "erased"),
                                      json_text_of(bundle, "erased_proof"),
                                      ERASED_DONE,
                                      "completed",
                                      erased->done,
                                      erased->done_hash};
    TRY(check_event(trust, erased, &asked, &report.proof, err));
    TRY(check_document(erased, &report.proof.event.targets[0], json_text_of(bundle, "document"), err));
    TRY(check_event(trust, erased, &done, &report.proof, err));
    TRY(check_resource(erased, &report.proof.event.targets[0], err));
    *report_out = report;
    return SUCCESS;
}

static struct result write_stage(const struct erased *erased, struct buffer *text, struct error *err)
{
    if (erased->stage == 1)
        return buffer_format(
            text, err,
            "Stage 1 of 2: the key is destroyed in the database; epoch %u of the keys that wrapped it still exists.\n"
            "  A copy of the database from before gives the person back to those that hold sijil-keyd's key ring.\n",
            erased->key_version);
    return buffer_format(
        text, err,
        "Stage 2 of 2: the key is destroyed, and sijil-keyd holds no epoch that it was ever wrapped under (%u and\n"
        "  older): no copy of the database opens the sealed parts.\n",
        erased->key_version);
}

struct result erased_report_text(const struct erased_report *report, struct buffer *text, struct error *err)
{
    const struct erased *erased = &report->erased;
    char done[CLOCK_TEXT_SIZE], issued[CLOCK_TEXT_SIZE];

    clock_format(erased->erased_ms, done);
    clock_format(erased->issued_ms, issued);
    TRY(buffer_format(text, err,
                      "Verified: a certificate of erasure, issued at %s by the registry of the log %s.\n\n"
                      "The person with the pseudonym %s:\n  erased at %s, with %" PRIu64
                      " sealed parts; asked for by entry %" PRIu64 ", done by entry %" PRIu64 ".\n",
                      issued, erased->origin, erased->pseudonym, done, erased->payloads, erased->asked, erased->done));
    TRY(write_stage(erased, text, err));
    TRY(buffer_add_text(
        text,
        "\nProven: the log's signer recorded both entries, the first one names the document that comes with it, and\n"
        "sijil-keyd signed this statement.\n",
        err));
    TRY(certificate_witnesses_text(&report->proof, text, err));
    return buffer_add_text(
        text,
        "Not proven:\n"
        "  - that the gateway told sijil-keyd the true epoch of the person's key, and that the key is gone from the database;\n"
        "  - that no backup of the key ring holds the destroyed epochs: only the operator can know that;\n"
        "  - that nobody kept an export that was opened, or noted the name down;\n"
        "  - who has this pseudonym: after the erasure nobody can compute that.\n",
        err);
}

struct result erased_report_json(const struct erased_report *report, struct buffer *text, struct error *err)
{
    TRY(buffer_add_text(text, "{\"verified\":true,\"certificate\":", err));
    TRY(erased_write(&report->erased, text, err));
    TRY(witness_policy_json(report->proof.policy, &report->proof.witnesses, text, err));
    return buffer_add_text(text, "}\n", err);
}
