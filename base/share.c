#include "base/share.h"

int64_t share_limit(int64_t all, int64_t taken, int64_t little)
{
    const int64_t quarter = (all + 3) / 4; /* rounded up, so one of two or three units is reserved */

    if (taken < all - quarter) return all;
    return little < 1 ? 1 : little;
}
