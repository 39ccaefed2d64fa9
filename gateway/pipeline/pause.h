/*
 * gateway/pipeline/pause.h -- ends the waits of requests that wait for something (request_wait_for()). Thread-safe, while the server runs.
 */
#pragma once

#include "gateway/pipeline/gateway.h"

/**
 * Lets at most `most` requests with this topic go on, the one that has waited longest first. A round reaches each request once: give
 * the same number again for the next ones, and a higher number, from 1 on, for the next round. Returns how many go on.
 */
size_t pause_wake(struct gateway *gateway, const char *topic, uint64_t round, size_t most);
