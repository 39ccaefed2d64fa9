#include "audit/format/heads.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "audit/format/add_checkpoint.h"
#include "audit/format/text_rules_priv.h"
#include "base/memory.h"
#include "base/text.h"

struct result heads_write(const struct heads *heads, struct buffer *text, struct error *err)
{
    const struct bytes all = {heads->checkpoint.root.bytes, sizeof heads->checkpoint.root.bytes};
    const struct bytes root = {heads->root.bytes, sizeof heads->root.bytes};

    TRY(buffer_format(text, err, HEADS_TITLE "\n%s\n%" PRIu64 "\n", heads->checkpoint.origin, heads->checkpoint.size));
    TRY(text_base64(text, BASE64_STANDARD, all, err));
    TRY(buffer_format(text, err, "\n%" PRIu64 "\n", heads->keys));
    TRY(text_base64(text, BASE64_STANDARD, root, err));
    return buffer_add_u8(text, '\n', err);
}

static bool read_root(struct bytes line, struct merkle_hash *root)
{
    return text_from_base64_exactly(BASE64_STANDARD, line, root->bytes, sizeof root->bytes);
}

struct result heads_read(struct bytes text, struct heads *heads_out, struct error *err)
{
    struct bytes title, origin, size, all, keys, root;
    struct heads heads = {.keys = 0};

    if (!next_line(&text, &title) || !next_line(&text, &origin) || !next_line(&text, &size) || !next_line(&text, &all) ||
        !next_line(&text, &keys) || !next_line(&text, &root) || text.length > 0 ||
        !bytes_equal(title, bytes_of_text(HEADS_TITLE)) || !note_name_is_valid(origin) || origin.length > CHECKPOINT_ORIGIN_MAX ||
        !text_to_u64(size, MERKLE_SIZE_MAX, &heads.checkpoint.size) || !read_root(all, &heads.checkpoint.root) ||
        !text_to_u64(keys, INT64_MAX, &heads.keys) || !read_root(root, &heads.root))
        return failure(
            err, ERROR_INVALID,
            "a statement about the heads of keys has six lines: %s, origin, size, root, number of keys, root over the heads",
            HEADS_TITLE);
    memcpy(heads.checkpoint.origin, origin.data, origin.length);
    *heads_out = heads;
    return SUCCESS;
}

/* ---- with an export ---- */

static struct result open_note(struct bytes bytes, const struct note_key *auditor, struct heads *heads, uint64_t *time_s,
                               struct error *err)
{
    struct note *note = memory_zeroed(1, sizeof *note); /* too large for the stack: the list of signatures is long */

    if (note == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a statement");
    struct result result = note_read(bytes, note, err);
    if (result.ok) result = note_verify(note, auditor, time_s, err);
    if (result.ok) result = heads_read(note->text, heads, err);
    free(note);
    return result;
}

static struct result other_log(struct error *err)
{
    return failure(
        err, ERROR_DENIED,
        "the auditor has replayed another log than the one of the export, or the proofs are not those that lead from one to the other");
}

static struct result no_proof(const struct checkpoint *a, const struct checkpoint *b, struct error *err)
{
    return failure(err, ERROR_DENIED,
                   "the auditor has replayed %" PRIu64 " entries, and the checkpoint of the export has %" PRIu64
                   ": give the proof between them (sijil audit consistency), or from each of them to a later checkpoint",
                   a->size, b->size);
}

/* The checkpoint in the file is not needed: both roots are known. */
static struct result check_direct(const struct checkpoint *a, const struct checkpoint *b, struct bytes proof, struct error *err)
{
    const struct checkpoint *old = a->size <= b->size ? a : b, *new = a->size <= b->size ? b : a;
    struct add_checkpoint body;

    TRY(add_checkpoint_read(proof, &body, err));
    if (body.old_size == old->size && merkle_verify_consistency(old->size, new->size, &old->root, &new->root, &body.proof))
        return SUCCESS;
    return other_log(err);
}

static struct result read_third(const struct add_checkpoint *body, struct checkpoint *third_out, struct error *err)
{
    struct note *note = memory_zeroed(1, sizeof *note); /* too large for the stack: the list of signatures is long */

    if (note == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for a checkpoint");
    struct result result = note_read(body->note, note, err);
    if (result.ok) result = checkpoint_read(note->text, third_out, err);
    free(note);
    return result;
}

/* Two logs that begin a third one begin each other. Nobody needs to have signed that. */
static struct result check_third(const struct checkpoint *a, const struct checkpoint *b, const struct bytes proofs[2],
                                 struct error *err)
{
    const struct checkpoint *each[2] = {a, b};
    struct checkpoint third[2];

    for (size_t i = 0; i < 2; i++) {
        struct add_checkpoint body;
        TRY(add_checkpoint_read(proofs[i], &body, err));
        TRY(read_third(&body, &third[i], err));
        const struct checkpoint *old = body.old_size == a->size ? a : b;
        if (body.old_size != old->size ||
            !merkle_verify_consistency(old->size, third[i].size, &old->root, &third[i].root, &body.proof))
            return other_log(err);
        each[i] = old;
    }
    if (each[0] == each[1] || third[0].size != third[1].size || !merkle_hash_equal(&third[0].root, &third[1].root))
        return other_log(err);
    return SUCCESS;
}

static struct result check_one_log(const struct checkpoint *a, const struct checkpoint *b, const struct bytes proofs[2],
                                   struct error *err)
{
    if (a->size == b->size) return merkle_hash_equal(&a->root, &b->root) ? SUCCESS : other_log(err);
    if (proofs[0].length == 0) return no_proof(a, b, err);
    return proofs[1].length == 0 ? check_direct(a, b, proofs[0], err) : check_third(a, b, proofs, err);
}

struct result heads_check(const struct heads_evidence *evidence, const struct checkpoint *checkpoint, uint64_t last,
                          struct heads_report *report_out, struct error *err)
{
    struct heads_report report = {.size = 0};
    struct note_key auditor;
    struct heads heads;

    TRY(note_key_read(evidence->auditor, &auditor, err));
    if (auditor.algorithm != NOTE_COSIGNATURE)
        return failure(err, ERROR_INVALID,
                       "the key of an auditor is that of a cosigner, as sijil-witness --init prints it first");
    TRY(open_note(evidence->note, &auditor, &heads, &report.time_s, err));
    if (strcmp(heads.checkpoint.origin, checkpoint->origin) != 0)
        return failure(err, ERROR_DENIED, "the auditor has replayed the log %.100s, and the export is of %.100s",
                       heads.checkpoint.origin, checkpoint->origin);
    if (heads.checkpoint.size <= last)
        return failure(err, ERROR_DENIED, "the auditor has replayed %" PRIu64 " entries, and the export ends with entry %" PRIu64,
                       heads.checkpoint.size, last);
    TRY(check_one_log(&heads.checkpoint, checkpoint, evidence->proofs, err));
    (void)snprintf(report.auditor, sizeof report.auditor, "%s", auditor.name);
    report.size = heads.checkpoint.size;
    *report_out = report;
    return SUCCESS;
}
