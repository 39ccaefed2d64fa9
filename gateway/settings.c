#include "gateway/settings.h"

#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "gateway/hosts.h"

static const struct config_parameter parameters[] = {
#define SETTING(...) CONFIG_ROW(struct settings, __VA_ARGS__)
#include "gateway/settings.def"
};

static const struct config_parameter region_parameters[] = {
#define REGION(...) CONFIG_ROW(struct region_settings, __VA_ARGS__)
#include "gateway/settings.def"
};

static const struct config_section sections[] = {
    {
        .name = "region",
        .help = "One for each place that bytes may be in; the title is the region's id, such as \"local/main\"",
        .parameters = region_parameters,
        .parameter_count = sizeof region_parameters / sizeof region_parameters[0],
        .element_size = sizeof(struct region_settings),
        .maximum = SETTINGS_REGIONS_MAX,
        .array_offset = offsetof(struct settings, regions),
        .count_offset = offsetof(struct settings, region_count),
    },
};

static const struct config_form form = {
    .parameters = parameters,
    .parameter_count = sizeof parameters / sizeof parameters[0],
    .sections = sections,
    .section_count = sizeof sections / sizeof sections[0],
};

struct result settings_init(struct settings *settings, struct error *err)
{
    memset(settings, 0, sizeof *settings);
    return config_defaults(&form, settings, err);
}

/* https://host[:port]: where clients are sent that came by a name not in allowed_hosts, and `iss` of tokens. */
static bool is_public_url(const char *url)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789.-:[]";
    const size_t length = strlen(url);

    return strncmp(url, "https://", 8) == 0 && length > 8 && url[8 + strspn(url + 8, letters)] == '\0' &&
           url[length - 1] != ':';
}

/* Goes into headers between quotes, and into tokens. */
static bool is_word(const char *text)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_:/";
    const size_t length = strspn(text, letters);
    return length > 0 && text[length] == '\0';
}

static struct result check_file(const char *name, const char *path, struct error *err)
{
    if (path[0] == '\0' || access(path, R_OK) == 0) return SUCCESS;
    return failure(err, ERROR_INVALID, "%s = %.180s: this file can't be read", name, path);
}

static bool has_region(const struct settings *settings, const char *id)
{
    for (size_t i = 0; i < settings->region_count; i++)
        if (strcmp(settings->regions[i].title, id) == 0) return true;
    return false;
}

/* The forms are storage/'s to judge; here is what a person may have left out. */
static struct result check_bucket(const struct region_settings *region, struct error *err)
{
    if (region->endpoint[0] == '\0' || region->bucket[0] == '\0' || region->bucket_location[0] == '\0' ||
        region->access_key_file[0] == '\0')
        return failure(err, ERROR_INVALID,
                       "region %.63s: driver = s3 needs endpoint, bucket, bucket_location and access_key_file", region->title);
    TRY(check_file("access_key_file", region->access_key_file, err));
    return check_file("ca_file", region->ca_file, err);
}

static struct result check_regions(const struct settings *settings, struct error *err)
{
    if (settings->region_count == 0)
        return failure(err, ERROR_INVALID, "there is no region: add region \"provider/region\" { driver = fs ... }");
    for (size_t i = 0; i < settings->region_count; i++) {
        const struct region_settings *region = &settings->regions[i];
        if (strcmp(region->driver, "fs") != 0 && strcmp(region->driver, "s3") != 0 && strcmp(region->driver, "memory") != 0)
            return failure(err, ERROR_INVALID, "region %.63s: driver = %.40s: fs, s3 or memory", region->title, region->driver);
        if (strcmp(region->driver, "fs") == 0 && region->location[0] != '/')
            return failure(err, ERROR_INVALID, "region %.63s: location: an absolute path", region->title);
        if (strcmp(region->driver, "s3") == 0) TRY(check_bucket(region, err));
    }
    if (!has_region(settings, settings->metadata_region))
        return failure(err, ERROR_INVALID, "metadata_region = %.63s: no region section has this title",
                       settings->metadata_region);
    return SUCCESS;
}

static struct result check_texts(const struct settings *settings, struct error *err)
{
    enum log_level level;

    if (!is_public_url(settings->public_url))
        return failure(err, ERROR_INVALID, "public_url = %.100s: https://host or https://host:port, without a path",
                       settings->public_url);
    TRY(hosts_check(settings->allowed_hosts, err));
    if (!is_word(settings->service)) return failure(err, ERROR_INVALID, "service: letters, digits and . - _ : /");
    if (!is_word(settings->instance) || strlen(settings->instance) > 63)
        return failure(err, ERROR_INVALID, "instance: at most 63 letters, digits and . - _ : /");
    if (!log_level_find(settings->log_level, &level))
        return failure(err, ERROR_INVALID, "log_level = %.40s: debug, info, warning or error", settings->log_level);
    return SUCCESS;
}

struct result settings_check(const struct settings *settings, struct error *err)
{
    TRY(check_texts(settings, err));
    TRY(check_regions(settings, err));
    TRY(check_file("tls_certificate", settings->tls_certificate, err));
    TRY(check_file("tls_key", settings->tls_key, err));
    return check_file("tls_client_ca", settings->tls_client_ca, err);
}

struct result settings_read(const char *path, struct settings *settings, struct error *err)
{
    memset(settings, 0, sizeof *settings);
    TRY(config_read(&form, path, settings, err));
    return settings_check(settings, err);
}

struct result settings_sample(struct buffer *text, struct error *err)
{
    TRY(buffer_add_text(text, "# sijild.conf: every parameter with its default. Check a file with sijild --config=FILE --check-config.\n\n", err));
    return config_write_sample(&form, text, err);
}
