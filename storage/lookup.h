/*
 * storage/lookup.h -- a connection that can only be used to find the id of a named thing.
 *
 * A target function finds the resource that a request names (docs/architecture.md). It has no permit yet, so it gets a
 * lookup and not the connection. Only a few functions take a lookup, and they return ids (repository_find(),
 * robot_resolve()).
 */
#pragma once

#include "storage/pg.h"

struct lookup;

/** The connection as a lookup, which is valid as long as the connection. NULL for NULL. */
struct lookup *lookup_of(struct pg *pg);
