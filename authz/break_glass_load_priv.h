/* authz/break_glass_load_priv.h -- the roles of broken glasses in a snapshot. */
#pragma once

#include "authz/break_glass_entry.h"
#include "authz/snapshot_load.h"

/** Reads who holds the glasses in force; *rows_out stays NULL if there are none. `change` NULL: in all organisations. */
RESULT glass_load(struct pg *pg, const struct trust_rules *rules, const struct rights_change *change, struct pg_rows **rows_out,
                  struct error *err);
/** Writes their bindings, at most as many as there are rows, and returns how many. `rows` NULL: none. */
size_t glass_bindings(const struct trust_rules *rules, const struct pg_rows *rows, struct authz_binding *bindings);
