/*
 * authz/administrator.h -- the first robot of a registry, and the way back in.
 *
 * Whoever can run this holds the database and could do anything; it is for founding (`sijild --found`, the first start of
 * `sijild --embedded`) and for the explicit way back in (`--replace-admin`, `--new-admin`). The administrator is registry-admin
 * (no content) and auditor of the whole registry. Only embedded/ and cmd/ may include this (tests/lint/layers.sh).
 */
#pragma once

#include "authz/robot.h"

/** Statements, beside robot_table and binding_table. */
extern const struct pg_table administrator_table;

#define ADMINISTRATOR_NAME "robot$admin"

/** Was one ever made, whether it is live, revoked or past its end? */
RESULT administrator_was_made(struct pg *pg, bool *was_made_out, struct error *err);
/**
 * Draws id and secret of a new one, for ROBOT_DAYS_MAX days; the caller ends it with robot_create_done(). `is_person`: it counts as one
 * person, as whoever runs the machine (authz/person.h); else as nobody.
 */
RESULT administrator_draw(bool is_person, struct robot_create *create_out, struct error *err);

/** Puts the secret where its owner will find it; its failure undoes the making. */
typedef struct result administrator_keep(void *context, const struct robot_create *create, struct error *err);
struct administrator_making {
    bool replaces;
    administrator_keep *keep;
    void *context; /* of keep() */
};
/**
 * In one transaction of its own: revokes the administrator that there may be if it `replaces` one, makes the drawn one, binds it, and
 * calls `keep` last, so that no administrator is durable whose secret nobody has. ERROR_CONFLICT if a live one is there. The permit is
 * for ACTION_ADMINISTRATOR_REPLACE on the system if it replaces, else for ACTION_ROBOT_CREATE.
 */
RESULT administrator_create(const struct permit *permit, struct pg *pg, struct robot_create *create,
                            const struct administrator_making *making, struct error *err) __attribute__((nonnull));
