/*
 * authz/last_priv.h -- keeps the last administrator of the registry: without one, only a process with the database's
 * credentials could make another.
 */
#pragma once

#include "storage/pg.h"

/** A statement of this name that counts the live bindings of registry-admin whose holder can still authenticate. */
#define COUNT_ADMINISTRATORS(name)                                                                                            \
    {                                                                                                                         \
        name,                                                                                                                 \
            "SELECT count(*) FROM binding b LEFT JOIN robot r USING (robot_id) WHERE b.revoked_at IS NULL"                    \
            " AND b.role = 'registry-admin' AND b.organisation_id IS NULL AND (b.expires_at IS NULL OR b.expires_at > now())" \
            " AND CASE WHEN b.robot_id IS NULL THEN EXISTS (SELECT FROM trusted_issuer t WHERE t.url = b.issuer)"             \
            " ELSE r.revoked_at IS NULL AND r.expires_at > now() END",                                                        \
            "", "int8"                                                                                                        \
    }

RESULT administrators_count(struct pg *pg, const struct pg_statement *statement, int64_t *count_out, struct error *err);
/**
 * For the end of a change, with the count from before it. ERROR_CONFLICT if the change removed the last
 * administrator; the caller rolls it back.
 */
RESULT administrators_are_left(struct pg *pg, const struct pg_statement *statement, int64_t before, struct error *err);
