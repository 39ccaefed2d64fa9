/*
 * authz/epoch_priv.h -- raising the authorization epoch: the last step of each change of rights. Only decisions that concern the
 * organisation in which something changed (NULL: the registry, so all) become stale, and only its rights are read again.
 */
#pragma once

#include "storage/pg.h"

/** Runs a statement of the form below. An id that is nil stands for the registry. */
static inline RESULT raise_epoch(struct pg *pg, const struct pg_statement *statement, const struct uuid *organisation, struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, uuid_is_nil(organisation) ? NULL : organisation);
    return pg_run(pg, statement, &arguments, NULL, err);
}

/* A row of a statement table: names are unique over all tables, so each store has its own. */
#define RAISE_EPOCH(name)                                                                                      \
    {                                                                                                          \
        name, "WITH raised AS (SELECT raise_authorization_epoch($1, false) AS epoch) SELECT epoch FROM raised", "uuid", "int8" \
    }
