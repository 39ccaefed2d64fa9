/*
 * crypto/sodium_priv.h -- libsodium, initialised: call sodium_ready() before anything else of it.
 */
#pragma once

#include <sodium.h>

/** Any number of times, from any thread. Ends the process if libsodium can't start: nothing works without it. */
void sodium_ready(void);
