/*
 * authz/trusted_issuer.h -- rows of issuers whose tokens are accepted.
 */
#pragma once

#include "authz/issuer.h"
#include "storage/pg.h"

extern const struct pg_table trusted_issuer_table;

/**
 * Adds the issuer, or replaces the one of this URL, and raises the authorization epoch; inside the caller's
 * transaction. Keys are tried first: ERROR_INVALID says what is wrong with them. `id` and `types` are ignored.
 */
RESULT trusted_issuer_put(struct pg *pg, const struct issuer_record *record, struct error *err);
/** ERROR_NOT_FOUND. Its tokens, and tokens made from them, end at once. */
RESULT trusted_issuer_remove(struct pg *pg, const char *url, struct error *err);
