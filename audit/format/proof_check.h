/*
 * audit/format/proof_check.h -- does this file prove that this entry is in that log? And what does that mean?
 *
 * Offline, and without trusting whoever made the files: what is taken for granted is the public key alone.
 */
#pragma once

#include "audit/format/checkpoint.h"
#include "audit/format/leaf.h"
#include "audit/format/note.h"

struct proof_report {
    struct note_key key;
    struct checkpoint checkpoint;
    uint64_t index;
    size_t other_signatures; /* on the checkpoint; by keys that were not given, so not checked */
    bool is_event;           /* the entry is one of Sijil's events, and `event` says what it states */
    struct leaf event;
};

/**
 * ERROR_DENIED: it proves nothing; the message says where it fails. ERROR_INVALID, ERROR_LIMIT: the key or the proof
 * is not in the form that it must have.
 */
RESULT proof_check(struct bytes vkey, struct bytes entry, struct bytes proof, struct proof_report *report_out,
                   struct error *err);

/** Appends what was proven and what was not, in plain words. */
RESULT proof_report_text(const struct proof_report *report, struct buffer *text, struct error *err);
/** The same as one JSON object and a line feed. */
RESULT proof_report_json(const struct proof_report *report, struct buffer *text, struct error *err);
