/*
 * authz/administrator.h -- the first robot of a registry, and the way back in.
 *
 * Whoever can run this holds the database and could do anything; it is for the start of `sijild --embedded` and for
 * --new-admin. The administrator is registry-admin (no content) and auditor of the whole registry.
 */
#pragma once

#include "authz/robot.h"

/** Statements, beside robot_table and binding_table. */
extern const struct pg_table administrator_table;

#define ADMINISTRATOR_NAME "robot$admin"

/**
 * In one transaction of its own: revokes the administrator that there may be, makes a new one for ROBOT_DAYS_MAX
 * days, and binds it. *create_out then holds its name, id and secret; the caller ends it with robot_create_done().
 */
RESULT administrator_create(struct pg *pg, struct robot_create *create_out, struct error *err);
/** Is there a live one whose secret has not expired? */
RESULT administrator_exists(struct pg *pg, bool *exists_out, struct error *err);
