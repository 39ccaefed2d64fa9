/*
 * gateway/background/region_watch.h -- a thread that asks every few seconds whether each region can still be used, for /readyz and the log.
 *
 * Of its own, because a file system that is away may hold it for as long as that lasts.
 */
#pragma once

#include "base/owned.h"
#include "base/result.h"

struct gateway;
struct places;

RESULT places_start(struct gateway *gateway, struct places **places_out, struct error *err);
void places_free(struct places *places);
DEFINE_OWNED(places);
