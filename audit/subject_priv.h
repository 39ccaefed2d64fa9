/*
 * audit/subject_priv.h -- the actor of an event without its name: pseudonyms, and the keys of payloads.
 *
 * Each subject has a key of its own, made by sijil-keyd and stored wrapped. The pseudonym in the log is an HMAC under that
 * key, and payloads are sealed with keys derived from it: destroying the key erases both. Keys in use are in one block of
 * locked memory. A subject is pinned while a record uses it.
 */
#pragma once

#include "base/owned.h"
#include "crypto/keyd_client.h"
#include "storage/pg.h"

#define SUBJECT_KEY_SIZE 32
#define SUBJECT_TEXT_MAX 255 /* bytes of an issuer or a subject: as struct principal has them */

struct audit_subject {
    char issuer[SUBJECT_TEXT_MAX + 1], subject[SUBJECT_TEXT_MAX + 1];
    uint8_t index[32];  /* HMAC under keyd's index key: the key of the row in audit_subject */
    char pseudonym[65]; /* HMAC-SHA256(key, u32 length, issuer, u32 length, subject), hex */
    const uint8_t *key; /* SUBJECT_KEY_SIZE bytes of the locked block */
    unsigned pins;      /* guarded, with the next three, by the cache's lock */
    bool is_forgotten;  /* found by nobody any more; its key is wiped when nothing uses it */
    uint64_t last_used;
    struct audit_subject *next;
};

struct subject_cache;

/** At most `capacity` subjects at a time. ERROR_NO_MEMORY, also if that much memory can't be locked. */
RESULT subject_cache_new(size_t capacity, struct subject_cache **cache_out, struct error *err);
/** Pinned; NULL if it is not in the cache. Takes no lock that is held over I/O. */
struct audit_subject *subject_cache_find(struct subject_cache *cache, const char *issuer, const char *subject);
/**
 * Finds or makes the subject's key with keyd and the database (audit_subject_table), and caches it; pinned. Blocks.
 * ERROR_UNAVAILABLE without keyd or database; ERROR_LIMIT if all entries are pinned or a text is too long.
 */
RESULT subject_cache_resolve(struct subject_cache *cache, struct keyd_client *keyd, struct pg *pg,
                             const char *const issuer_and_subject[2], struct audit_subject **subject_out, struct error *err);
/** NULL is legal. */
void subject_cache_release(struct subject_cache *cache, struct audit_subject *subject);
/** A subject may have been erased: each is resolved again, from the database. Records that have one go on with it. */
void subject_cache_forget(struct subject_cache *cache) __attribute__((nonnull));
void subject_cache_free(struct subject_cache *cache);
DEFINE_OWNED(subject_cache);

/** The key that seals one payload: HKDF-SHA256(subject key, salt, "sijil-pay-v1"). */
RESULT subject_payload_key(const uint8_t subject_key[SUBJECT_KEY_SIZE], const uint8_t salt[32], uint8_t key_out[32],
                           struct error *err);
/**
 * The key of a subject without the cache. ERROR_NOT_FOUND if it has none, unless `makes` is set: then it gets one. Connections need
 * audit_subject_table.
 */
RESULT subject_key_find(struct keyd_client *keyd, struct pg *pg, const char *const issuer_and_subject[2], bool makes,
                        struct secret **key_out, struct error *err) __attribute__((nonnull));
/** A key of one box that is sealed under a subject's key: HKDF-SHA256(subject key, salt, label). Each kind of box has a label of its own. The caller wipes it. */
RESULT subject_box_key(const struct secret *key, const uint8_t salt[32], const char *label, uint8_t key_out[32],
                       struct error *err) __attribute__((nonnull));
/** The pseudonym of a subject that has a key. */
void subject_pseudonym(const char *const issuer_and_subject[2], const struct secret *key, char hex_out[65])
    __attribute__((nonnull));
