/*
 * gateway/settings/settings.h -- the parameters of sijild (gateway/settings/settings.def), read and checked.
 *
 * A struct settings that passed settings_check() is complete and consistent; no other code checks it again.
 */
#pragma once

#include "base/config.h"

#define SETTINGS_REGIONS_MAX 32 /* more regions than the laws of any organisation need */

struct region_settings {
    char title[CONFIG_TEXT_SIZE]; /* the region's id: "local/main" */
#define REGION(...) CONFIG_FIELD(__VA_ARGS__)
#include "gateway/settings/settings.def"
};

struct settings {
#define SETTING(...) CONFIG_FIELD(__VA_ARGS__)
#include "gateway/settings/settings.def"
    size_t region_count;
    struct region_settings regions[SETTINGS_REGIONS_MAX];
};

/** All defaults; parameters without a default are "". For sijild --embedded and tests. */
RESULT settings_init(struct settings *settings, struct error *err);
/** Reads a file over the defaults and checks it. ERROR_INVALID names file, line, parameter and the allowed values. */
RESULT settings_read(const char *path, struct settings *settings, struct error *err);
/** The same, but reports all problems; messages don't name the file. False: the settings must not be used. */
bool settings_read_all(const char *path, struct settings *settings, struct problems *problems);
/** Checks that addresses, URLs, paths and buckets are well-formed, that files are readable, and that the metadata region is one
 *  of the regions. */
RESULT settings_check(const struct settings *settings, struct error *err);
void settings_examine(const struct settings *settings, struct problems *problems);
/** Whether it is a numeric IP address. A name is not allowed, because it could resolve to any address. */
bool settings_is_address(const char *text);
/** Whether it is https://host or https://host:port, in small letters. */
bool settings_is_public_url(const char *url);
/** A complete commented configuration file. */
RESULT settings_sample(struct buffer *text, struct error *err);
