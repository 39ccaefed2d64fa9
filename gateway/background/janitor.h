/*
 * gateway/background/janitor.h -- the thread that cleans up behind requests: ended upload sessions and their bytes. It also puts keyd's count
 * of unwrapped keys, and the head of their chain, into the log.
 *
 * It has a database connection of its own, works in small rounds, and records what it does like everybody else. It begins a turn every
 * 30 s, and cleans for at most 20 s in one: then old keys are forgotten and free memory is given back, however much there is left to clean.
 */
#pragma once

#include "base/owned.h"
#include "base/result.h"

struct gateway;
struct janitor;

/** The first turn begins at once. */
RESULT janitor_start(struct gateway *gateway, struct janitor **janitor_out, struct error *err);
/** Ends the round that runs, then stops. */
void janitor_free(struct janitor *janitor);
DEFINE_OWNED(janitor);
