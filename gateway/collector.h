/*
 * gateway/collector.h -- the thread that collects garbage: runs that were asked for, and those of the clock. It also writes
 * down what was pulled, and which projects have a quota of events (gateway/allotment.h).
 *
 * It has a database connection of its own, and works in small steps beside everybody else; the janitor (gateway/janitor.h)
 * never waits for it.
 */
#pragma once

#include "base/owned.h"
#include "base/result.h"

struct collector;
struct gateway;

RESULT collector_start(struct gateway *gateway, struct collector **collector_out, struct error *err);
/** Looks for runs now, not at its next turn. NULL: nothing. */
void collector_wake(struct collector *collector);
/** Ends the step that runs, leaves the run to others, then stops. */
void collector_free(struct collector *collector);
DEFINE_OWNED(collector);
