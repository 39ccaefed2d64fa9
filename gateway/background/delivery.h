/*
 * gateway/background/delivery.h -- delivers the log to the sinks that are in force, each in a thread of its own (docs/delivery.md).
 *
 * A further thread looks for sinks that came into force, changed or ended.
 */
#pragma once

#include "base/owned.h"
#include "base/result.h"

struct gateway;
struct delivery;

/** While the server runs: it must be freed after the server stops. */
RESULT delivery_start(struct gateway *gateway, struct delivery **delivery_out, struct error *err);
void delivery_free(struct delivery *delivery);
DEFINE_OWNED(delivery);

#define DELIVERY_SINKS_MAX 16 /* in force at a time: each has a thread and a connection to the database */
