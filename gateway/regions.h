/*
 * gateway/regions.h -- the regions of the configuration, in the form that registry/ takes.
 */
#pragma once

#include "gateway/settings/settings.h"
#include "registry/registry.h"

/** Fills settings->region_count entries, as views of the settings. */
void regions_of(const struct settings *settings, struct registry_region regions[SETTINGS_REGIONS_MAX]);
