/*
 * authz/epoch_priv.h -- raising the authorization epoch: the last step of each change of rights.
 */
#pragma once

#include "storage/pg.h"

/* A row of a statement table: names are unique over all tables, so each store has its own. */
#define RAISE_EPOCH(name)                                                                                      \
    {                                                                                                          \
        name, "WITH raised AS (SELECT raise_authorization_epoch() AS epoch) SELECT epoch FROM raised", "", "int8" \
    }
