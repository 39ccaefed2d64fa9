/*
 * base/share.h -- the fair share of a shared resource.
 *
 * The last quarter of the resource is reserved for users that have little of it. A user that has more gets nothing further
 * until more than a quarter is free. So a new user is never refused because another one took everything.
 */
#pragma once

#include <stdint.h>

/** Little, for most resources. */
#define SHARE_LITTLE(all) ((all) / 16)

/** The most units that a user may have, the next one included, while `taken` of `all` units are taken. It is `all` while
 *  more than a quarter is free; after that it is `little`, but at least one. */
int64_t share_limit(int64_t all, int64_t taken, int64_t little);
