#include "audit/payload_keys_priv.h"

#include <string.h>

#include "audit/subject_priv.h"
#include "base/clock.h"
#include "base/memory.h"

#define KEPT      1024  /* subjects; two with the same slot replace each other. 32 KiB of locked memory */
#define FORGET_MS 10000 /* an erased person's key is no longer in memory than this */

struct kept_keys {
    struct secret *keys; /* one block, because locked memory is scarce and each block costs guard pages */
    int64_t since_ms;    /* monotonic time: since when keys are kept */
    struct kept_key {
        bool is_set;
        uint8_t subject[32];
        struct wrapped_key wrapped;
    } each[KEPT];
};

struct result kept_keys_new(struct kept_keys **keys_out, struct error *err)
{
    OWNED(kept_keys) *keys = memory_zeroed(1, sizeof *keys);

    if (keys == NULL) return failure(err, ERROR_NO_MEMORY, "no memory for the keys of subjects");
    TRY(secret_new((size_t)KEPT * SUBJECT_KEY_SIZE, &keys->keys, err));
    *keys_out = GIVE(keys);
    return SUCCESS;
}

void kept_keys_begin(struct kept_keys *keys)
{
    const int64_t now_ms = clock_monotonic_ms();

    if (now_ms - keys->since_ms < FORGET_MS) return;
    for (size_t i = 0; i < KEPT; i++) keys->each[i].is_set = false;
    secret_wipe(keys->keys->bytes, keys->keys->length);
    keys->since_ms = now_ms;
}

void kept_keys_free(struct kept_keys *keys)
{
    if (keys == NULL) return;
    secret_free(keys->keys);
    free(keys);
}

/* Subjects are HMACs, so their first bytes are as good as a hash. */
static size_t slot_of(struct bytes subject)
{
    return load_u64(subject.data) % KEPT;
}

static uint8_t *key_in(const struct kept_keys *keys, size_t slot)
{
    return keys->keys->bytes + slot * SUBJECT_KEY_SIZE;
}

/* NULL: it is not kept. */
static const uint8_t *find_kept(const struct kept_keys *keys, const struct audit_row *row)
{
    const size_t slot = slot_of(row->subject);
    const struct kept_key *kept = &keys->each[slot];

    if (!kept->is_set || !bytes_equal(row->subject, (struct bytes){kept->subject, sizeof kept->subject})) return NULL;
    if (kept->wrapped.version != (uint32_t)row->key_version ||
        !bytes_equal(row->wrapped_key, (struct bytes){kept->wrapped.bytes, kept->wrapped.length}))
        return NULL;
    return key_in(keys, slot);
}

static void keep(struct kept_keys *keys, struct bytes subject, const struct wrapped_key *wrapped, const struct secret *key)
{
    const size_t slot = slot_of(subject);
    struct kept_key *kept = &keys->each[slot];

    memcpy(kept->subject, subject.data, sizeof kept->subject);
    kept->wrapped = *wrapped;
    kept->is_set = true;
    memcpy(key_in(keys, slot), key->bytes, SUBJECT_KEY_SIZE);
}

void page_keys_done(struct page_keys *keys)
{
    for (size_t i = 0; i < keys->count; i++) secret_free(keys->each[i].key);
    keys->count = 0;
}

static const uint8_t *find_of_page(const struct page_keys *keys, struct bytes subject)
{
    for (size_t i = 0; i < keys->count; i++)
        if (bytes_equal(subject, (struct bytes){keys->each[i].subject, 32})) return keys->each[i].key->bytes;
    return NULL;
}

static void keep_for_page(struct page_keys *keys, struct bytes subject, struct secret **key)
{
    if (keys->count == PAGE_KEYS_MAX) return;
    struct page_key *slot = &keys->each[keys->count++];
    memcpy(slot->subject, subject.data, sizeof slot->subject);
    slot->key = GIVE(*key);
}

static struct result open_with(const uint8_t key[SUBJECT_KEY_SIZE], const struct audit_row *row, const struct leaf *leaf,
                               const char *origin, struct buffer *payload, struct error *err)
{
    const struct sealed_payload sealed = {key, row->salt.data, row->box, origin};

    return payload_open(&sealed, leaf, payload, err);
}

static struct result unwrap(struct keyd_client *keyd, const struct audit_row *row, struct wrapped_key *wrapped,
                            struct secret **key_out, struct error *err)
{
    if (row->subject.length != 32 || row->wrapped_key.length > sizeof wrapped->bytes || row->salt.length != LEAF_SALT_SIZE)
        return failure(err, ERROR_CORRUPT, "the stored payload of event %llu is damaged", (unsigned long long)row->sequence);
    wrapped->version = (uint32_t)row->key_version;
    wrapped->length = row->wrapped_key.length;
    memcpy(wrapped->bytes, row->wrapped_key.data, wrapped->length);
    return keyd_subject_key_open(keyd, row->subject.data, wrapped, key_out, err);
}

static struct result open_anew(struct page_keys *keys, const struct audit_row *row, const struct leaf *leaf,
                               const struct payload_opener *with, struct buffer *payload, struct error *err)
{
    OWNED(secret) *key = NULL;
    struct wrapped_key wrapped;

    TRY(unwrap(with->keyd, row, &wrapped, &key, err));
    if (key->length != SUBJECT_KEY_SIZE) return failure(err, ERROR_CORRUPT, "the key of a subject has a wrong length");
    TRY(open_with(key->bytes, row, leaf, with->origin, payload, err));
    if (with->kept != NULL) keep(with->kept, row->subject, &wrapped, key);
    else keep_for_page(keys, row->subject, &key);
    return SUCCESS;
}

struct result page_keys_open(struct page_keys *keys, const struct audit_row *row, const struct leaf *leaf,
                             const struct payload_opener *with, struct buffer *payload, struct error *err)
{
    const uint8_t *known = NULL;

    if (row->subject.length == 32 && row->salt.length == LEAF_SALT_SIZE)
        known = with->kept != NULL ? find_kept(with->kept, row) : find_of_page(keys, row->subject);
    return known != NULL ? open_with(known, row, leaf, with->origin, payload, err)
                         : open_anew(keys, row, leaf, with, payload, err);
}
