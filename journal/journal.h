/*
 * journal/journal.h -- a small state that one process keeps on disk. A change is durable before anything that depends on it
 * happens.
 *
 * The file holds two copies of the state. A change is written to the first copy and fsynced, then to the second and
 * fsynced. So a valid copy is left after a crash at any moment, after an incomplete write, and after damage to one copy. No
 * valid copy is older than the last change that succeeded.
 *
 * A copy: magic[4] | u8 version | u64 generation | body | HMAC-SHA256[32] over all bytes before it | zeros up to copy_size. If the first bytes of a
 * body state its length, the zeros end with its last block (4096), and the bytes after that block are ignored.
 * The generation grows by one with each change. If somebody puts an older file back, its generation is lower: only a caller
 * that knows the later generation from elsewhere can notice this (journal_generation()).
 *
 * After a failed write the content of the disk is unknown: every later change is refused, and a new process must read it.
 */
#pragma once

#include "base/bytes.h"
#include "base/owned.h"

#define JOURNAL_KEY_SIZE    32
#define JOURNAL_HEADER_SIZE 13 /* magic, version, generation */
#define JOURNAL_SEAL_SIZE   32 /* the HMAC */

struct journal_format {
    const char *name; /* of the file in its folder */
    char magic[5];    /* four letters */
    uint8_t version;  /* the version that is written; all versions that body_size() knows are read */
    size_t copy_size; /* bytes; whole blocks of the disk (4096), so an incomplete write of one copy does not touch the other */
    /** The size of the body in that version; 0: there is no such version. */
    size_t (*body_size)(uint8_t version);
    /** The length that the first bytes of a body state, at most body_size(). NULL: each body has body_size() bytes. */
    size_t (*body_length)(const uint8_t *body);
    void (*write)(const void *state, uint8_t *body_out);
    void (*read)(uint8_t version, struct bytes body, void *state_out);
};

struct journal;

/** Writes the initial state into the open folder `directory`, durably; its generation is 1. */
RESULT journal_create(int directory, const struct journal_format *format, const uint8_t key[JOURNAL_KEY_SIZE], const void *state,
                      struct error *err);
/**
 * Reads the newer one of the valid copies, and repairs the other. `format` must outlive the journal. ERROR_NOT_FOUND
 * without a file; ERROR_CONFLICT if another process has it open; ERROR_CORRUPT if no copy is valid under this key.
 */
RESULT journal_open(int directory, const struct journal_format *format, const uint8_t key[JOURNAL_KEY_SIZE], void *state_out,
                    struct journal **journal_out, struct error *err);
/** The same, but without a file `state`, which is the first one then, is written into a new one. */
RESULT journal_open_or_create(int directory, const struct journal_format *format, const uint8_t key[JOURNAL_KEY_SIZE],
                              void *state, struct journal **journal_out, struct error *err);
/** The state is durable on return. The caller makes one call at a time. ERROR_UNAVAILABLE, ERROR_FULL. */
RESULT journal_write(struct journal *journal, const void *state, struct error *err);
/** The generation of the last durable change. */
uint64_t journal_generation(const struct journal *journal);
/** Whether a write has failed. Any thread may call it. */
bool journal_is_broken(const struct journal *journal);
void journal_free(struct journal *journal);
DEFINE_OWNED(journal);

/** One copy, as in the file: for programs that read such files without changing them. Returns how many bytes of it count, in whole blocks. */
size_t journal_copy_write(const struct journal_format *format, const uint8_t key[JOURNAL_KEY_SIZE], const void *state,
                          uint64_t generation, uint8_t *copy_out);
/** False for a copy that is damaged, incomplete, of another format, or made under another key. */
bool journal_copy_read(const struct journal_format *format, const uint8_t key[JOURNAL_KEY_SIZE], const uint8_t *copy,
                       void *state_out, uint64_t *generation_out);
