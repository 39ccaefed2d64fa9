/* authz/trusted_issuer.h -- the rows of trusted issuers, and changes of them. */
#pragma once

#include "audit/sequencer.h"
#include "authz/issuer_documents.h"
#include "authz/role.h"

/** Statements of the functions and changes below, for pg_open() and struct sequencer_options. */
extern const struct pg_table trusted_issuer_table;

/**
 * Adds the issuer, or replaces the one of this URL, under a permit for ACTION_ISSUER_TRUST on the system.
 * issuer_trust_init() parses the keys: ERROR_INVALID says what is wrong with them. `id`, `types` and `confirmed_ms` of the record are
 * ignored. With `follows`, the server asks the issuer for its keys (authz/issuer_jobs.h), and `jwks` is ""; keys that the issuer had before count until then.
 */
struct issuer_trust {
    struct change change;
    const struct issuer_record *record; /* the record and its jwks must outlive the change */
    const char *keys_url;               /* of an issuer that is followed: where its keys are; NULL: its metadata names it */
    struct uuid id;                     /* set by the change */
};
RESULT issuer_trust_init(struct issuer_trust *trust, const struct issuer_record *record, struct error *err);

/** Has the keys of an issuer that is followed fetched soon, under ACTION_ISSUER_CHECK on the system. ERROR_NOT_FOUND. */
struct issuer_check {
    struct change change;
    struct uuid id;
};
void issuer_check_init(struct issuer_check *check, const struct uuid *id);

/** Removes the issuer under ACTION_ISSUER_REMOVE on the system. Its tokens, and tokens of ours made from them, end at once. */
struct issuer_remove {
    struct change change;
    struct uuid id;
    char removed_by[PRINCIPAL_KEY_SIZE]; /* principal_key() */
};
void issuer_remove_init(struct issuer_remove *remove, const struct uuid *id, const struct principal *by);

/** A row for answers of the API. */
struct issuer_row {
    struct issuer_record record; /* without jwks */
    int64_t created_ms;
    char keys_url[ISSUER_KEYS_URL_SIZE];    /* "": its metadata names it, or it is not followed */
    int64_t attempted_ms, ended_ms, due_ms; /* of an issuer that is followed: the newest attempt, and the next one; 0: none */
    char problem[401];                      /* of the newest attempt; "": none */
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

/** One issuer, with what the newest attempt saw (JSON; empty if there was none) and the keys that count. The buffers are the caller's. */
struct issuer_found {
    struct issuer_row row;
    struct buffer report, jwks;
};
/** Under a permit for `action`: ACTION_ISSUER_READ, or one that has just changed the issuer. ERROR_NOT_FOUND. */
RESULT issuer_find(const struct permit *permit, enum action action, struct pg *pg, const struct uuid *id,
                   struct issuer_found *found, struct error *err) __attribute__((nonnull));
