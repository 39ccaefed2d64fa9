#include "gateway/regions.h"

void regions_of(const struct settings *settings, struct registry_region regions[SETTINGS_REGIONS_MAX])
{
    for (size_t i = 0; i < settings->region_count; i++) {
        const struct region_settings *region = &settings->regions[i];
        regions[i] = (struct registry_region){.id = region->title,
                                              .driver = region->driver,
                                              .location = region->location,
                                              .endpoint = region->endpoint,
                                              .bucket = region->bucket,
                                              .bucket_location = region->bucket_location,
                                              .prefix = region->prefix,
                                              .access_key_file = region->access_key_file,
                                              .ca_file = region->ca_file,
                                              .endpoint_networks = region->endpoint_networks,
                                              .page_cache_blob_max = (uint64_t)settings->page_cache_blob_max};
    }
}
