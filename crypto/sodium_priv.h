/*
 * crypto/sodium_priv.h -- initialises libsodium: call sodium_ready() before its other functions.
 */
#pragma once

#include <sodium.h>

/** May be called often, from any thread. Ends the process if libsodium can't start, because nothing works without it. */
void sodium_ready(void);
