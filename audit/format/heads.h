/*
 * audit/format/heads.h -- the statement of an auditor that has replayed all entries of a log, and the numbers under all keys
 * (docs/formats/audit-dump.md, "Heads of keys"). With it an export is complete also if the writer of the log was not honest.
 *
 * The statement is a note: sijil-verify replay-keys prints the text, and the auditor signs it as a cosigner does, with a time
 * (sijil-witness --cosign-heads). Its text is no checkpoint: the second line is no number.
 */
#pragma once

#include "audit/format/checkpoint.h"
#include "audit/format/note.h"

#define HEADS_TITLE    "sijil-key-heads/v1"
#define HEADS_NOTE_MAX 4096 /* bytes: a text of at most 350, and some signatures */

struct heads {
    struct checkpoint checkpoint; /* of the log that was replayed */
    uint64_t keys;
    struct merkle_hash root; /* over the heads of all keys */
};
/** Appends the text. */
RESULT heads_write(const struct heads *heads, struct buffer *text, struct error *err);
/** ERROR_INVALID unless each line has its one spelling. */
RESULT heads_read(struct bytes text, struct heads *heads_out, struct error *err);

/** What is shown with an export. */
struct heads_evidence {
    struct bytes auditor; /* the cosigner's key of the auditor, which the verifier trusts */
    struct bytes note;    /* the signed statement */
    struct bytes proofs
        [2]; /* bodies of add-checkpoint: from the smaller to the larger size; or from each of both to a third one. Empty: none */
};
struct heads_report {
    char auditor[NOTE_NAME_MAX + 1];
    uint64_t time_s, size; /* when it was signed, and how many entries were replayed */
};
/**
 * ERROR_DENIED unless the auditor has signed, and has replayed the log of `checkpoint`: both are the beginning of one log, and the entry
 * `last` is among those that were replayed. ERROR_INVALID for a bad form.
 */
RESULT heads_check(const struct heads_evidence *evidence, const struct checkpoint *checkpoint, uint64_t last,
                   struct heads_report *report_out, struct error *err);
