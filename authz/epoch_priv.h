/*
 * authz/epoch_priv.h -- raises the authorization epoch: the last step of each change of rights. Only decisions about
 * the changed organisation become stale (NULL: the registry, so all decisions), and only its rights are read again.
 */
#pragma once

#include "storage/pg.h"

/** Runs a statement made by RAISE_EPOCH(). A nil id stands for the registry. */
static inline RESULT raise_epoch(struct pg *pg, const struct pg_statement *statement, const struct uuid *organisation,
                                 struct error *err)
{
    struct pg_arguments arguments = {0};

    pg_add_uuid(&arguments, uuid_is_nil(organisation) ? NULL : organisation);
    return pg_run(pg, statement, &arguments, NULL, err);
}

/* A statement of its own for each store, because names of statements are unique over all tables. */
#define RAISE_EPOCH(name)                                                                                                      \
    {                                                                                                                          \
        name, "WITH raised AS (SELECT raise_authorization_epoch($1, false) AS epoch) SELECT epoch FROM raised", "uuid", "int8" \
    }
