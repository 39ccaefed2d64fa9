/*
 * storage/region.h -- a region as storage sees it: a driver and a location.
 *
 * The legal facts of a region (geo, regimes, operator) are in a signed document of policy/, never in this row.
 */
#pragma once

#include <stdint.h>

#define REGION_ID_SIZE       64   /* "local/main": at most 63 characters, by the table's check */
#define REGION_TAG_SIZE      16   /* first half of the SHA-256 of the id: identifies the region in object headers */
#define REGION_LOCATION_SIZE 1025 /* a path, or endpoint and bucket: at most 1024 characters, by the table's check */

enum region_driver { REGION_DRIVER_FS, REGION_DRIVER_S3, REGION_DRIVER_MEMORY };

struct region {
    char id[REGION_ID_SIZE];
    uint8_t tag[REGION_TAG_SIZE];
    enum region_driver driver;
    char location[REGION_LOCATION_SIZE]; /* directory, or endpoint, bucket and prefix; never a secret */
};
