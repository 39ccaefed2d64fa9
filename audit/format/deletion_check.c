/* Checks that a certificate of deletion is genuine, and that it is about the entry that comes with it. */
#include <inttypes.h>
#include <string.h>

#include "audit/format/deletion.h"
#include "base/clock.h"
#include "base/json.h"
#include "base/text.h"
#include "crypto/dsse.h"

/* "acme/models#sha256:..." */
static bool is_about(const struct leaf_target *target, const struct deletion *deletion)
{
    const size_t name = strlen(deletion->name);

    return strcmp(target->action, DELETION_ACTION) == 0 && strncmp(target->resource, deletion->name, name) == 0 &&
           target->resource[name] == '#' && strcmp(target->resource + name + 1, deletion->digest) == 0 &&
           strcmp(target->region, deletion->region) == 0;
}

static struct result check_entry(const struct deletion *deletion, const struct proof_report *proof, struct bytes entry,
                                 struct error *err)
{
    struct merkle_hash hash;

    merkle_leaf_hash(entry, &hash);
    if (strcmp(deletion->origin, proof->checkpoint.origin) != 0 || deletion->sequence != proof->index ||
        memcmp(deletion->leaf_hash, hash.bytes, sizeof deletion->leaf_hash) != 0)
        return failure(err, ERROR_DENIED, "the certificate is about another entry than the one that comes with it");
    if (!proof->is_event || proof->event.target_count != 1 || !is_about(&proof->event.targets[0], deletion))
        return failure(err, ERROR_DENIED, "the log's entry does not say that the key of this content was forgotten");
    return SUCCESS;
}

static struct result read_certificate(const json_t *bundle, const struct ecdsa_key *signer, struct deletion *deletion_out,
                                      struct error *err)
{
    struct buffer OWNED_BUFFER envelope = BUFFER(DELETION_ENVELOPE_MAX);
    const json_t *object = json_object_get(bundle, "certificate");
    OWNED(dsse) *dsse = NULL;

    if (!json_is_object(object)) return failure(err, ERROR_INVALID, "the file has no certificate");
    TRY(json_write_canonical(&envelope, object, err));
    TRY(dsse_read(buffer_bytes(&envelope), DELETION_ENVELOPE_MAX, &dsse, err));
    if (strcmp(dsse->payload_type, DELETION_TYPE) != 0)
        return failure(err, ERROR_DENIED, "the signed document is no certificate of deletion");
    TRY(dsse_check_signer(dsse, signer, err));
    return deletion_read(buffer_bytes(&dsse->payload), deletion_out, err);
}

struct result deletion_check(const struct proof_trust *trust, const struct ecdsa_key *signer, struct bytes bundle_text,
                             struct deletion_report *report_out, struct error *err)
{
    struct deletion_report report = {.deletion = {.sequence = 0}};
    OWNED_JSON bundle = NULL;

    TRY(json_read(bundle_text, DELETION_BUNDLE_MAX, &bundle, err));
    const char *entry = json_text_of(bundle, "entry"), *proof = json_text_of(bundle, "proof");
    if (entry == NULL || proof == NULL) return failure(err, ERROR_INVALID, "the file has no entry and proof of the log");
    TRY(read_certificate(bundle, signer, &report.deletion, err));
    TRY(proof_check_cosigned(trust, bytes_of_text(entry), bytes_of_text(proof), &report.proof, err));
    TRY(check_entry(&report.deletion, &report.proof, bytes_of_text(entry), err));
    *report_out = report;
    return SUCCESS;
}

static struct result write_stage(const struct deletion *deletion, struct buffer *text, struct error *err)
{
    char when[CLOCK_TEXT_SIZE];

    if (deletion->keyd[0] != '\0')
        return buffer_format(
            text, err,
            "Stage 1 of 2: the wrapped key is forgotten. Version %u of the key-encryption key was with the region's\n"
            "  own sijil-keyd alone, %s. Only its operator can show that it\n"
            "  destroyed that version and older ones; until then a backup of the database opens the content.\n",
            deletion->key_version, deletion->keyd);
    if (deletion->stage == 1)
        return buffer_format(text, err,
                             "Stage 1 of 2: the wrapped key is forgotten; version %u of the key-encryption key, or an older\n"
                             "  one, still exists. A backup of the database that holds the wrapped key opens the content.\n",
                             deletion->key_version);
    TRY(buffer_format(text, err,
                      "Stage 2 of 2: the wrapped key is forgotten, and sijil-keyd holds no version of the key-encryption\n"
                      "  key that it was ever wrapped under (%u and older).",
                      deletion->key_version));
    if (deletion->destroyed_ms != 0) {
        clock_format(deletion->destroyed_ms, when);
        TRY(buffer_format(text, err, " The last was destroyed at %s.", when));
    }
    return buffer_add_u8(text, '\n', err);
}

struct result deletion_report_text(const struct deletion_report *report, struct buffer *text, struct error *err)
{
    const struct deletion *deletion = &report->deletion;
    char forgotten[CLOCK_TEXT_SIZE], issued[CLOCK_TEXT_SIZE];

    clock_format(deletion->forgotten_ms, forgotten);
    clock_format(deletion->issued_ms, issued);
    TRY(buffer_format(text, err,
                      "Verified: a certificate of deletion, issued at %s by the registry of the log %s.\n\n"
                      "%s of %s in %s, %" PRIu64 " bytes:\n  its key was forgotten at %s (entry %" PRIu64 ").\n",
                      issued, deletion->origin, deletion->digest, deletion->name, deletion->region, deletion->size_bytes,
                      forgotten, deletion->sequence));
    TRY(write_stage(deletion, text, err));
    if (deletion->is_stored_again)
        TRY(buffer_add_text(text, "The same content was pushed again since: it is stored there now, under another key.\n", err));
    TRY(buffer_add_text(text, "\nProven: the log's signer recorded that entry, and sijil-keyd signed this statement.\n", err));
    TRY(certificate_witnesses_text(&report->proof, text, err));
    return buffer_add_text(text,
                           "Not proven:\n"
                           "  - that no backup of the key ring holds the destroyed versions: only the operator can know that;\n"
                           "  - that nobody kept a copy of the content, or was downloading it when it was deleted;\n"
                           "  - that other projects do not hold the same content: each has its own keys.\n",
                           err);
}

struct result deletion_report_json(const struct deletion_report *report, struct buffer *text, struct error *err)
{
    TRY(buffer_add_text(text, "{\"verified\":true,\"certificate\":", err));
    TRY(deletion_write(&report->deletion, text, err));
    TRY(witness_policy_json(report->proof.policy, &report->proof.witnesses, text, err));
    return buffer_add_text(text, "}\n", err);
}
