/*
 * audit/search_terms_priv.h -- the terms by which a search finds an event.
 *
 * The index of searches has these terms, and each answer is compared with them again. So what a search means is defined here alone.
 */
#pragma once

#include "audit/format/leaf.h"
#include "audit/search.h"

#define SEARCH_WORDS_MAX 64  /* words of the details of one event; a push names at most 12 tags */
#define SEARCH_TERMS_MAX 160 /* of a leaf: 16 + SEARCH_SEGMENTS_MAX + 1 for each target + words */

/** The terms of a leaf, as their keys. */
struct search_terms {
    size_t count;
    int64_t keys[SEARCH_TERMS_MAX];
};

/** The first eight bytes of the SHA-256 of field and value. */
int64_t search_key(enum search_field field, struct bytes value);
void search_terms_of(const struct leaf *leaf, struct search_terms *terms_out) __attribute__((nonnull));
bool search_terms_have(const struct search_terms *terms, int64_t key) __attribute__((nonnull));
