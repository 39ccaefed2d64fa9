/*
 * base/share.h -- nobody takes all of what many share.
 *
 * The rule: the last quarter of a shared thing is for those who have little of it. Whoever has more gets nothing further until more
 * than a quarter is free, so one who comes new is never refused for the sake of the greedy.
 */
#pragma once

#include <stdint.h>

/** What is little of most things. */
#define SHARE_LITTLE(all) ((all) / 16)

/** How much one may have, the next included, while `taken` of `all` are taken: all of it, and of the last quarter `little`, but at least one. */
int64_t share_most(int64_t all, int64_t taken, int64_t little);
