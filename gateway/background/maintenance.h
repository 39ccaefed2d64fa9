/*
 * gateway/background/maintenance.h -- the thread that cleans up ended upload sessions and their bytes. It also records the count of keys that
 * keyd unwrapped, and the head of their chain.
 *
 * It has a database connection, works in small rounds, and records its work as all others do. A round begins every 30 s and cleans for at
 * most 20 s; then old keys leave the cache and free memory goes back to the system, however much there is left to clean.
 */
#pragma once

#include "base/owned.h"
#include "base/result.h"

struct gateway;
struct maintenance;

/** The first round begins at once. */
RESULT maintenance_start(struct gateway *gateway, struct maintenance **maintenance_out, struct error *err);
/** Begins the next round at once: there is something to do that should not wait. */
void maintenance_wake(struct maintenance *maintenance);
/** Ends the current round, then stops. */
void maintenance_free(struct maintenance *maintenance);
DEFINE_OWNED(maintenance);
