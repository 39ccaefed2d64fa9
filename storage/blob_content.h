/* storage/blob_content.h -- the values of a closed blob's row, for code that may not see the driver. */
#pragma once

#include "crypto/digest.h"

struct blob_content {
    uint64_t length;      /* bytes of content */
    uint32_t part;        /* the extent that closes the blob; a reader starts there */
    struct digest digest; /* the expected digest */
};
