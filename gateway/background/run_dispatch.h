/*
 * gateway/background/run_dispatch.h -- the thread that has requested runs ordered (training/order_jobs.h), and wakes waiting runners when
 * there is work in their pool. It also looks which leases have ended whose bodies move (gateway/pipeline/run_endings.h).
 *
 * It has a database connection and works when PostgreSQL notifies, and every few seconds. It wakes runners a few at a time, those first that
 * have waited longest, and each at most once until it has gone through all. So many waiting runners and many runs that fit none of them cost
 * little.
 */
#pragma once

#include "base/owned.h"
#include "base/result.h"

struct gateway;
struct run_dispatch;

/** While the server runs: it must be freed before the server stops. */
RESULT run_dispatch_start(struct gateway *gateway, struct run_dispatch **dispatch_out, struct error *err);
void run_dispatch_free(struct run_dispatch *dispatch);
DEFINE_OWNED(run_dispatch);
