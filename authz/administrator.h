/*
 * authz/administrator.h -- the first robot of a registry, and its replacement when its secret is lost.
 *
 * A process that can call this has the database's credentials, so it could do anything anyway. It is for the
 * initialisation of a registry (`sijild --found`, the first start of `sijild --embedded`) and for an explicit
 * replacement (`--replace-admin`, `--new-admin`). The administrator is registry-admin (no content) and auditor of the
 * whole registry. Only embedded/ and cmd/ may include this (tests/lint/layers.sh).
 */
#pragma once

#include "authz/robot.h"

/** Statements, beside robot_table and binding_table. */
extern const struct pg_table administrator_table;

#define ADMINISTRATOR_NAME "robot$admin"

/** Whether an administrator was ever made. True also if it is revoked or expired. */
RESULT administrator_was_made(struct pg *pg, bool *was_made_out, struct error *err);
/**
 * Generates the id and the secret of a new administrator, which lives ROBOT_DAYS_MAX days. The caller releases it
 * with robot_create_done(). With `is_person` it counts as the person PERSON_ADMINISTRATOR (authz/person.h), else as no
 * person.
 */
RESULT administrator_draw(bool is_person, struct robot_create *create_out, struct error *err);

/** Stores the secret for its owner. If it fails, the administrator is not created. */
typedef struct result administrator_keep(void *context, const struct robot_create *create, struct error *err);
struct administrator_making {
    bool replaces;
    administrator_keep *keep;
    void *context; /* of keep() */
};
/**
 * In one transaction of its own: revokes the present administrator if `replaces` is set, inserts the generated one,
 * binds it, and calls `keep` last. So no administrator becomes durable before its secret is stored. ERROR_CONFLICT if
 * a live administrator exists and `replaces` is not set. The permit is for ACTION_ADMINISTRATOR_REPLACE on the system
 * if it replaces, else for ACTION_ROBOT_CREATE.
 */
RESULT administrator_create(const struct permit *permit, struct pg *pg, struct robot_create *create,
                            const struct administrator_making *making, struct error *err) __attribute__((nonnull));
