/*
 * audit/format/search_terms.h -- the terms by which a search finds an event.
 *
 * The index of searches has these terms, each answer is compared with them again, and checks of a dump compare the index with them. So what a
 * search means is defined here alone.
 */
#pragma once

#include "audit/format/leaf.h"

/* field, its parameter of the API, whether its index is blind (keyed, and erased with the subject) */
#define SEARCH_FIELDS(X)           \
    X(ACTOR, "actor", false)       \
    X(ACTION, "action", false)     \
    X(RESOURCE, "resource", false) \
    X(PREFIX, "prefix", false)     \
    X(DIGEST, "digest", false)     \
    X(TAG, "tag", false)           \
    X(OUTCOME, "outcome", false)   \
    X(RULE, "rule", false)         \
    X(REGION, "region", false)     \
    X(RUN, "run", false)           \
    X(DECISION, "decision", false) \
    X(REQUEST, "request", false)   \
    X(DETAIL, "detail", false)     \
    X(COUNTRY, "country", true)    \
    X(ADDRESS, "address", true)    \
    X(NETWORK, "network", true)

enum search_field {
#define X(field, name, blind) SEARCH_##field,
    SEARCH_FIELDS(X)
#undef X
        SEARCH_FIELD_COUNT
};
/** "actor". */
const char *search_field_name(enum search_field field);
bool search_field_is_blind(enum search_field field);

#define SEARCH_SEGMENTS_MAX 16  /* of a prefix */
#define SEARCH_WORDS_MAX    64  /* words of the details of one event; a push names at most 12 tags */
#define SEARCH_TERMS_MAX    160 /* of a leaf: 16 + SEARCH_SEGMENTS_MAX + 1 for each target + words */

/** The terms of a leaf, as their keys. */
struct search_terms {
    size_t count;
    int64_t keys[SEARCH_TERMS_MAX];
};

/** The first eight bytes of the SHA-256 of field and value. */
int64_t search_key(enum search_field field, struct bytes value);
void search_terms_of(const struct leaf *leaf, struct search_terms *terms_out) __attribute__((nonnull));
bool search_terms_have(const struct search_terms *terms, int64_t key) __attribute__((nonnull));
