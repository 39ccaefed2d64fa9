/*
 * storage/region.h -- where bytes may be, as storage sees it: a driver and a location.
 *
 * What a region is in law (geo, regimes, operator) is a signed document of policy/, never a row of this
 * record.
 */
#pragma once

#include <stdint.h>

#define REGION_ID_SIZE  64 /* "local/main": 63 letters at most, by the table's check */
#define REGION_TAG_SIZE 16 /* first half of SHA-256 of the id: names the region in object headers */
#define REGION_LOCATION_SIZE \
    1025 /* a path or endpoint and bucket: 1024 letters at most, by the table's check */

enum region_driver { REGION_DRIVER_FS, REGION_DRIVER_S3, REGION_DRIVER_MEMORY };

struct region {
    char id[REGION_ID_SIZE];
    uint8_t tag[REGION_TAG_SIZE];
    enum region_driver driver;
    char location[REGION_LOCATION_SIZE]; /* directory, or endpoint, bucket and prefix; never a secret */
};
