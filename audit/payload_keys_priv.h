/*
 * audit/payload_keys_priv.h -- the keys of subjects that open the sealed parts of a page, and those that jobs keep from page to page.
 */
#pragma once

#include "audit/event_priv.h"
#include "audit/query_priv.h"

#define PAGE_KEYS_MAX \
    64 /* subjects of one page whose keys are unwrapped once; the keys of further subjects are unwrapped each time */

struct page_keys {
    size_t count;
    struct page_key {
        uint8_t subject[32];
        struct secret *key;
    } each[PAGE_KEYS_MAX];
};
void page_keys_done(struct page_keys *keys) __attribute__((nonnull));

/** Appends what the row's sealed part says. Its key is one of the page, one that `with` keeps, or sijil-keyd unwraps it. */
RESULT page_keys_open(struct page_keys *keys, const struct audit_row *row, const struct leaf *leaf,
                      const struct payload_opener *with, struct buffer *payload, struct error *err) __attribute__((nonnull));

/**
 * Keys that a job which follows the log keeps, by subject and by the wrapped key beside it. So a key is only used for a page that was read with its row, and
 * with the same row: once the row is gone or wrapped anew, the key is not found. All are forgotten after ten seconds.
 */
struct kept_keys;
RESULT kept_keys_new(struct kept_keys **keys_out, struct error *err) __attribute__((nonnull));
/** Call it before each page. */
void kept_keys_begin(struct kept_keys *keys) __attribute__((nonnull));
void kept_keys_free(struct kept_keys *keys);
DEFINE_OWNED(kept_keys);
