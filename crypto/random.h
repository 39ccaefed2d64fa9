/*
 * crypto/random.h -- unpredictable bytes from the kernel's generator.
 */
#pragma once

#include <stddef.h>

/** Fills `length` bytes. Never fails: a kernel without randomness ends the process. */
void random_bytes(void *out, size_t length);
