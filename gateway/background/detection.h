/*
 * gateway/background/detection.h -- the thread that watches the log with the detection rules in force (docs/detection.md).
 */
#pragma once

#include "base/owned.h"
#include "base/result.h"

struct gateway;
struct detection;

/** While the server runs: it must be freed after the server stops. */
RESULT detection_start(struct gateway *gateway, struct detection **detection_out, struct error *err);
void detection_free(struct detection *detection);
DEFINE_OWNED(detection);
