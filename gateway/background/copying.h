/*
 * gateway/background/copying.h -- a thread that makes the copies of content in further regions, and withdraws them (registry/copies/copier.h).
 */
#pragma once

#include "base/owned.h"
#include "base/result.h"

struct gateway;
struct copying;

RESULT copying_start(struct gateway *gateway, struct copying **copying_out, struct error *err);
void copying_free(struct copying *copying);
DEFINE_OWNED(copying);
