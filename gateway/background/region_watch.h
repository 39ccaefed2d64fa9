/*
 * gateway/background/region_watch.h -- a thread that checks every few seconds whether each region can be used, for /readyz and the log.
 *
 * It is a separate thread, because a file system without an answer can block it for a long time.
 */
#pragma once

#include "base/owned.h"
#include "base/result.h"

struct gateway;
struct region_watch;

RESULT region_watch_start(struct gateway *gateway, struct region_watch **watch_out, struct error *err);
void region_watch_free(struct region_watch *watch);
DEFINE_OWNED(region_watch);
