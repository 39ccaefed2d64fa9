/*
 * gateway/background/runner_doubts.h -- after a runner was withdrawn: what becomes of the runs whose results don't count (training/doubt.h).
 */
#pragma once

#include "base/result.h"

struct gateway;
struct pg;

/**
 * One round. It begins with the documents in force and not with a request, so a gateway that ended after the withdrawal and before this leaves it to the
 * next round. True: there is more to do. Failures are logged. Blocks.
 */
bool runner_doubts_add(struct gateway *gateway, struct pg *pg);
