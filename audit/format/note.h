/*
 * audit/format/note.h -- signed notes: text with signatures below it (docs/formats/audit-log.md section 6; C2SP signed-note
 * v1.0.0, tlog-cosignature v1.0.1).
 *
 * note_read() checks the form only. A note proves something after note_verify() with a trusted key. No private key is used
 * here: the holder of the key signs the text, and the caller passes the signature in.
 */
#pragma once

#include "base/bytes.h"

#define NOTE_MAX            1000000 /* bytes; the limit of Go's reader */
#define NOTE_NAME_MAX       255
#define NOTE_KEY_ID_SIZE    4
#define NOTE_SIGNATURES_MAX 100  /* the limit of Go's reader; the format demands at least 16 */
#define NOTE_SIGNATURE_MAX  4096 /* bytes before base64: ML-DSA-44 with a time has 2,432 */

/** The algorithm byte before a public key. ML-DSA and others have other bytes; their signatures are skipped. */
enum note_algorithm {
    NOTE_ED25519 = 1,
    NOTE_COSIGNATURE = 4 /* Ed25519 over "cosignature/v1", a time and the text */
};

struct note_key {
    char name[NOTE_NAME_MAX + 1];
    uint8_t id[NOTE_KEY_ID_SIZE];
    enum note_algorithm algorithm;
    uint8_t public_key[32];
};

/** From name, algorithm and public key; ERROR_INVALID for a name that is empty or has spaces or '+'. */
RESULT note_key_make(const char *name, enum note_algorithm algorithm, const uint8_t public_key[32], struct note_key *key_out,
                     struct error *err);
/** Reads "name+hex+base64". The key id must be that of the key. */
RESULT note_key_read(struct bytes vkey, struct note_key *key_out, struct error *err);
/** Appends "name+hex+base64". */
RESULT note_key_write(const struct note_key *key, struct buffer *vkey, struct error *err);

/** A note: views into the bytes that it was read from. */
struct note {
    struct bytes text; /* with its final line feed: the signed bytes */
    size_t count;
    struct note_signature {
        struct bytes name, base64; /* base64 of key id and signature */
        uint8_t id[NOTE_KEY_ID_SIZE];
    } signatures[NOTE_SIGNATURES_MAX];
};

/** Whether a text may be signed: it is UTF-8, ends in a line feed, and has no other control characters. */
bool note_text_is_valid(struct bytes text);
/** ERROR_INVALID unless `bytes` is a note by all rules of the format. */
RESULT note_read(struct bytes bytes, struct note *note_out, struct error *err);
/**
 * ERROR_DENIED unless `key` signed the text, and all signatures that claim to be by `key` are valid. `time_s_out` may be
 * NULL. For a cosignature it is the second at which the cosigner saw the log, else 0.
 */
RESULT note_verify(const struct note *note, const struct note_key *key, uint64_t *time_s_out, struct error *err);

/** Starts a note: `text` and the empty line. ERROR_INVALID for text that is not valid. */
RESULT note_write_text(struct buffer *note, struct bytes text, struct error *err);
/** Appends one signature line. For NOTE_ED25519 `signature` is the 64 bytes over the text alone; for NOTE_COSIGNATURE it
 *  is the u64 seconds and the 64 bytes over note_cosignature_message(). */
RESULT note_write_signature(struct buffer *note, const struct note_key *key, struct bytes signature, struct error *err);
/** Appends the message that a cosigner signs. */
RESULT note_cosignature_message(struct buffer *message, uint64_t time_s, struct bytes text, struct error *err);
