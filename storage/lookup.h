/*
 * storage/lookup.h -- a connection through which nothing can be done but find what a name stands for.
 *
 * Whoever works out what is to be decided has no permit yet, and gets this in place of the connection: only the few functions
 * that take it can use it, and they tell ids (repository_find(), robot_resolve()).
 */
#pragma once

#include "storage/pg.h"

struct lookup;

/** The same connection; lives as long as it. NULL for NULL. */
struct lookup *lookup_of(struct pg *pg);
