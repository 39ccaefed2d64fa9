/* authz/trusted_issuer.h -- the rows of trusted issuers, and changes of them. */
#pragma once

#include "audit/sequencer.h"
#include "authz/issuer.h"

/** Statements of the functions and changes below, for pg_open() and struct sequencer_options. */
extern const struct pg_table trusted_issuer_table;

/**
 * Adds the issuer, or replaces the one of this URL, under a permit for ACTION_ISSUER_TRUST on the system.
 * issuer_trust_init() parses the keys: ERROR_INVALID says what is wrong with them. `id` and `types` of the record are
 * ignored.
 */
struct issuer_trust {
    struct change change;
    const struct issuer_record *record; /* the record and its jwks must outlive the change */
    struct uuid id;                     /* set by the change */
};
RESULT issuer_trust_init(struct issuer_trust *trust, const struct issuer_record *record, struct error *err);

/** Removes the issuer under ACTION_ISSUER_REMOVE on the system. Its tokens, and tokens of ours made from them, end at once. */
struct issuer_remove {
    struct change change;
    struct uuid id;
};
void issuer_remove_init(struct issuer_remove *remove, const struct uuid *id);

/** A row for answers of the API. */
struct issuer_row {
    struct issuer_record record; /* without jwks */
    int64_t created_ms;
};
struct issuer_page {
    struct issuer_row *rows;
    size_t count;
};
#define ISSUER_PAGE_MAX 1001 /* a page of the API, and one more that tells whether another page follows */
/**
 * The next `limit` issuers after the URL `after` (NULL: from the first), by URL, under a permit for
 * ACTION_ISSUER_READ. The caller frees page_out->rows with free().
 */
RESULT issuer_list(const struct permit *permit, struct pg *pg, const char *after, size_t limit, struct issuer_page *page_out,
                   struct error *err) __attribute__((nonnull(1, 2, 5, 6)));
