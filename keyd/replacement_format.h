/*
 * keyd/replacement_format.h -- the file of replaced keys (keyd/replacement.h), in memory and as bytes.
 *
 * A copy: "SJRP" | u8 1 | u64 generation | u8 1 if everybody counts as named | u64 epoch, digest[32] before, u64 epoch, digest[32] now, of documents of officers | u32 persons | u8 keys that
 * wait | 1,024 times: principal[32], u32 end in hours since 1970 | 32 times: thumbprint[32], principal[32], digest[32] of the document, u64 since in ms | u32 administrators | 256 times: name[32] of the document in the register of keys, thumbprint[32], principal[32],
 * u64 end in ms | HMAC-SHA256[32]; zeros up to the copy's size.
 */
#pragma once

#include "journal/journal.h"
#include "keyd/replacement.h"

/* A person that a document of officers has named. */
struct replacement_named {
    uint8_t principal[DOCUMENT_DIGEST_SIZE];
    uint32_t end_hours; /* of the document that ends last, in hours since 1970 */
};
/* A document of an administrator that is in force, or has ended. */
struct replacement_admin {
    uint8_t name[DOCUMENT_DIGEST_SIZE];      /* of the document in the register of keys */
    uint8_t key[DOCUMENT_DIGEST_SIZE];       /* the thumbprint that it names */
    uint8_t principal[DOCUMENT_DIGEST_SIZE]; /* SHA-256 of the principal */
    int64_t end_ms;
};
struct replacement_state {
    bool names_all; /* whom earlier documents have named is not known */
    struct document_pin before, now;
    uint32_t named_count;
    uint8_t waiting_count;
    struct replacement_named named[REPLACEMENT_NAMED_MAX];
    struct key_waiting waiting[KEY_WAITING_MAX];
    uint32_t admin_count;
    struct replacement_admin admins[REPLACEMENT_ADMINS_MAX];
};

/** Reads and writes a struct replacement_state. */
extern const struct journal_format replacement_format;
