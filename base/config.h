/*
 * base/config.h -- configuration files from one table of parameters.
 *
 * A program writes its parameters once, as an X-macro table; the struct that holds their values, the reader, the
 * check, the sample file and the documentation all come from it. Files are in libconfuse's form. Nothing unknown
 * is ignored: a wrong name, type or range is ERROR_INVALID with the line and the nearest name.
 *
 *     #define SERVER_PARAMETERS(X) \
 *         X(TEXT, listen_address, "127.0.0.1", 0, 0, "", "Address to listen on") \
 *         X(INTEGER, listen_port, "8443", 1, 65535, "", "TCP port")
 *     struct server_settings { SERVER_PARAMETERS(CONFIG_FIELD) };
 *     static const struct config_parameter parameters[] = {
 *     #define X(...) CONFIG_ROW(struct server_settings, __VA_ARGS__)
 *         SERVER_PARAMETERS(X)
 *     #undef X
 *     };
 */
#pragma once

#include <stdint.h>

#include "base/bytes.h"
#include "base/problems.h"

#define CONFIG_TEXT_SIZE 512 /* paths, URLs and connection strings; longer ones are refused */

enum config_type { CONFIG_TEXT, CONFIG_INTEGER, CONFIG_BOOLEAN };

struct config_parameter {
    enum config_type type;
    const char *name;
    const char *initial;      /* default, as written in the file; NULL: must be given */
    int64_t minimum, maximum; /* of integers */
    const char *unit;         /* "ms", "bytes"; "" for none */
    const char *help;         /* one sentence */
    size_t offset;            /* of the value in the struct */
};

/** A named section that may stand several times: region "local/main" { ... }. Its struct begins with `char title[CONFIG_TEXT_SIZE]`. */
struct config_section {
    const char *name, *help;
    const struct config_parameter *parameters;
    size_t parameter_count;
    size_t element_size, maximum;      /* of the array that holds them */
    size_t array_offset, count_offset; /* in the struct; the count is a size_t */
};

/** A parameter of an older version, which is refused with what to do about it. */
struct config_gone {
    const char *name, *instead;
};

struct config_form {
    const struct config_parameter *parameters;
    size_t parameter_count;
    const struct config_section *sections;
    size_t section_count;
    const struct config_gone *gone;
    size_t gone_count;
};

#define CONFIG_FIELD_TEXT(name)    char name[CONFIG_TEXT_SIZE];
#define CONFIG_FIELD_INTEGER(name) int64_t name;
#define CONFIG_FIELD_BOOLEAN(name) bool name;
#define CONFIG_FIELD(type, name, initial, minimum, maximum, unit, help) CONFIG_FIELD_##type(name)
#define CONFIG_ROW(holder, type, name, initial, minimum, maximum, unit, help) \
    {CONFIG_##type, #name, initial, minimum, maximum, unit, help, offsetof(holder, name)},

/** Sets every value to its default (texts that must be given become ""). `settings` is the zeroed struct. */
RESULT config_defaults(const struct config_form *form, void *settings, struct error *err);
/** Reads the file over the defaults. ERROR_INVALID names file, line, parameter and what is allowed. */
RESULT config_read(const struct config_form *form, const char *path, void *settings, struct error *err);
/**
 * The same, telling everything that is wrong; messages don't name the file. False: the file was not understood to its end, so that
 * what `settings` has means nothing. What has no good value keeps its default.
 */
bool config_read_all(const struct config_form *form, const char *path, void *settings, struct problems *problems);
/** A complete commented file with all defaults. */
RESULT config_write_sample(const struct config_form *form, struct buffer *text, struct error *err);
