/*
 * audit/format/log_keys.h -- the keys of one log, from the first that a verifier trusts to the newest (docs/formats/audit-log.md section 6.1).
 *
 * A handover is a note that the old key and the new key have both signed. It states a checkpoint, by size and root, and both keys: from
 * the next entry on the new key counts. So a checkpoint of more entries counts only with the new key's signature. A verifier that trusts one
 * of the keys follows the handovers in both directions; a key without one is refused.
 */
#pragma once

#include "audit/format/checkpoint.h"
#include "audit/format/note.h"

#define LOG_KEYS_MAX      9     /* the first, and the eight that sijil-keyd's ledger has room for */
#define LOG_KEYS_TEXT_MAX 24576 /* bytes: a key, and twice eight handovers of at most 1,100 */
#define LOG_HANDOVER      "sijil-log-key/v1"

/** What a handover states. */
struct log_handover {
    char origin[CHECKPOINT_ORIGIN_MAX + 1];
    uint64_t size; /* of the last checkpoint for which the old key counts */
    struct merkle_hash root;
    struct note_key old, new;
};
/** Appends the text that both keys sign. */
RESULT log_handover_write(const struct log_handover *handover, struct buffer *text, struct error *err);

struct log_keys {
    size_t count; /* at least 1 */
    struct note_key keys[LOG_KEYS_MAX];
    struct log_start {
        uint64_t size; /* the key counts for checkpoints of more entries; of the first: 0, and it counts for size 0, too */
        struct merkle_hash root;
    } starts[LOG_KEYS_MAX];
};

/**
 * Reads a key (a line "name+12345678+base64"), and then any handovers. Those that do not lead to this key count for nothing.
 * ERROR_INVALID for a bad form, or the key of a witness. ERROR_DENIED: a handover is not signed by both keys. ERROR_LIMIT for more keys.
 */
RESULT log_keys_read(struct bytes text, struct log_keys *keys_out, struct error *err);
/** Appends the keys that are trusted, and behind them the handovers that somebody else shows: `shown` is in the form of log_keys_read(). */
RESULT log_keys_join(struct bytes trusted, struct bytes shown, struct buffer *text, struct error *err);
/** Only this key. */
void log_keys_of(const struct note_key *key, struct log_keys *keys_out);
const struct note_key *log_keys_newest(const struct log_keys *keys);
/** The key that counts for a checkpoint of this size. */
const struct note_key *log_keys_at(const struct log_keys *keys, uint64_t size);

/**
 * Reads the checkpoint of a note. ERROR_DENIED unless the key that counts for its size signed it, its origin is the name of that key, and no
 * handover states another root of this size. ERROR_INVALID: it is no checkpoint. `key_out` may be NULL.
 */
RESULT log_keys_verify(const struct log_keys *keys, const struct note *note, struct checkpoint *checkpoint_out,
                       const struct note_key **key_out, struct error *err);

/** What the root of approvers signs (DSSE, LOG_ROTATION_PAYLOAD): "sijil-log-key-rotation/v1 ORIGIN SECONDS", the old key, the new key. */
#define LOG_ROTATION_PAYLOAD       "application/vnd.sijil.log-key-rotation.v1"
#define LOG_ROTATION_TITLE         "sijil-log-key-rotation/v1"
#define LOG_ROTATION_OVERLAP_MAX_S (400 * 86400) /* a year and a month */
struct log_rotation_order {
    struct note_key old, new;
    uint64_t overlap_s; /* so long the old key signs, too */
};
/** Appends the payload. */
RESULT log_rotation_order_write(const struct log_rotation_order *order, struct buffer *payload, struct error *err);
/** ERROR_INVALID unless it is an order with two keys of one log. */
RESULT log_rotation_order_read(struct bytes payload, struct log_rotation_order *order_out, struct error *err);
