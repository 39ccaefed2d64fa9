/* registry/blob_row.h -- a row of the table `blob`, as it was read; registry/stored_blob_store.h has the functions. */
#pragma once

#include "registry/key_cache.h"
#include "storage/blob_content.h"

struct blob_row {
    struct key_record key; /* its id is the blob's */
    struct blob_content content;
    bool is_damaged;
    bool is_due; /* less than half of its lease is left */
};
