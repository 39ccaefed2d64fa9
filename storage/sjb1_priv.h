/*
 * storage/sjb1_priv.h -- the bytes of the format SJB1: header, keys, records, trailer, checkpoint.
 *
 * Implements docs/formats/sjb1.md; pure functions, no I/O. An attacker may have written the input: every function that
 * parses takes any bytes, and names what is wrong as ERROR_CORRUPT.
 */
#pragma once

#include "crypto/aead.h"
#include "storage/blob.h"

#define SJB1_HEADER_SIZE 4096
#define SJB1_RECORD_SIZE 65536
#define SJB1_EXTENTS_MAX 65536
#define SJB1_SALT_SIZE   16
#define SJB1_KEY_SIZE    32
#define SJB1_FOOTER_SIZE 8
#define SJB1_LENGTH_MAX  (UINT64_C(1) << 60) /* bytes of content; SHA-256 itself ends at 2^61 */

_Static_assert(BLOB_RECORD_PLAIN + GCM_TAG_SIZE == SJB1_RECORD_SIZE, "a record is 64 KiB on disk");

/** The records that one writer sealed: from `first` up to the next extent's first. */
struct sjb1_extent {
    uint64_t first;
    uint8_t salt[SJB1_SALT_SIZE];
    uint32_t part;
};

struct sjb1_extents {
    struct sjb1_extent *list; /* owned */
    size_t count, capacity;
};

/** ERROR_LIMIT past SJB1_EXTENTS_MAX. */
RESULT sjb1_extents_add(struct sjb1_extents *extents, const struct sjb1_extent *extent, struct error *err);
void sjb1_extents_done(struct sjb1_extents *extents);
/** The list in the form of trailer and checkpoint. `records`: how many it must cover, 0 for an empty list. */
RESULT sjb1_extents_format(const struct sjb1_extents *extents, struct buffer *out, struct error *err);
RESULT sjb1_extents_parse(struct reader *reader, uint64_t records, struct sjb1_extents *extents, struct error *err);

/** Records of a blob of `length` bytes: at least one. */
uint64_t sjb1_record_count(uint64_t length);
/** Bytes of content in record `index` of a blob of `length` bytes. */
size_t sjb1_record_plain(uint64_t length, uint64_t index);
/** The offset of record `index` in the whole blob. */
uint64_t sjb1_record_offset(uint64_t index);

/** The values that follow from identity and data key. */
struct sjb1_context {
    uint8_t header[SJB1_HEADER_SIZE];
    uint8_t salt[SHA256_SIZE]; /* H: SHA-256 of the header before the commitment */
};

RESULT sjb1_context_make(const struct blob_identity *identity, struct bytes data_key, struct sjb1_context *context_out,
                         struct error *err);
/** 32 bytes inside the header. */
const uint8_t *sjb1_commitment(const struct sjb1_context *context);
/** Compares a stored header with the expected one, and names the field that differs. */
RESULT sjb1_header_check(const struct sjb1_context *expected, const uint8_t header[SJB1_HEADER_SIZE], struct error *err);

/** A key: HKDF with H as its salt; `salt` (NULL for none) is appended to `info`. The caller wipes the key. */
RESULT sjb1_key(const struct sjb1_context *context, struct bytes data_key, const char *info, const uint8_t *salt,
                uint8_t key_out[SJB1_KEY_SIZE], struct error *err);
#define SJB1_INFO_COMMIT     "sjb1 commit"
#define SJB1_INFO_DATA       "sjb1 data"
#define SJB1_INFO_TRAILER    "sjb1 trailer"
#define SJB1_INFO_CHECKPOINT "sjb1 checkpoint"

void sjb1_nonce(uint64_t index, bool is_last, uint8_t nonce_out[GCM_NONCE_SIZE]);

/** The content of the trailer. */
struct sjb1_trailer {
    uint64_t length, records;
    struct uuid project;
    size_t digest_count;
    struct digest digests[2]; /* SHA-256, then SHA-512 if it exists: the algorithms in use */
    struct sjb1_extents extents;
};
void sjb1_trailer_done(struct sjb1_trailer *trailer);

/** Appends salt, sealed part and footer: all bytes after the last record. */
RESULT sjb1_trailer_seal(const struct sjb1_trailer *trailer, const uint8_t key[SJB1_KEY_SIZE], const uint8_t salt[SJB1_SALT_SIZE],
                         struct buffer *out, struct error *err);
/** Reads the number of bytes between the last record and the footer. */
RESULT sjb1_footer_parse(const uint8_t footer[SJB1_FOOTER_SIZE], uint32_t *length_out, struct error *err);
#define SJB1_TRAILER_MIN (SJB1_SALT_SIZE + 32 + 1 + 33 + 4 + 28 + GCM_TAG_SIZE)
#define SJB1_TRAILER_MAX (SJB1_SALT_SIZE + 32 + 1 + 33 + 65 + 4 + 28 * SJB1_EXTENTS_MAX + GCM_TAG_SIZE)
/** The size of trailer and footer of a blob with these numbers of digests and extents. */
size_t sjb1_trailer_size(size_t digest_count, size_t extent_count);
/** Decrypts in place: `sealed` has the bytes between the last record and the footer. */
RESULT sjb1_trailer_open(uint8_t *sealed, size_t length, const uint8_t key[SJB1_KEY_SIZE], struct sjb1_trailer *trailer_out,
                         struct error *err);
/** The plaintext of the sealed part. */
RESULT sjb1_trailer_parse(struct bytes plain, struct sjb1_trailer *trailer_out, struct error *err);
RESULT sjb1_trailer_format(const struct sjb1_trailer *trailer, struct buffer *out, struct error *err);

/** The content of a checkpoint. */
struct sjb1_state {
    size_t hasher_count;
    struct hasher *hashers[2]; /* owned; SHA-256, then SHA-512 if asked for */
    struct sjb1_extents extents;
    uint64_t offset; /* bytes of content, the tail included */
    size_t tail_length;
    uint8_t tail[BLOB_RECORD_PLAIN]; /* a record that is not sealed yet */
};
void sjb1_state_free(struct sjb1_state *state);
DEFINE_OWNED(sjb1_state);

#define SJB1_CHECKPOINT_MAX (2u << 20) /* 65,536 extents of 28 bytes, a tail and two hashers fit */

/** The values that a checkpoint is bound to. */
struct sjb1_binding {
    struct uuid upload, blob, project;
    uint64_t writer_epoch, sequence, offset;
};
/** The content of a checkpoint to be sealed. All pointers are borrowed, for the call only. */
struct sjb1_view {
    const struct hasher *const *hashers;
    size_t hasher_count;
    const struct sjb1_extents *extents;
    struct bytes tail;
};
RESULT sjb1_checkpoint_seal(const struct sjb1_binding *binding, const struct sjb1_view *view, const uint8_t key[SJB1_KEY_SIZE],
                            const uint8_t nonce[XCHACHA_NONCE_SIZE], struct buffer *out, struct error *err);
RESULT sjb1_checkpoint_open(const struct sjb1_binding *binding, const uint8_t key[SJB1_KEY_SIZE], struct bytes stored,
                            struct sjb1_state **state_out, struct error *err);
/** The plaintext of the sealed part. */
RESULT sjb1_state_parse(struct bytes plain, uint64_t offset, struct sjb1_state **state_out, struct error *err);
RESULT sjb1_state_format(const struct sjb1_view *view, struct buffer *out, struct error *err);

/** Puts "what: " before the message of an error from a lower function, and passes the failure on. */
RESULT sjb1_within(struct result result, struct error *err, const char *format, ...) __attribute__((format(printf, 3, 4)));
