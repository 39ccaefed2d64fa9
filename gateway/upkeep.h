/*
 * gateway/upkeep.h -- the threads that work on jobs (registry/job.h): one for scrubs, one for re-wraps; and one that drops
 * and records keys that were forgotten (registry/forgotten.h).
 *
 * Each has a database connection of its own, and asks every few seconds whether there is a job that nobody works on.
 */
#pragma once

#include "base/owned.h"
#include "base/result.h"

struct gateway;
struct upkeep;

RESULT upkeep_start(struct gateway *gateway, struct upkeep **upkeep_out, struct error *err);
/** A job was begun here: look at once. */
void upkeep_wake(struct upkeep *upkeep);
/** Lets go of what they work on, and stops. */
void upkeep_free(struct upkeep *upkeep);
DEFINE_OWNED(upkeep);
