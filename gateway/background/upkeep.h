/*
 * gateway/background/upkeep.h -- the threads that work on jobs (registry/jobs/job.h), one for each kind; and one that drops and records keys
 * that were forgotten (registry/jobs/forgotten.h), begins the collections of the clock, writes down what was pulled, and asks
 * which projects have a quota of events (gateway/pipeline/allotment.h).
 *
 * Each has a database connection of its own, and asks every few seconds whether there is a job that nobody works on. The
 * janitor (gateway/background/janitor.h) waits for none of them.
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
